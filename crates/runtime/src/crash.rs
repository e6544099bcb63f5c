//! Named points in the life of a command or service at which a test may kill the daemon, as a power cut or an operator would.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::OnceLock;
use std::time::Duration;

/// A signal has reached all threads long before.
const TAKES_EFFECT: Duration = Duration::from_secs(1);

/// The points, in the order in which a command passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The command was accepted; nothing is written yet.
    Accepted,
    /// The start is recorded; the shell has not seen the command.
    StartRecorded,
    /// The shell has the command.
    Begun,
    /// The shell has reported the result; it is not recorded.
    Done,
    /// The result is recorded; the caller has no answer yet.
    ResultRecorded,
    /// A service runs; that is not recorded.
    ServiceStarted,
    /// A message for an agent is recorded as an event, but not yet in the conversation.
    InputRecorded,
    /// An agent's state is recorded; the agent has no reply yet.
    StateSaved,
    /// A change is in the keyed store's database; it is not recorded.
    KvWritten,
    /// A change of the keyed store is recorded; the caller has no answer yet.
    KvRecorded,
    /// A rewind of the keyed store is recorded; its database is unchanged.
    KvRewound,
    /// A secret is masked in the keyed store; that is not recorded.
    KvScrubbed,
    /// A checkpoint that the last daemon owed is about to be taken.
    FilesOwed,
    /// A checkpoint was taken; it is not recorded.
    FilesKept,
    /// The files of a rewind are staged; nothing has changed yet.
    RewindStaged,
    /// The intent of a rewind is noted; no file has changed yet.
    RewindNoted,
    /// The files are rewound; that is not recorded.
    RewindApplied,
    /// The rewind is recorded; the caller has no answer yet.
    RewindRecorded,
    /// A fork's files are copied; there is no session for them yet.
    ForkCopied,
    /// The deletion of a session is noted; it is not recorded.
    DeleteNoted,
    /// The end of a session is recorded; its files still exist.
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
            Self::KvScrubbed => "kv_scrubbed",
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

/// Kills the process here if the environment says so and the command contains the word `crash-here`. With `panic:` before
/// the point's name it panics instead, as a bug would; with `stop:` it stops until it gets SIGCONT, as on a machine that is
/// suspended.
pub fn point(point: Point, command: &[u8]) {
    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("SHELLKEEP_CRASH_AT").ok());
    let Some(wanted) = wanted else { return };
    let (how, name) = wanted.split_once(':').unwrap_or(("kill", wanted));
    if name != point.name() || !command.windows(10).any(|window| window == b"crash-here") {
        return;
    }
    let signal = match how {
        "panic" => panic!("a test wanted a panic here"),
        "stop" => Signal::STOP,
        _ => Signal::KILL,
    };
    let _ = kill_process(getpid(), signal);
    // Another thread may get the signal, and this one would go on until the kernel has stopped it too.
    std::thread::sleep(TAKES_EFFECT);
}
