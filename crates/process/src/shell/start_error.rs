//! Why a shell did not start, and what to do about it.

use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a bash may take to start or to take over a state before it counts as stuck.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);

/// Why a shell did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused.
    #[error("cannot start bash: {0}")]
    System(#[from] io::Error),
    /// There is no such program, or it may not be executed.
    #[error("cannot execute {path}: {error}")]
    NotExecutable {
        /// The bash.
        path: String,
        error: io::Error,
    },
    /// This bash cannot load the driver.
    #[error("{path} cannot load the driver (it needs bash 4.4 or newer, built with loadable builtins); {detail}")]
    Unsupported {
        /// The bash.
        path: String,
        /// How it failed.
        detail: String,
    },
    /// It did not answer in time.
    #[error("bash did not answer within {} seconds", START_LIMIT.as_secs())]
    Stuck,
}

impl StartError {
    /// Why `bash` could not be started.
    pub(crate) fn of(bash: &Path, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EACCES | libc::ENOEXEC | libc::ENOTDIR | libc::ETXTBSY) => {
                Self::NotExecutable { path: bash.display().to_string(), error }
            }
            _ => Self::System(error),
        }
    }

    /// Whether something ran out that other processes may give back: descriptors, processes, memory.
    pub fn is_shortage(&self) -> bool {
        let Self::System(error) = self else { return false };
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM))
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::System(error) => match error.raw_os_error() {
                Some(libc::EMFILE) => {
                    "the daemon has no file descriptor left: run fewer commands at a time, or raise its limit \
                     (ulimit -n, LimitNOFILE=) and restart it"
                }
                Some(libc::ENFILE) => "the machine has no file descriptor left: close files, or raise fs.file-max",
                Some(libc::EAGAIN) => {
                    "no more processes can be started: stop some, or raise the limit (ulimit -u, TasksMax=)"
                }
                Some(libc::ENOMEM) => "the machine is short of memory: stop something, or run fewer commands at a time",
                _ => "see the daemon's log",
            },
            Self::NotExecutable { .. } => "install bash there, or name another one with --bash",
            Self::Unsupported { .. } => "name another bash with --bash",
            Self::Stuck => "the machine may be overloaded: run fewer commands at a time",
        }
    }
}
