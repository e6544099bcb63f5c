//! A command's result: what a caller gets, and what is stored so that a retry gets the same.

use crate::{ByteString, RunId, SessionId, TerminalEvents, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It exited on its own; see the exit code.
    Exited,
    /// It reached its timeout and was killed.
    TimedOut,
    /// It was interrupted by a signal.
    Interrupted,
    /// It is still running.
    Running,
    /// The daemon died while it ran; its outcome is unknown, and it is never run again.
    Lost,
}

impl RunStatus {
    /// Its name in JSON, records and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::Running => "running",
            Self::Lost => "lost",
        }
    }
}

/// What one command changed in its session, in a form a model can read at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// The new working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Exported variables with their new values; `null` for those gone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Option<String>>,
    /// Names of other variables that were set or unset.
    #[serde(skip_serializing_if = "NameChanges::is_empty")]
    pub variables: NameChanges,
    /// Functions.
    #[serde(skip_serializing_if = "NameChanges::is_empty")]
    pub functions: NameChanges,
    /// Aliases.
    #[serde(skip_serializing_if = "NameChanges::is_empty")]
    pub aliases: NameChanges,
    /// `set -o` and `shopt` options that were turned on or off.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, bool>,
    /// Traps set or cleared.
    #[serde(skip_serializing_if = "NameChanges::is_empty")]
    pub traps: NameChanges,
    /// The new umask, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<String>,
}

/// Names that were set, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NameChanges {
    /// New or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

impl NameChanges {
    /// Whether no name changed.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty()
    }
}

/// A notice for the caller, who may be a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Stable code.
    pub code: NoticeCode,
    /// A sentence: what happened and what to do next.
    pub message: String,
}

/// The kinds of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeCode {
    /// The shell was replaced, and jobs or descriptors were lost.
    ShellReplaced,
    /// The command ended the shell before its changes could be read.
    ChangesLost,
    /// A part of the state could not be restored.
    RestoreIncomplete,
    /// The working directory is gone.
    CwdMissing,
    /// A fork and its origin use the same files.
    FilesShared,
    /// A redirection or option lasted only for the command that made it.
    NotKept,
    /// The session has aliases, and bash does not expand them.
    AliasesOff,
    /// The store could not write; the write is being retried.
    StoreFailed,
    /// Output beyond a limit was dropped.
    OutputDropped,
    /// The command reached the process limit.
    ProcessLimit,
    /// Processes were killed because the agent's sessions used too much memory.
    MemoryLimit,
    /// The command failed, and the limit of open files may be why.
    OpenFilesLimit,
    /// The command failed, and the session's sandbox may be why.
    Refused,
    /// The command asked for a host that rooms may not connect to.
    NetworkRefused,
    /// The command asked for a host that rooms may connect to, and no connection could be made.
    NetworkFailed,
    /// The command was killed at its timeout.
    TimedOut,
    /// The command moved to the background.
    Backgrounded,
    /// A service ended on its own.
    ServiceEnded,
    /// The session is over its disk quota.
    DiskQuota,
    /// The session's recording cannot be written; the write is being retried.
    RecordFailed,
    /// Not all files could be saved.
    CheckpointIncomplete,
    /// The session was rewound.
    Rewound,
    /// Some files may differ from the moment that was rewound to.
    FilesUncertain,
    /// The daemon stopped before the command ended.
    DaemonStopped,
    /// The shared store is unreachable; only this node has the result.
    KeptHereOnly,
    /// The session moved to another node.
    SessionMoved,
    /// Two nodes continued the session in different ways, and one of the histories is kept as another session.
    HistoryDiverged,
    /// A person held the session and ran commands in it.
    Held,
}

/// What a command was run with besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// The directory for this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<ByteString>,
    /// Variables for this call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its input, if it was short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ByteString>,
    /// The length of its input.
    #[serde(skip_serializing_if = "is_default")]
    pub stdin_bytes: u64,
    /// Whether it had a terminal.
    #[serde(skip_serializing_if = "is_default")]
    pub tty: bool,
    /// Whether its standard error went into its standard output.
    #[serde(skip_serializing_if = "is_default")]
    pub merged: bool,
}

/// One stream of a run's output as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// Bytes the command wrote, kept or not.
    pub total: u64,
    /// Bytes that can be read back, counted from the first.
    pub kept: u64,
    /// The bytes themselves, if few. Otherwise they are in the run's output file and this is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<ByteString>,
    /// The last bytes, if more was written than could be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<ByteString>,
    /// BLAKE3 hash, in hex, of the bytes in the run's output file. None if there is no file, or if it was written before
    /// hashes were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Whether this is a standard error that went into standard output.
    #[serde(skip_serializing_if = "is_default")]
    pub merged: bool,
}

/// Length and hash of an attached file, to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 hash, in hex.
    pub hash: String,
}

/// A finished run, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// How it ended.
    pub status: RunStatus,
    /// Exit code as bash reports it, 128+n for a signal. `None` when lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, by name without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Standard output.
    #[serde(default)]
    pub stdout: Output,
    /// Standard error.
    #[serde(default)]
    pub stderr: Output,
    /// Wall time in microseconds.
    pub duration_us: u64,
    /// The session's working directory afterwards.
    pub cwd: ByteString,
    /// What it changed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: Changes,
    /// Late output of earlier background jobs since the last result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_output: Option<ByteString>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// What happened at its terminal, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Box<TerminalEvents>>,
}

/// A run from the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRun {
    pub run_id: RunId,
    /// Sequence number of the record that started it.
    pub seq: u64,
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The command text.
    pub command: ByteString,
    /// When it started.
    pub started_at: Timestamp,
    /// The id of the agent's token that requested it; none for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Its result, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// Sequence number of the record that ended it. Runs that were stored before version 4 do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_seq: Option<u64>,
}

/// A run among those of all sessions. They are ordered by when they started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    /// When it started.
    pub started_at: Timestamp,
    pub session_id: SessionId,
    /// Sequence number of the record that started it.
    pub seq: u64,
}

impl fmt::Display for RunKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}", self.started_at.as_nanosecond(), self.session_id, self.seq)
    }
}

impl RunKey {
    /// Reads what [`RunKey`] displays; `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let [started_at, session_id, seq] = text.split('/').collect::<Vec<_>>().try_into().ok()?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(started_at) || !digits(seq) {
            return None;
        }
        Some(Self {
            started_at: Timestamp::from_nanosecond(started_at.parse().ok()?).ok()?,
            session_id: SessionId::parse(session_id).ok()?,
            seq: seq.parse().ok()?,
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_nothing_else_does() {
        let started_at = "2026-11-17T03:38:14.000000123Z".parse().unwrap();
        let key = RunKey { started_at, session_id: SessionId::parse("a.b:c-d").unwrap(), seq: 12 };
        assert_eq!(RunKey::parse(&key.to_string()), Some(key));
        for bad in ["", "1/a", "1/a/2/3", "-1/a/2", "1/a/+2", "1/.a/2", "1/a/", "/a/2", "1/a/99999999999999999999"] {
            assert_eq!(RunKey::parse(bad), None, "{bad}");
        }
    }
}
