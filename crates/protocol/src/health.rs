//! How a daemon stands.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /healthz`: the process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// Always `ok`.
    pub status: String,
    /// The daemon's version.
    pub version: String,
}

/// Answer of `GET /readyz`: whether it can do its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// In a word.
    pub status: ReadinessStatus,
    /// Why it is degraded, one sentence each.
    pub problems: Vec<String>,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Shells started ahead.
    pub spare_shells: usize,
    /// The daemon's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
}

/// Whether all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadinessStatus {
    /// All is well.
    Ready,
    /// It serves, but something is wrong; `problems` says what.
    Degraded,
}
