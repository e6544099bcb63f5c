//! How a session is confined.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far the processes of a session are confined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxName {
    /// Not at all.
    #[default]
    None,
    /// They are another user's, one for each agent, and may do what the permissions of files allow that user. Needs a
    /// daemon that runs as root.
    User,
    /// They read the system, write to their own directories, and reach no other process.
    Fence,
    /// Like a fence, and they see only their own processes, a root directory of their own, and a network of their own
    /// unless the host shares the machine's.
    Room,
}

/// Which network a room has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkName {
    /// A loopback device of its own, and no other.
    None,
    /// That of the machine.
    Full,
}

impl SandboxName {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::User => "user",
            Self::Fence => "fence",
            Self::Room => "room",
        }
    }
}

/// Body of `PUT …/sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxRequest {
    /// How far its processes are to be confined; not less than they are.
    pub sandbox: SandboxName,
}

/// How a session is confined, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxInForce {
    /// The session.
    pub session_id: String,
    /// How far its processes are confined.
    pub sandbox: SandboxName,
    /// Who set that.
    pub set_by: SandboxSource,
    /// Why no command can run: this machine does not support the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// What the sandbox does not stop on this machine: `signals` to other processes of the same user, `abstract_sockets` of
    /// other processes.
    pub missing: Vec<String>,
    /// Its network, if it is in a room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The hosts that it may connect to nevertheless, as `NAME:PORT`, if it is in a room with the network `none`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// `HOME` of its commands, if they are confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// `TMPDIR` of its commands, if they are confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<String>,
    /// Directories and files that its commands may only read, if they are confined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Directories that its commands may read and write, if they are confined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
}

/// Who set how far a session is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxSource {
    /// The daemon's settings.
    Node,
    /// The session was created with it, or tightened.
    Session,
}
