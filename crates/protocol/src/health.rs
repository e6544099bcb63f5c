//! The health of a daemon.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Response of `GET /healthz`: the process responds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// Always `ok`.
    pub status: String,
    /// The daemon's version.
    pub version: String,
}

/// Response of `GET /readyz`: whether the daemon works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// The status.
    pub status: ReadinessStatus,
    /// Why it is degraded, one sentence each.
    pub problems: Vec<String>,
    /// The same as `problems`.
    pub reasons: Vec<String>,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Shells started in advance.
    pub spare_shells: usize,
    /// The daemon's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
}

/// Whether the daemon works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadinessStatus {
    /// Everything works.
    Ready,
    /// It serves, but something is wrong; `problems` says what.
    Degraded,
    /// It takes no more sessions, and other nodes take over those it has. `/readyz` answers 503.
    Draining,
}
