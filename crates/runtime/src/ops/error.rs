//! Why an operation was refused: one enum for each family of operations, and what they have in common.

mod checkpoint;
mod record;
mod run;
mod service;
mod session;
mod token;

pub use checkpoint::{CheckpointError, Conflict, Gone};
pub use record::{RecordError, SearchNext};
pub use run::{RunError, WhileBusy, whole_seconds};
pub use service::ServiceError;
pub use session::SessionError;
pub use token::TokenError;

use super::{ClusterError, FileError, FilesReason, Hint, KvError, QuotaMet, ResumeError};
use crate::shares::Full;
use tokio::task::JoinError;

/// Why an operation was refused. The sentence states the fact; [`OpError::hint`] says what to do next, and each door
/// words that as a command, a route or a tool.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpError {
    /// The request is invalid.
    #[error("{detail}")]
    Invalid {
        /// What is wrong and what would be right.
        detail: String,
    },
    /// Permission denied.
    #[error("{detail}")]
    NotAllowed {
        /// Which right, and who has it.
        detail: String,
    },
    /// A quota is reached.
    #[error("{0}")]
    QuotaExceeded(Box<QuotaMet>),
    /// A file of the workspace was not read, written or removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The keyed store was not read or changed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A command was not run, or a run was not found.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Files were not saved, compared, restored, copied or merged.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A session was not created or found, or cannot work.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A service was not started or found.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A recording, or the agent's state, was not read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A token was not created, found or revoked.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The session's agent was not resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The caller's share, or that of all callers together, is used up.
    #[error(
        "{} the limit of {} {}; {}",
        if .0.by_all { "all agents together are at" } else { "you are at" }, .0.limit, .0.what.name(), .0.what.advice()
    )]
    NoShare(Full),
    /// The store is unavailable.
    #[error("the store is unavailable: {reason}; nothing was changed, try again")]
    StoreUnavailable { reason: String },
    /// The disk that the store is on is full.
    #[error("the store's disk is full: {reason}; nothing was changed. Free some space, then try again")]
    StoreFull { reason: String },
    /// A bug: a task panicked, or something happened that cannot happen.
    #[error("internal error: {detail}. This is a bug in shellkeep; the daemon's log has more")]
    Internal {
        /// What is known of it.
        detail: String,
    },
    /// The session is another node's.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The engine is stopping.
    #[error("the daemon is stopping; try again when it is back")]
    ShuttingDown,
}

/// A task that panicked is a bug. Only the end of the runtime cancels tasks.
impl From<JoinError> for OpError {
    fn from(error: JoinError) -> Self {
        if error.is_cancelled() {
            return Self::ShuttingDown;
        }
        tracing::error!(%error, "a task panicked");
        Self::Internal { detail: error.to_string() }
    }
}

impl From<Full> for OpError {
    fn from(full: Full) -> Self {
        Self::NoShare(full)
    }
}

impl OpError {
    /// The store could not write. Whether the disk is full decides what a caller can do about it.
    pub(crate) fn not_stored(reason: impl Into<FilesReason>) -> Self {
        let found = reason.into();
        let reason = found.to_string();
        if found.is_full() { Self::StoreFull { reason } } else { Self::StoreUnavailable { reason } }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_request",
            Self::NotAllowed { .. } => "not_allowed",
            Self::QuotaExceeded(_) => "quota_exceeded",
            Self::File(error) => error.code(),
            Self::Kv(error) => error.code(),
            Self::Run(error) => error.code(),
            Self::Checkpoint(error) => error.code(),
            Self::Session(error) => error.code(),
            Self::Service(error) => error.code(),
            Self::Record(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Resume(error) => error.code(),
            Self::Internal { .. } => "internal_error",
            Self::StoreUnavailable { .. } | Self::StoreFull { .. } => "store_unavailable",
            Self::NoShare(full) => full.what.code(),
            Self::Cluster(error) => error.code(),
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// What to do next, where it depends on the door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::QuotaExceeded(met) => met.hint(),
            Self::Session(error) => error.hint(),
            Self::Run(error) => error.hint(),
            Self::Checkpoint(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::Kv(error) => error.hint(),
            Self::Service(error) => error.hint(),
            Self::Record(error) => error.hint(),
            Self::Token(error) => error.hint(),
            Self::Resume(error) => error.hint(),
            Self::Cluster(error) => error.hint(),
            Self::Invalid { .. }
            | Self::NotAllowed { .. }
            | Self::NoShare(_)
            | Self::StoreUnavailable { .. }
            | Self::StoreFull { .. }
            | Self::Internal { .. }
            | Self::ShuttingDown => None,
        }
    }
}
