//! Named points in the life of a command or service at which a test may kill the daemon, as a power cut or an operator would.

use std::sync::OnceLock;

/// The points, in the order in which a command passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The command was accepted; nothing is written yet.
    Accepted,
    /// It is written that the command starts; the shell has not seen it.
    StartRecorded,
    /// The shell has the command.
    Begun,
    /// The shell has told the result; it is not written.
    Done,
    /// The result is written; nobody was told.
    ResultRecorded,
    /// A service runs; that is not written.
    ServiceStarted,
    /// A message for an agent is written as an event, and not yet in the conversation.
    InputRecorded,
    /// An agent's state is written; the agent was not told.
    StateSaved,
    /// A change of the keyed store is in its index; that is not written.
    KvWritten,
    /// It is written that the keyed store changed; nobody was told.
    KvRecorded,
    /// It is written that a rewind took the keyed store back; its index is as before.
    KvRewound,
    /// A checkpoint that the last daemon owed is about to be made.
    FilesOwed,
    /// A checkpoint is made; that is not written.
    FilesKept,
    /// The files of a rewind lie ready; nothing has changed yet.
    RewindStaged,
    /// It is written that a rewind is under way; no file has changed yet.
    RewindNoted,
    /// The files are those of the past; that is not written.
    RewindApplied,
    /// It is written that the session was taken back; nobody was told.
    RewindRecorded,
    /// A fork's files are copied; there is no session for them yet.
    ForkCopied,
    /// It is noted that a session is being removed; that is not recorded.
    DeleteNoted,
    /// The end of a session is recorded; its files are there.
    DeleteRecorded,
}

impl Point {
    /// The name by which a test asks for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::StartRecorded => "start_recorded",
            Self::Begun => "begun",
            Self::Done => "done",
            Self::ResultRecorded => "result_recorded",
            Self::ServiceStarted => "service_started",
            Self::InputRecorded => "input_recorded",
            Self::StateSaved => "state_saved",
            Self::KvWritten => "kv_written",
            Self::KvRecorded => "kv_recorded",
            Self::KvRewound => "kv_rewound",
            Self::FilesOwed => "files_owed",
            Self::FilesKept => "files_kept",
            Self::RewindStaged => "rewind_staged",
            Self::RewindNoted => "rewind_noted",
            Self::RewindApplied => "rewind_applied",
            Self::RewindRecorded => "rewind_recorded",
            Self::ForkCopied => "fork_copied",
            Self::DeleteNoted => "delete_noted",
            Self::DeleteRecorded => "delete_recorded",
        }
    }
}

/// Dies here, at once and without a word, if the environment asks for it and the command carries the word `crash-here`.
pub fn point(point: Point, command: &[u8]) {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("SHELLKEEP_CRASH_AT").ok());
    if let Some(wanted) = wanted
        && wanted == point.name()
        && command.windows(10).any(|window| window == b"crash-here")
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
