//! How a session is confined.

use shellkeep_session::{AllowedHost, Network, Sandbox, SessionId};
use std::path::PathBuf;

/// How a session is confined, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxView {
    pub session_id: SessionId,
    /// How far its processes are confined.
    pub sandbox: Sandbox,
    /// Who set that.
    pub set_by: SandboxSource,
    /// Why no command can run: this machine does not support the sandbox.
    pub unavailable: Option<String>,
    /// What the sandbox does not stop on this machine, as stable names.
    pub missing: Vec<&'static str>,
    /// Its network, if it is in a room.
    pub network: Option<Network>,
    /// The hosts that its room may connect to.
    pub hosts: Vec<AllowedHost>,
    /// The directories that its processes may use; none if they are not confined.
    pub places: Option<SandboxPlaces>,
}

/// Who set how far a session is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxSource {
    /// The daemon's settings: every session is confined so at least.
    Node,
    /// The session was created with it, or tightened.
    Session,
}

/// What the processes of a confined session may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlaces {
    pub home: PathBuf,
    pub tmp: PathBuf,
    /// What they may only read.
    pub read: Vec<PathBuf>,
    /// What they may read and write.
    pub write: Vec<PathBuf>,
}

/// Whether this machine supports a sandbox, as it was tried when the daemon started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSupport {
    pub sandbox: Sandbox,
    /// Why it is not available.
    pub unavailable: Option<String>,
    /// What it does not stop here.
    pub missing: Vec<&'static str>,
}
