//! The audit trail.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that changed rights or removed something, or a request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// Through which door: `socket`, `tcp` or `daemon`.
    pub door: String,
    /// Who: `host`, the id of a token, `session NAME` for a process of that session, or `unknown`.
    pub who: String,
    /// What was done, or `refused`.
    pub what: String,
    /// To what; for a refusal the method and path.
    pub object: String,
    /// Why it was refused: the problem's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How many more there were of which nothing was kept, because they were too many at once.
    #[serde(default)]
    pub left_out: u64,
}

/// Answer of `GET /v1/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// The entries, the oldest first.
    pub audit: Vec<AuditEntry>,
}
