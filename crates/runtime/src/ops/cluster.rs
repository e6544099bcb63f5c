//! Where sessions are, if nodes share a store.

use super::Hint;
pub use shellkeep_shared::NodeEntry;
use std::time::Duration;

/// How long a caller should wait before it tries again: a lease ends within this time, and someone takes the session over.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Why a session cannot be used here now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The node that owns the session does not answer.
    #[error(
        "session '{session_id}' is on node '{node}', which cannot be reached; nothing was run. If that node is gone, another takes the session over within seconds. Repeat the request; with the same request_id a command runs only once"
    )]
    OwnerUnreachable { session_id: String, node: String },
    /// The node that owns the session stopped answering after it was sent the request.
    #[error(
        "session '{session_id}' is on node '{node}', which stopped answering during this request; it may have run. If that node is gone, another takes the session over within seconds. Repeat the request; with the same request_id a command runs only once"
    )]
    OwnerLost { session_id: String, node: String },
    /// This node takes no more sessions, and there is no other that does.
    #[error(
        "node '{node}' is being drained and takes no more sessions, and no other node accepts them; nothing was run. Start another node, or try again later"
    )]
    Draining { node: String },
    /// This node is drained, and another is to have the session.
    #[error(
        "session '{session_id}' is about to leave node '{node}', which is being drained; nothing was run. Repeat the request: another node takes the session when its commands have ended"
    )]
    Leaving { session_id: String, node: String },
    /// Another node does not answer.
    #[error("node '{node}' cannot be reached; it may have received the request. Try again")]
    NodeUnreachable { node: String },
    /// This node cannot reach the shared store, and begins nothing without it.
    #[error(
        "node '{node}' cannot reach the shared store, and other nodes may have its sessions; nothing was run. Ask another node, or repeat the request; with the same request_id a command runs only once"
    )]
    Alone { node: String },
    /// The name of a deleted session that the shared store still has.
    #[error(
        "session '{session_id}' was deleted, but the shared store cannot be reached and still has it; the name is free when the store is back. Try again, or use another name"
    )]
    NameInUse { session_id: String },
    /// Another request, which has not ended yet, has the name.
    #[error(
        "node '{node}' is creating session '{session_id}' or a fork with that name; nothing was done. Repeat the request in a few seconds"
    )]
    BeingMade { session_id: String, node: String },
    /// No node has this name.
    #[error("there is no node '{node}' among those that are alive")]
    NoSuchNode { node: String },
    /// A fork and its origin are on different nodes.
    #[error(
        "session '{origin}', which '{fork}' was forked from, is on node '{node}', and '{fork}' on node '{here}'; a merge needs both on one node. Nothing was changed. After the host has drained node '{node}', merge again: the origin then moves to '{here}'"
    )]
    OriginElsewhere {
        fork: String,
        origin: String,
        /// The node that has the origin.
        node: String,
        /// The node that has the fork.
        here: String,
    },
    /// Another node took the session over.
    #[error(
        "session '{session_id}' moved to another node during this request; work done here since then was discarded. Repeat the request; with the same request_id a command runs only once"
    )]
    Moved { session_id: String },
    /// Another node has the session, or is about to: it left the node that was asked while the request was on its way.
    #[error(
        "session '{session_id}' is moving to another node, or has just moved; this request changed nothing. Repeat it: it is sent to that node, and an event stream continues after Last-Event-ID"
    )]
    Moving { session_id: String },
}

impl ClusterError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::OwnerUnreachable { .. } | Self::OwnerLost { .. } | Self::Moving { .. } | Self::BeingMade { .. } => {
                "owner_unreachable"
            }
            Self::Moved { .. } => "session_moved",
            Self::Draining { .. } | Self::Leaving { .. } => "node_draining",
            Self::NodeUnreachable { .. } => "node_unreachable",
            Self::Alone { .. } => "node_alone",
            Self::NameInUse { .. } => "store_unavailable",
            Self::NoSuchNode { .. } => "node_not_found",
            Self::OriginElsewhere { .. } => "origin_elsewhere",
        }
    }

    /// When to try again, if that can help.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            // Both are about nodes, which do not change by themselves.
            Self::NoSuchNode { .. } | Self::OriginElsewhere { .. } => None,
            _ => Some(TRY_AGAIN),
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoSuchNode { .. } => Some(Hint::ListNodes),
            _ => None,
        }
    }

    /// Which session, if it is about one.
    pub fn session_id(&self) -> Option<&str> {
        match self {
            Self::OwnerUnreachable { session_id, .. }
            | Self::OwnerLost { session_id, .. }
            | Self::Leaving { session_id, .. }
            | Self::BeingMade { session_id, .. }
            | Self::NameInUse { session_id }
            | Self::Moved { session_id }
            | Self::Moving { session_id } => Some(session_id),
            Self::OriginElsewhere { origin, .. } => Some(origin),
            Self::Draining { .. } | Self::NodeUnreachable { .. } | Self::Alone { .. } | Self::NoSuchNode { .. } => None,
        }
    }
}

/// Whether another node reaches the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaches {
    /// It does.
    Store,
    /// It does not, and takes no session for the time of a lease.
    Nothing,
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Here, or nowhere: this node answers.
    Here,
    /// On another node.
    There(NodeEntry),
}
