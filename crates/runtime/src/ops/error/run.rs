//! Why a command was not run, or a run was not found.

use crate::ops::Hint;
use shellkeep_session::Timestamp;
use std::time::Duration;

/// What was asked of a session while it ran a command. Each is told something else to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileBusy {
    /// To run a command, but not to wait for its turn.
    NotToWait,
    /// To run a command, which waited for its turn until its timeout.
    Waited,
    /// Something else, such as a rewind, for which no timeout can be given.
    Other,
}

/// Why a command was not run, or a run was not found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// No such run.
    #[error("session '{session_id}' has no run '{run_id}'")]
    NotFound {
        session_id: String,
        /// The name asked for.
        run_id: String,
    },
    /// The run has ended.
    #[error("run '{run_id}' has ended")]
    Ended { run_id: String },
    /// The output is no longer kept.
    #[error(
        "the output of run '{run_id}' {}; its status and exit code are still available. Run the command again if you need its output",
        match node {
            Some(node) => format!("stayed on node {node}, from which the session moved here"),
            None => "was deleted to make room for newer output".to_owned(),
        }
    )]
    OutputReclaimed {
        run_id: String,
        /// The node that has it, if the session moved here from another.
        node: Option<String>,
    },
    /// The run does not read input.
    #[error("run '{run_id}' does not accept input: all of its input was given when it started")]
    NoInput { run_id: String },
    /// Its input has ended.
    #[error("run '{run_id}' accepts no more input: its input was closed")]
    InputClosed { run_id: String },
    /// It has not read its earlier input.
    #[error(
        "run '{run_id}' has not read the input that it was sent before, so nothing of this was sent; send it again when the run \
         has read some"
    )]
    InputFull { run_id: String },
    /// The run has no terminal.
    #[error("run '{run_id}' has no terminal, so it takes no keys and has no screen and no size")]
    NoTerminal { run_id: String },
    /// The run was lost, and its screens with it.
    #[error("run '{run_id}' was lost when the daemon died, and its screens with it")]
    ScreensLost { run_id: String },
    /// The session runs another command.
    #[error(
        "session '{session_id}' is busy with run '{run_id}' (`{command}`, running for {} s); {}",
        running_for.as_secs(),
        match asked {
            WhileBusy::NotToWait | WhileBusy::Other => "nothing was done",
            WhileBusy::Waited => {
                "this command's timeout ran out while it waited for its turn, and nothing was run"
            }
        }
    )]
    Busy {
        session_id: String,
        /// What it runs.
        run_id: String,
        /// The beginning of its command.
        command: String,
        /// How long it has been running.
        running_for: Duration,
        /// What was asked of it.
        asked: WhileBusy,
    },
    /// A person holds the session.
    #[error(
        "session '{session_id}' is held by {holder}{} until {until}; nothing was run",
        reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"))
    )]
    Held {
        session_id: String,
        /// Who holds it.
        holder: String,
        /// Why.
        reason: Option<String>,
        /// When the hold ends unless it is extended.
        until: Timestamp,
    },
    /// The caller's hold is over.
    #[error("the hold on session '{session_id}' has expired or was released; nothing was run")]
    HoldOver { session_id: String },
    /// The command was cancelled while it waited.
    #[error("the command was cancelled while it waited for its turn in session '{session_id}'; nothing was run")]
    Cancelled { session_id: String },
    /// The daemon stops before the command has started.
    #[error("the daemon is stopping; nothing was run; send it again when the daemon is back")]
    ShuttingDown,
    /// Too many commands wait.
    #[error("session '{session_id}' already has {waiting} commands waiting; wait for some to finish")]
    QueueFull {
        session_id: String,
        /// How many wait.
        waiting: usize,
    },
    /// The same key was used for another command.
    #[error("request_id '{request_id}' was used before for a different command; use a new one")]
    RequestIdReused { request_id: String },
    /// The directory for this call cannot be entered.
    #[error("cannot enter cwd '{path}': {reason}; nothing was run")]
    BadCwd {
        /// The directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The session's own directory cannot be entered.
    #[error("session '{session_id}' works in '{path}', which cannot be entered: {reason}; nothing was run")]
    CwdGone {
        session_id: String,
        /// Its directory.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// The session was restarted or ended while the command waited.
    #[error("session '{session_id}' was restarted or ended while this command waited; nothing was run, send it again")]
    Restarted { session_id: String },
    /// No shell could be started.
    #[error("cannot start a shell: {reason}. Nothing was run and the session's state is unchanged; send it again")]
    ShellUnavailable { reason: String },
    /// The session's room cannot be entered because of what the session has put into its `/tmp`.
    #[error(
        "cannot start a shell: the session's room needs a directory at '{path}', but the session put {found} there \
         ('{outside}' on the machine). Nothing was run and the session's state is unchanged"
    )]
    TmpBlocked {
        session_id: String,
        /// Where it is for the session.
        path: String,
        /// Where it is for others.
        outside: String,
        /// What it is.
        found: &'static str,
    },
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
}

impl RunError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "run_not_found",
            Self::Ended { .. } => "run_ended",
            Self::OutputReclaimed { .. } => "output_reclaimed",
            Self::NoInput { .. } | Self::InputClosed { .. } => "no_input",
            Self::InputFull { .. } => "input_full",
            Self::NoTerminal { .. } => "no_terminal",
            Self::ScreensLost { .. } => "screens_lost",
            Self::Busy { .. } => "session_busy",
            Self::Held { .. } => "session_held",
            Self::HoldOver { .. } => "hold_over",
            Self::Cancelled { .. } => "run_cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::QueueFull { .. } => "queue_full",
            Self::RequestIdReused { .. } => "request_id_reused",
            Self::BadCwd { .. } | Self::CwdGone { .. } => "bad_cwd",
            Self::Restarted { .. } => "session_restarted",
            Self::ShellUnavailable { .. } | Self::TmpBlocked { .. } => "shell_unavailable",
            Self::Overloaded { .. } => "overloaded",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListRuns),
            Self::NoInput { .. } => Some(Hint::KeepInputOpen),
            Self::NoTerminal { .. } => Some(Hint::UseTerminal),
            Self::Busy { asked: WhileBusy::NotToWait, .. } => Some(Hint::WaitForRun),
            Self::Busy { asked: WhileBusy::Waited, .. } => Some(Hint::WaitLonger),
            Self::Busy { asked: WhileBusy::Other, .. } => Some(Hint::TryAfterRun),
            Self::Held { .. } => Some(Hint::WaitForRelease),
            Self::HoldOver { .. } => Some(Hint::HoldAgain),
            Self::CwdGone { .. } => Some(Hint::RestoreDirectory),
            Self::TmpBlocked { .. } => Some(Hint::ClearTmp),
            Self::Ended { .. } => Some(Hint::ReadOutput),
            _ => None,
        }
    }
}

/// A wait in seconds, rounded up: a client that retries too early has to wait once more.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}
