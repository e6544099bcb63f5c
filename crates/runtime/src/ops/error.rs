//! Why an operation was refused.

use super::{QuotaMet, ResumeError};
use crate::shares::Full;
use std::time::Duration;

/// Why an operation was refused. Each has a stable code and says what to do next.
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
    #[error("there is no token '{token_id}'; GET /v1/tokens lists them")]
    TokenNotFound {
        /// The name asked for.
        token_id: String,
    },
    /// The tokens cannot be written.
    #[error("the tokens cannot be kept: {detail}. Check the data directory's disk and try again")]
    TokensUnavailable {
        /// What stands now, and why.
        detail: String,
    },
    /// No such session.
    #[error("there is no session '{session_id}'; create it with POST /v1/sessions or list the existing ones")]
    SessionNotFound {
        /// The name asked for.
        session_id: String,
    },
    /// No such run.
    #[error("session '{session_id}' has no run '{run_id}'; run ids are in the results of its commands")]
    RunNotFound {
        /// The session.
        session_id: String,
        /// The name asked for.
        run_id: String,
    },
    /// The run has ended.
    #[error("run '{run_id}' has already ended; read its result and output instead")]
    RunEnded {
        /// The run.
        run_id: String,
    },
    /// The output is not kept any more.
    #[error(
        "the output of run '{run_id}' is not kept any more: newer output of the session took its place. Its status and exit code are; run the command again if you need what it printed"
    )]
    OutputReclaimed {
        /// The run.
        run_id: String,
    },
    /// A file beside the records is not the one that was recorded.
    #[error(
        "the file {file} of session '{session_id}' is not the one that was recorded: its hash is another, so it is not shown. Somebody or something changed it; POST /v1/sessions/{session_id}/verify tells whether anything else was"
    )]
    FileChanged {
        /// Whose.
        session_id: String,
        /// Its name.
        file: String,
    },
    /// The run does not read input.
    #[error(
        "run '{run_id}' takes no input: it was started with its input already given. Start it with blocking=false and no stdin to send input later"
    )]
    NoInput {
        /// The run.
        run_id: String,
    },
    /// The session runs another command.
    #[error(
        "session '{session_id}' is busy with run '{run_id}'; wait for that run or signal it. Without if_busy=reject a command waits in line for as long as its timeout; nothing was run"
    )]
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
        "session '{session_id}' is set aside because its stored state cannot be read ({reason}); other sessions are not affected. Delete it, or repair its files and restart the daemon"
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
        "session '{session_id}' works in '{path}', which cannot be entered: {reason}; nothing was run. Put the directory back; or give this call a cwd, with `cd` in the command if the session is to stay there; or rewind the session to when its files were there"
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
        "this data directory is a copy of '{original}', and session '{session_id}' works in '{path}', outside of the copy, where the original's session works too; nothing was done. To let the copy work there, stop the original for good and start this daemon once with `shellkeep serve --take-workspaces`. To work apart, fork the session, or give the call a cwd inside the copy"
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
    #[error(
        "config.workspace '{path}' cannot be used: {reason}; name an existing directory, or leave it out and the session gets one of its own"
    )]
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
    #[error("no shell could be started: {reason}. Nothing was run and the session's state is kept; send it again")]
    ShellUnavailable {
        /// Why.
        reason: String,
    },
    /// No such service.
    #[error("session '{session_id}' has no service '{service_id}'; list_services names those it has")]
    ServiceNotFound {
        /// The session.
        session_id: String,
        /// The name asked for.
        service_id: String,
    },
    /// The service could not be started.
    #[error("the service could not be started: {reason}")]
    ServiceNotStarted {
        /// Why.
        reason: String,
    },
    /// A quota is met.
    #[error("{0}")]
    QuotaExceeded(Box<QuotaMet>),
    /// More work than the machine takes.
    #[error(
        "this node is overloaded: {waiting} commands wait ({limit} may) and this one waited {:.1} s; nothing was run. Send it again in {} s, or fewer at a time",
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
        "{reason}; the first {taken} of {total} events were recorded, from number {first_seq} on: send only the others again"
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
        "the agent's state was not saved: {}. Read it with GET …/agent_state, and save again with If-Match set to the version you have read",
        current.map_or("there is none yet".to_owned(), |version| format!("it has version {version} by now"))
    )]
    VersionConflict {
        /// The version that is kept; none if none is.
        current: Option<u64>,
    },
    /// No state of the agent, or none with this number.
    #[error("session '{session_id}' has no such state of its agent; PUT …/agent_state saves one")]
    AgentStateNotFound {
        /// The session.
        session_id: String,
    },
    /// An old state of the agent is not kept any more.
    #[error("version {version} of the agent's state is not kept any more: newer output of the session took its place")]
    AgentStateReclaimed {
        /// Which.
        version: u64,
    },
    /// The file with a state of the agent is not what was saved.
    #[error(
        "version {version} of the agent's state is damaged and is not served: {reason}. Save a state again, read an \
         earlier version with ?version=, or rewind to a record before it"
    )]
    AgentStateDamaged {
        /// Which.
        version: u64,
        /// What is wrong with the file.
        reason: String,
    },
    /// The session is not recorded, or its recording cannot be read.
    #[error("the recording of session '{session_id}' cannot be read: {reason}")]
    RecordingUnreadable {
        /// The session.
        session_id: String,
        /// Why.
        reason: String,
    },
    /// No such checkpoint, or it is not kept any more.
    #[error("session '{session_id}' has no checkpoint '{checkpoint}'{}; GET …/checkpoints lists those it has", if *was_kept { " any more: old ones are given up" } else { "" })]
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
        /// Why.
        reason: String,
        /// How the files stand now, and what to do next.
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
    /// A session has this name already.
    #[error("there is already a session '{session_id}'; choose another name, or leave it out to get one")]
    SessionExists {
        /// The name.
        session_id: String,
    },
    /// A fork would work on the same files.
    #[error(
        "session '{session_id}' works in '{path}', outside its workspace '{workspace}', so a fork of it would work on the same files; nothing was forked. For forks with files of their own, make a session whose workspace is that directory (config.workspace, `sessions new NAME --workspace DIR`), or `cd` into the workspace first. To let both work on the same files, fork with share_files (`fork --share-files`)"
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
    #[error("{} file(s) changed on both sides so that they do not fit together ({first}); nothing was changed. Look at them with a dry run, then settle them in one of the sessions, or merge with prefer=fork or prefer=origin", conflicts.len())]
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
        "the search took longer than the {limit} s it may, and found nothing up to {place}={next}; go on with {place}={next}, or search for plain text or with a simpler pattern"
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
        "{} as many {} as there may be ({}); {}",
        if .0.by_all { "all agents together have" } else { "you have" }, .0.what.words().0, .0.limit, .0.what.words().1
    )]
    NoShare(Full),
    /// The store cannot answer.
    #[error("the store cannot answer: {reason}; nothing was changed, try again")]
    StoreUnavailable {
        /// Why.
        reason: String,
    },
    /// The engine is stopping.
    #[error("the daemon is stopping; try again when it is back")]
    ShuttingDown,
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
            Self::SessionExists { .. } => "session_exists",
            Self::NoOrigin { .. } => "no_origin",
            Self::FilesNotApart { .. } => "files_not_apart",
            Self::MergeConflict { .. } => "merge_conflict",
            Self::Resume(error) => error.code(),
            Self::StoreUnavailable { .. } | Self::TokensUnavailable { .. } | Self::EventsCutOff { .. } => {
                "store_unavailable"
            }
            Self::SearchSpent { .. } => "search_too_expensive",
            Self::NoShare(full) => full.what.code(),
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// A wait in seconds, rounded up: to come a little late is better than to come in vain.
pub fn whole_seconds(wait: std::time::Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}
