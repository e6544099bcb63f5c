//! What a door needs from the program that it is part of: the settings in effect, and a way to stop or reload it.

use shellkeep_protocol::{Reloaded, SettingsInForce};
use std::path::PathBuf;
use std::time::Duration;

/// The running program, as the doors see it.
pub trait Control: Send + Sync {
    /// What does not change while it runs.
    fn facts(&self) -> DaemonFacts;
    /// The settings in effect.
    fn settings(&self) -> SettingsInForce;
    /// How long running commands get to finish when it stops.
    fn stop_grace(&self) -> Duration;
    /// Reads the configuration again. If it is invalid, fails with a sentence and changes nothing. May read files.
    fn reload(&self) -> Result<Reloading, String>;
    /// Whether it could start with the configuration as it is now. If not, fails with a sentence. May read files.
    fn check_configuration(&self) -> Result<(), String>;
    /// Starts to stop. Returns immediately.
    fn stop(&self, order: StopOrder);
}

/// What does not change while a daemon runs.
#[derive(Debug, Clone)]
pub struct DaemonFacts {
    /// When it was started, RFC 3339.
    pub started_at: String,
    pub data: PathBuf,
    /// Where it listens.
    pub doors: Vec<String>,
    /// The kind of its store: the scheme of its URL, without a possible password.
    pub store: String,
}

/// The result of a reload.
pub struct Reloading {
    /// For the caller.
    pub report: Reloaded,
    /// The quotas as they are configured now.
    pub quotas: shellkeep_session::Quotas,
}

/// How a daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopOrder {
    /// Whether running commands get no time to finish.
    pub now: bool,
    /// Whether it starts again.
    pub restart: bool,
}
