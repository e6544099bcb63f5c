//! A service: a long-running command of a session, which outlives us. A small program of its own, the keeper, starts
//! bash, writes the output to a bounded log and notes the end; we only hold handles, and another daemon can take over.

pub mod log;

use crate::cage::Cage;
use crate::facts::{Bytes, Fact};
use crate::proc::{ProcessStamp, Stat};
use crate::shell::{ExitStatus, StartError};
use rustix::process::Signal;
use std::io;
use std::path::{Path, PathBuf};

/// How to start a service.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// The bash to run.
    pub bash: PathBuf,
    /// Where its log and the word of its end are kept. Exists; a log of an earlier life is appended to.
    pub directory: PathBuf,
    /// Most bytes its log may take.
    pub log_bytes: u64,
    /// Where the driver would leave a result when its socket is closed. Must not exist.
    pub rescue: PathBuf,
}

/// What it runs.
#[derive(Debug, Clone, Copy)]
pub struct ServiceCommand<'a> {
    /// The text, without NUL.
    pub command: &'a [u8],
    /// Directory to start in, instead of the session's.
    pub cwd: Option<&'a [u8]>,
    /// Exported variables, beside the session's.
    pub env: &'a [(Bytes, Bytes)],
}

/// Who it is, to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceStamps {
    /// The keeper.
    pub keeper: ProcessStamp,
    /// The process that runs the command.
    pub main: ProcessStamp,
}

/// How a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceExit {
    /// All of it is gone.
    Ended {
        /// How its main process ended.
        status: ExitStatus,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The keeper is gone and left no word.
    Unknown,
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    /// There is no bash to run it.
    #[error(transparent)]
    Shell(#[from] StartError),
    /// The directory cannot be entered, for this reason.
    #[error("the directory cannot be entered: {0}")]
    BadCwd(String),
}

impl From<io::Error> for ServiceStartError {
    fn from(error: io::Error) -> Self {
        Self::Shell(StartError::System(error))
    }
}

/// A running service. Dropping it lets the service go on; another daemon may be about to take it over.
#[derive(Debug)]
pub struct ServiceProcess {
    stamps: ServiceStamps,
    cage: Cage,
}

impl ServiceProcess {
    /// Starts; gives what of the state could not be restored, with the reason. Everything started is ended if this
    /// fails or is dropped half-way.
    pub async fn start(
        spec: ServiceSpec,
        cage: Cage,
        facts: &[Fact],
        run: ServiceCommand<'_>,
    ) -> Result<(Self, Vec<(String, String)>), ServiceStartError> {
        let _ = (spec, cage, facts, run);
        Err(io::Error::other("not there yet").into())
    }

    /// Takes over one that an earlier daemon started; `None` if its keeper is gone (then see [`left_exit`]), and what
    /// was left in the cage is ended.
    pub fn adopt(directory: PathBuf, cage: Cage, stamps: ServiceStamps) -> io::Result<Option<Self>> {
        let _ = (directory, cage, stamps);
        Ok(None)
    }

    /// Who it is.
    pub fn stamps(&self) -> ServiceStamps {
        self.stamps
    }

    /// Waits for its end. May be dropped and called again.
    pub async fn ended(&mut self) -> ServiceExit {
        ServiceExit::Unknown
    }

    /// Sends a signal to everyone in the tree. If the main process ends by it with another status than 0, the rest is
    /// ended at once; to give all of them time, see [`Self::stop`].
    pub fn signal(&self, signal: Signal) {
        let _ = signal;
    }

    /// Asks everyone in the tree to end, with this signal, and lets each take its time even when the main process is
    /// gone. Call [`Self::kill`] when the time is up.
    pub fn stop(&self, signal: Signal) {
        self.signal(signal);
    }

    /// Ends everyone, whatever they ignore.
    pub fn kill(&self) {
        self.cage.kill_all();
    }

    /// Everyone in the tree that is alive, the keeper not included.
    pub fn members(&self) -> Vec<Stat> {
        self.cage.members()
    }
}

/// What the keeper wrote at the end, if it did.
pub fn left_exit(directory: &Path) -> Option<ServiceExit> {
    let _ = directory;
    None
}
