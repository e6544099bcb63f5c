//! Where sessions are, if nodes share a store.

use std::time::Duration;

/// How long a caller should wait before it tries again: a lease ends within this time, and somebody takes the session over.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Why a session cannot be used here now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The node that owns the session does not answer.
    #[error(
        "session '{session_id}' is on node '{node}', which cannot be reached; nothing was run. If that node is gone, another takes the session over within seconds. Repeat the request; with the same request_id a command runs only once"
    )]
    OwnerUnreachable {
        /// The session.
        session_id: String,
        /// The node.
        node: String,
    },
    /// Another node took the session over.
    #[error(
        "session '{session_id}' moved to another node while this was under way; what this node did since is not part of it. Repeat the request; with the same request_id a command runs only once"
    )]
    Moved {
        /// The session.
        session_id: String,
    },
}

impl ClusterError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OwnerUnreachable { .. } => "owner_unreachable",
            Self::Moved { .. } => "session_moved",
        }
    }

    /// When to try again.
    pub fn retry_after(&self) -> Duration {
        TRY_AGAIN
    }

    /// Which session.
    pub fn session_id(&self) -> &str {
        match self {
            Self::OwnerUnreachable { session_id, .. } | Self::Moved { session_id } => session_id,
        }
    }
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// The URL at which other nodes reach it; empty if there is none.
    pub url: String,
    /// Version of its program.
    pub version: String,
    /// When it started, RFC 3339.
    pub since: String,
    /// How many sessions are awake there.
    pub sessions: u64,
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Here, or nowhere: this node answers.
    Here,
    /// On another node.
    There(ClusterNode),
}
