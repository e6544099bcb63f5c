//! Quotas: what may be used, and what is.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `PUT /v1/quotas`: new limits by name. Those that are not named stay; `null` brings back what the settings say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(example = json!({"services_per_agent": 10, "processes": null}))]
pub struct QuotasRequest(#[serde(deserialize_with = "crate::whole::by_name")] pub BTreeMap<String, Option<u64>>);

/// Answer of `GET /v1/quotas` and of `PUT /v1/quotas`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotasResponse {
    /// The quotas by name.
    pub quotas: BTreeMap<String, Quota>,
    /// The last changes that the machine's pressure made, the newest first. Empty for an agent.
    pub changes: Vec<LimitChange>,
}

/// One quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// What the settings say.
    pub configured: u64,
    /// What was set since, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<u64>,
    /// What is in force now; less than was set while the machine is under pressure.
    pub limit: u64,
    /// What is used now, where that is one number. An agent sees its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
}

/// A limit that followed the machine's pressure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitChange {
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// Which limit.
    pub limit: String,
    /// What it was.
    pub from: u64,
    /// What it is since.
    pub to: u64,
    /// Why, in a sentence.
    pub reason: String,
}
