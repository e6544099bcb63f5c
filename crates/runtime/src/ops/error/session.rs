//! Why a session was not created or found, or cannot work.

use crate::ops::Hint;
use shellkeep_session::Sandbox;

/// Why a session was not created or found, or cannot work.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// No such session.
    #[error("there is no session '{session_id}'")]
    NotFound {
        /// The name asked for.
        session_id: String,
    },
    /// A session has this name already.
    #[error("session '{session_id}' already exists; choose another name, or omit it to get a generated one")]
    Exists { session_id: String },
    /// The name of a user and the name of a session make the name of another user's session.
    #[error(
        "session '{session_id}' belongs to a user other than '{user_id}': two pairs of user_id and session_id can give the same id. Choose another session_id, or user_ids without '_'"
    )]
    OfOtherUser {
        session_id: String,
        /// Who asked.
        user_id: String,
    },
    /// The session's stored state cannot be read.
    #[error(
        "session '{session_id}' is unavailable because its stored state cannot be read ({reason}); other sessions are not affected. Delete it, or repair its files and restart the daemon"
    )]
    Damaged {
        session_id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory that was named as a workspace cannot be one.
    #[error("cannot use '{path}' as the workspace: {reason}; name an existing directory, or omit it to get a new one")]
    BadWorkspace {
        /// The directory.
        path: String,
        reason: String,
    },
    /// The session works outside of a data directory that is a copy.
    #[error(
        "this data directory is a copy of '{original}', and session '{session_id}' works in '{path}', outside the copy, where the original's session works too; nothing was done"
    )]
    WorkspaceNotTaken {
        session_id: String,
        /// The directory.
        path: String,
        /// The data directory that the copy was made from.
        original: String,
    },
    /// This machine cannot confine a session as it must be.
    #[error("the sandbox '{sandbox}' is not available here: {reason}. Nothing was run")]
    SandboxUnavailable { sandbox: Sandbox, reason: String },
    /// The directory that a new session should start in cannot be entered.
    #[error("cannot enter cwd '{path}': {reason}; no session was created")]
    BadCwd {
        /// The directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The room of a new session does not have the directory that it should start in.
    #[error(
        "cwd '{path}' is not in the session's room, which has its workspace, its home and what the host shares; leave cwd out to start in the workspace, or ask the host to share the directory (`sandbox_read`, `sandbox_write`) or to create the session with it as its workspace. Nothing was created"
    )]
    CwdNotInRoom { path: String },
    /// A sandbox was to be made looser.
    #[error(
        "session '{session_id}' has the sandbox '{sandbox}', and a sandbox can only be made tighter; create another session for '{asked}'"
    )]
    SandboxNotLooser { session_id: String, sandbox: Sandbox, asked: Sandbox },
    /// Something that runs would go on as it is.
    #[error(
        "session '{session_id}' still has services, commands or an agent running, which would stay outside the sandbox; stop them first"
    )]
    SandboxBusy { session_id: String },
    /// A secret of the session has no value.
    #[error(
        "cannot read the secret '{name}' of session '{session_id}': {reason}. Nothing was run; ask the operator of the daemon to restore it"
    )]
    SecretUnavailable {
        session_id: String,
        /// Which one.
        name: String,
        reason: String,
    },
}

impl SessionError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "session_not_found",
            Self::Exists { .. } | Self::OfOtherUser { .. } => "session_exists",
            Self::Damaged { .. } => "session_damaged",
            Self::BadWorkspace { .. } => "bad_workspace",
            Self::WorkspaceNotTaken { .. } => "workspace_not_taken",
            Self::SandboxUnavailable { .. } => "sandbox_unavailable",
            Self::BadCwd { .. } => "bad_cwd",
            Self::CwdNotInRoom { .. } => "cwd_not_in_room",
            Self::SandboxNotLooser { .. } => "sandbox_not_looser",
            Self::SandboxBusy { .. } => "sandbox_busy",
            Self::SecretUnavailable { .. } => "secret_unavailable",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListSessions),
            Self::WorkspaceNotTaken { .. } => Some(Hint::TakeWorkspaces),
            Self::SandboxBusy { .. } => Some(Hint::ListServices),
            _ => None,
        }
    }
}
