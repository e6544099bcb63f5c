//! Quotas: limits and their use.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `PUT /v1/quotas`: new limits by name. Others do not change; `null` resets a limit to its configured value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(example = json!({"services_per_agent": 10, "processes": null}))]
pub struct QuotasRequest(#[serde(deserialize_with = "crate::whole::by_name")] pub BTreeMap<String, Option<u64>>);

/// Response of `GET /v1/quotas` and of `PUT /v1/quotas`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotasResponse {
    /// The quotas by name.
    pub quotas: BTreeMap<String, Quota>,
    /// The latest changes caused by the machine's pressure, newest first. Empty for an agent.
    pub changes: Vec<LimitChange>,
}

/// One quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// The configured value.
    pub configured: u64,
    /// The value set at run time, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<u64>,
    /// The limit in effect; lower while the machine is under pressure.
    pub limit: u64,
    /// What is used now, where that is one number. An agent sees its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
}

/// A limit that was changed because of the machine's pressure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitChange {
    /// When it was changed.
    #[schema(format = DateTime)]
    pub at: String,
    /// Which limit.
    pub limit: String,
    /// The value before.
    pub from: u64,
    /// The value after.
    pub to: u64,
    /// The reason, as a sentence.
    pub reason: String,
}
