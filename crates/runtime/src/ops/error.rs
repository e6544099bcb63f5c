//! Why an operation was refused.

use super::{FileError, FilesReason, Hint, KvError, QuotaMet, ResumeError};
use crate::shares::Full;
use std::time::Duration;
use tokio::task::JoinError;

/// Why an operation was refused. The sentence states the fact; [`OpError::hint`] says what to do next, and each door
/// words that in its own verbs.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpError {
    /// The request makes no sense.
    #[error("{detail}")]
    Invalid {
        /// What is wrong and what would be right.
        detail: String,
    },
    /// The caller's token does not give this right.
    #[error("{detail}")]
    NotAllowed {
        /// Which right, and who has it.
        detail: String,
    },
    /// No such token.
    #[error("there is no token '{token_id}'")]
    TokenNotFound {
        /// The name asked for.
        token_id: String,
    },
    /// The tokens cannot be written.
    #[error("cannot save the tokens: {detail}. Check the data directory's disk and try again")]
    TokensUnavailable {
        /// What is in force now, and why.
        detail: String,
    },
    /// No such session.
    #[error("there is no session '{session_id}'")]
    SessionNotFound {
        /// The name asked for.
        session_id: String,
    },
    /// No such run.
    #[error("session '{session_id}' has no run '{run_id}'")]
    RunNotFound {
        /// The session.
        session_id: String,
        /// The name asked for.
        run_id: String,
    },
    /// The run has ended.
    #[error("run '{run_id}' has ended; read its result and output instead")]
    RunEnded {
        /// The run.
        run_id: String,
    },
    /// The output is no longer kept.
    #[error(
        "the output of run '{run_id}' was deleted to make room for newer output; its status and exit code are still available. Run the command again if you need its output"
    )]
    OutputReclaimed {
        /// The run.
        run_id: String,
    },
    /// A file beside the records is not the one that was recorded.
    #[error(
        "file {file} of session '{session_id}' was changed after it was recorded (its hash does not match), so it is not served"
    )]
    FileChanged {
        /// Whose.
        session_id: String,
        /// Its name.
        file: String,
    },
    /// The run does not read input.
    #[error("run '{run_id}' does not accept input: all of its input was given when it started")]
    NoInput {
        /// The run.
        run_id: String,
    },
    /// The session runs another command.
    #[error("session '{session_id}' is busy with run '{run_id}'; nothing was run")]
    Busy {
        /// The session.
        session_id: String,
        /// What it runs.
        run_id: String,
    },
    /// Too many commands wait.
    #[error("session '{session_id}' already has {waiting} commands waiting; wait for some to finish")]
    QueueFull {
        /// The session.
        session_id: String,
        /// How many wait.
        waiting: usize,
    },
    /// The same key was used for another command.
    #[error("request_id '{request_id}' was used before for a different command; use a new one")]
    RequestIdReused {
        /// The key.
        request_id: String,
    },
    /// The session's stored state cannot be read.
    #[error(
        "session '{session_id}' is unavailable because its stored state cannot be read ({reason}); other sessions are not affected. Delete it, or repair its files and restart the daemon"
    )]
    Damaged {
        /// The session.
        session_id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory for this call cannot be entered.
    #[error("cannot enter cwd '{path}': {reason}; nothing was run")]
    BadCwd {
        /// The directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The session's own directory cannot be entered.
    #[error(
        "session '{session_id}' works in '{path}', which cannot be entered: {reason}; nothing was run. Restore the directory, or pass a cwd (add `cd` to the command to move the session there), or rewind the session to a record where the directory existed"
    )]
    CwdGone {
        /// The session.
        session_id: String,
        /// Its directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The session works outside of a data directory that is a copy.
    #[error(
        "this data directory is a copy of '{original}', and session '{session_id}' works in '{path}', outside the copy, where the original's session works too; nothing was done"
    )]
    WorkspaceNotTaken {
        /// The session.
        session_id: String,
        /// The directory.
        path: String,
        /// The data directory that the copy was made from.
        original: String,
    },
    /// The directory that was named as a workspace cannot be one.
    #[error("cannot use '{path}' as the workspace: {reason}; name an existing directory, or omit it to get a new one")]
    BadWorkspace {
        /// The directory.
        path: String,
        /// Why.
        reason: String,
    },
    /// The session was restarted while the command waited.
    #[error("session '{session_id}' was restarted while this command waited; nothing was run, send it again")]
    Restarted {
        /// The session.
        session_id: String,
    },
    /// No shell could be started.
    #[error("cannot start a shell: {reason}. Nothing was run and the session's state is unchanged; send it again")]
    ShellUnavailable {
        /// Why.
        reason: String,
    },
    /// No such service.
    #[error("session '{session_id}' has no service '{service_id}'")]
    ServiceNotFound {
        /// The session.
        session_id: String,
        /// The name asked for.
        service_id: String,
    },
    /// The service could not be started.
    #[error("cannot start the service: {reason}")]
    ServiceNotStarted {
        /// Why.
        reason: String,
    },
    /// A quota is met.
    #[error("{0}")]
    QuotaExceeded(Box<QuotaMet>),
    /// More work than the machine takes.
    #[error(
        "this node is overloaded: {waiting} commands are waiting (limit {limit}) and this one waited {:.1} s; nothing was run. Send it again in {} s, or send fewer at a time",
        waited.as_secs_f64(), whole_seconds(*retry_after)
    )]
    Overloaded {
        /// Commands that wait.
        waiting: usize,
        /// How many may.
        limit: usize,
        /// How long this one did.
        waited: Duration,
        /// When to try again.
        retry_after: Duration,
    },
    /// The recording does not take events of this type.
    #[error("{detail}")]
    InvalidEventType {
        /// Which types it takes, or what the type needs.
        detail: String,
    },
    /// The store took only some of the events.
    #[error(
        "{reason}; only the first {taken} of {total} events were recorded, starting at number {first_seq}. Send only the rest again"
    )]
    EventsCutOff {
        /// What the store said.
        reason: String,
        /// How many it took.
        taken: usize,
        /// How many there were.
        total: usize,
        /// Number of the first.
        first_seq: u64,
    },
    /// Somebody else has saved the agent's state since.
    #[error(
        "the agent's state was not saved: {}",
        current.map_or("there is none yet".to_owned(), |version| format!("it is at version {version} now"))
    )]
    VersionConflict {
        /// The version that is kept; none if none is.
        current: Option<u64>,
    },
    /// No state of the agent, or none with this number.
    #[error("session '{session_id}' has no such agent state")]
    AgentStateNotFound {
        /// The session.
        session_id: String,
    },
    /// An old state of the agent is no longer kept.
    #[error("version {version} of the agent's state was deleted to make room for newer output")]
    AgentStateReclaimed {
        /// Which.
        version: u64,
    },
    /// The file with a state of the agent is not what was saved.
    #[error("version {version} of the agent's state is damaged and not served: {reason}")]
    AgentStateDamaged {
        /// Which.
        version: u64,
        /// What is wrong with the file.
        reason: String,
    },
    /// The session is not recorded, or its recording cannot be read.
    #[error("cannot read the recording of session '{session_id}': {reason}")]
    RecordingUnreadable {
        /// The session.
        session_id: String,
        /// Why.
        reason: String,
    },
    /// No such checkpoint, or it was pruned.
    #[error(
        "{} '{checkpoint}' {}",
        if *was_kept { "checkpoint" } else { "there is no checkpoint" },
        if *was_kept { format!("of session '{session_id}' was pruned") } else { format!("in session '{session_id}'") }
    )]
    CheckpointNotFound {
        /// The session.
        session_id: String,
        /// What was asked for.
        checkpoint: String,
        /// Whether there was one.
        was_kept: bool,
    },
    /// There is no such record, or what the session was then is not known.
    #[error("{detail}; nothing was changed")]
    NoSuchMoment {
        /// Why.
        detail: String,
    },
    /// The files could not be kept, brought back or copied.
    #[error("the files of session '{session_id}' {what}: {reason}; {state}")]
    FilesFailed {
        /// The session.
        session_id: String,
        /// What could not be done.
        what: &'static str,
        /// Why, and whether the disk is full.
        reason: FilesReason,
        /// How the files are now, and what to do next.
        state: &'static str,
    },
    /// There is no such file in the checkpoint.
    #[error("there is no file '{path}' in checkpoint '{checkpoint}'")]
    FileNotFound {
        /// Where it was looked for.
        checkpoint: String,
        /// The path.
        path: String,
    },
    /// A file of the workspace was not read, written or removed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The keyed store was not read or changed.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// A session has this name already.
    #[error("session '{session_id}' already exists; choose another name, or omit it to get a generated one")]
    SessionExists {
        /// The name.
        session_id: String,
    },
    /// A fork would work on the same files.
    #[error(
        "session '{session_id}' works in '{path}', outside its workspace '{workspace}', so a fork would change the same files; nothing was forked"
    )]
    FilesNotApart {
        /// The session.
        session_id: String,
        /// Where it works.
        path: String,
        /// Its workspace.
        workspace: String,
    },
    /// The session was not forked from another, or that one is gone.
    #[error("{detail}")]
    NoOrigin {
        /// What is missing.
        detail: String,
    },
    /// Both sides of a merge changed the same.
    #[error("merge conflict in {} ({first}); nothing was changed", counted(conflicts.len(), "file"))]
    MergeConflict {
        /// The first of them.
        first: String,
        /// All of them.
        conflicts: Vec<(String, String)>,
    },
    /// The session's agent was not run on.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// A search took longer than it may.
    #[error(
        "the search reached its limit of {limit} s and found nothing before {place}={next}; continue from {place}={next}, or use plain text or a simpler pattern"
    )]
    SearchSpent {
        /// Seconds that a search may take.
        limit: u64,
        /// The parameter that says where to go on.
        place: &'static str,
        /// Where to go on.
        next: u64,
    },
    /// The caller, or all callers together, have as much as there is.
    #[error(
        "{} the limit of {} {}; {}",
        if .0.by_all { "all agents together are at" } else { "you are at" }, .0.limit, .0.what.words().0, .0.what.words().1
    )]
    NoShare(Full),
    /// The store cannot answer.
    #[error("the store is unavailable: {reason}; nothing was changed, try again")]
    StoreUnavailable {
        /// Why.
        reason: String,
    },
    /// A bug: a task panicked, or something happened that cannot happen.
    #[error("internal error: {detail}. This is a bug in shellkeep; the daemon's log has more")]
    Internal {
        /// What is known of it.
        detail: String,
    },
    /// The engine is stopping.
    #[error("the daemon is stopping; try again when it is back")]
    ShuttingDown,
}

/// A task that panicked is a bug. One that was cancelled was cancelled by the end of the runtime: nothing else does.
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
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_request",
            Self::NotAllowed { .. } => "not_allowed",
            Self::TokenNotFound { .. } => "token_not_found",
            Self::SessionNotFound { .. } => "session_not_found",
            Self::RunNotFound { .. } => "run_not_found",
            Self::RunEnded { .. } => "run_ended",
            Self::NoInput { .. } => "no_input",
            Self::OutputReclaimed { .. } => "output_reclaimed",
            Self::FileChanged { .. } => "file_changed",
            Self::Busy { .. } => "session_busy",
            Self::QueueFull { .. } => "queue_full",
            Self::RequestIdReused { .. } => "request_id_reused",
            Self::Damaged { .. } => "session_damaged",
            Self::BadCwd { .. } | Self::CwdGone { .. } => "bad_cwd",
            Self::BadWorkspace { .. } => "bad_workspace",
            Self::WorkspaceNotTaken { .. } => "workspace_not_taken",
            Self::Restarted { .. } => "session_restarted",
            Self::ShellUnavailable { .. } => "shell_unavailable",
            Self::QuotaExceeded(_) => "quota_exceeded",
            Self::Overloaded { .. } => "overloaded",
            Self::ServiceNotFound { .. } => "service_not_found",
            Self::ServiceNotStarted { .. } => "service_not_started",
            Self::InvalidEventType { .. } => "invalid_event_type",
            Self::VersionConflict { .. } => "version_conflict",
            Self::AgentStateNotFound { .. } => "agent_state_not_found",
            Self::AgentStateReclaimed { .. } => "agent_state_reclaimed",
            Self::AgentStateDamaged { .. } => "agent_state_damaged",
            Self::RecordingUnreadable { .. } => "recording_unreadable",
            Self::CheckpointNotFound { .. } => "checkpoint_not_found",
            Self::NoSuchMoment { .. } => "no_such_moment",
            Self::FilesFailed { .. } => "files_failed",
            Self::FileNotFound { .. } => "file_not_found",
            Self::File(error) => error.code(),
            Self::Kv(error) => error.code(),
            Self::SessionExists { .. } => "session_exists",
            Self::NoOrigin { .. } => "no_origin",
            Self::FilesNotApart { .. } => "files_not_apart",
            Self::MergeConflict { .. } => "merge_conflict",
            Self::Resume(error) => error.code(),
            Self::Internal { .. } => "internal_error",
            Self::StoreUnavailable { .. } | Self::TokensUnavailable { .. } | Self::EventsCutOff { .. } => {
                "store_unavailable"
            }
            Self::SearchSpent { .. } => "search_too_expensive",
            Self::NoShare(full) => full.what.code(),
            Self::ShuttingDown => "shutting_down",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::TokenNotFound { .. } => Hint::ListTokens,
            Self::SessionNotFound { .. } => Hint::ListSessions,
            Self::RunNotFound { .. } => Hint::ListRuns,
            Self::FileChanged { .. } => Hint::Verify,
            Self::NoInput { .. } => Hint::KeepInputOpen,
            Self::Busy { .. } => Hint::WaitForRun,
            Self::WorkspaceNotTaken { .. } => Hint::TakeWorkspaces,
            Self::ServiceNotFound { .. } => Hint::ListServices,
            Self::QuotaExceeded(met) if !met.services.is_empty() => Hint::StopService,
            Self::VersionConflict { .. } => Hint::ReadAgentState,
            Self::AgentStateNotFound { .. } => Hint::SaveAgentState,
            Self::AgentStateDamaged { .. } => Hint::ReadOlderAgentState,
            Self::CheckpointNotFound { .. } => Hint::ListCheckpoints,
            Self::FilesNotApart { .. } => Hint::SeparateFiles,
            Self::MergeConflict { .. } => Hint::ResolveConflicts,
            Self::Resume(ResumeError::NoAgent { .. }) => Hint::ConfigureAgent,
            Self::Resume(ResumeError::Busy { .. }) => Hint::WaitForAgent,
            Self::File(error) => return error.hint(),
            Self::Kv(error) => return error.hint(),
            _ => return None,
        })
    }
}

/// A number with its noun: `1 file`, `2 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A wait in seconds, rounded up: to come a little late is better than to come in vain.
pub fn whole_seconds(wait: std::time::Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}
