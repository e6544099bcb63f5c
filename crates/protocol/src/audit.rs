//! The audit trail.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An operation that changed permissions or deleted something, or a request that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When it happened.
    #[schema(format = DateTime)]
    pub at: String,
    /// The door it came through: `socket`, `tcp` or `daemon`.
    pub door: String,
    /// Who: `host`, the id of a token, `session NAME` for a process of that session, or `unknown`.
    pub who: String,
    /// The agent whose token it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The operation, or `refused`.
    pub what: String,
    /// What it was about; for a rejected request the method and path.
    pub object: String,
    /// Why it was rejected: the problem's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How many more entries were left out here, because there were too many at once.
    #[serde(default)]
    pub left_out: u64,
}

/// Response of `GET /v1/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// The entries, oldest first.
    pub audit: Vec<AuditEntry>,
}
