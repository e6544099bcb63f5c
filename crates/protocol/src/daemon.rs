//! The daemon itself: its status and settings, reload and stop.

use crate::ReadinessStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Response of `GET /v1/daemon`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DaemonStatus {
    /// Its status.
    pub status: ReadinessStatus,
    /// Why it is degraded, one sentence each.
    pub problems: Vec<String>,
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it was started.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// Seconds since then.
    pub uptime: f64,
    /// Its data directory.
    pub data: String,
    /// Its configuration file, if it read one.
    pub config_file: Option<String>,
    /// Where it listens: `unix:PATH` and `http://HOST:PORT`.
    pub doors: Vec<String>,
    /// The kind of its store, as in `sqlite`.
    pub store: String,
    /// Number of sessions.
    pub sessions: usize,
    /// Sessions with a shell.
    pub live_shells: usize,
    /// Running commands.
    pub running: usize,
    /// Running services.
    pub services: usize,
    /// Seconds that running commands get to finish when it stops.
    pub stop_grace: f64,
}

/// A setting in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingInForce {
    /// Its value, as text. A secret is never shown.
    pub value: String,
    /// Where it came from: `flag`, `env NAME`, `file PATH` or `default`.
    pub source: String,
}

/// Response of `GET /v1/daemon/settings`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsInForce {
    /// By name, as in the configuration file.
    pub settings: BTreeMap<String, SettingInForce>,
    /// The file that was read, if one was.
    pub file: Option<String>,
}

/// A setting whose configured value has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedSetting {
    /// Its name.
    pub name: String,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
}

/// Response of `POST /v1/daemon/reload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Changes that are in effect now.
    pub changed: Vec<ChangedSetting>,
    /// Changes that need a restart.
    pub needs_restart: Vec<ChangedSetting>,
}

/// Body of `POST /v1/daemon/stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Do not wait for running commands, and stop even if records that the disk cannot store are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// Start again afterwards, with the same process id, flags and environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
}

/// Response of `POST /v1/daemon/stop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// Running commands.
    pub running: usize,
    /// Seconds that they get to finish.
    pub grace: f64,
    /// The daemon's process id.
    pub pid: u32,
}
