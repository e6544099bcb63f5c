//! A service: a long-running command of a session, which outlives us. A small program of its own, the keeper, starts
//! bash, writes the output to a bounded log and notes the end; we only hold handles, and another daemon can take over.

mod keeper;
pub mod log;
mod start;
mod watch;

use crate::cage::Cage;
use crate::facts::{Bytes, Fact};
use crate::proc::{ProcessStamp, Stat};
use crate::shell::{ExitStatus, StartError};
use crate::{handle, spawn, stdio};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Where the keeper leaves word of the end, as `keeper.c` has it.
const EXIT_FILE: &str = "exit";
/// How long what was killed may take to go. More means that it waits for a disk, and nobody should wait for that.
const GONE_LIMIT: Duration = Duration::from_secs(5);

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
    directory: PathBuf,
    stamps: ServiceStamps,
    keeper: AsyncFd<OwnedFd>,
    cage: Cage,
    exit: Option<ServiceExit>,
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
        start::start(spec, cage, facts, run).await
    }

    /// Takes over one that an earlier daemon started, with its cage from [`crate::CageFactory::adopt`]. `None` if its
    /// keeper is gone: then what was left in the cage is ended, and [`left_exit`] tells how it went.
    pub fn adopt(directory: PathBuf, mut cage: Cage, stamps: ServiceStamps) -> io::Result<Option<Self>> {
        let Some(keeper) = handle::open_exact(stamps.keeper) else {
            if Stat::read(stamps.keeper.pid).is_none_or(|stat| stat.stamp() != stamps.keeper) {
                return Ok(None);
            }
            cage.release();
            return Err(io::Error::other("the service runs, but the system gives no handle on it"));
        };
        cage.release();
        cage.recall(stamps.keeper, stamps.main);
        let keeper = stdio::watch(keeper, Interest::READABLE)?;
        Ok(Some(Self { directory, stamps, keeper, cage, exit: None }))
    }

    /// Who it is.
    pub fn stamps(&self) -> ServiceStamps {
        self.stamps
    }

    /// Waits for its end. May be dropped and called again.
    pub async fn ended(&mut self) -> ServiceExit {
        if let Some(exit) = self.exit {
            return exit;
        }
        if let Ok(mut ready) = self.keeper.readable().await {
            ready.retain_ready();
        }
        // It is our child unless an earlier daemon started it.
        let keeper = WaitId::PidFd(self.keeper.get_ref().as_fd());
        if let Ok(Some(_)) = waitid(keeper, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            spawn::awaited().remove(&self.stamps.keeper.pid);
        }
        let exit = left_exit(&self.directory).unwrap_or(ServiceExit::Unknown);
        if exit == ServiceExit::Unknown {
            // A keeper that was killed could not see to the rest.
            let rest = self.cage.signal_all(Signal::KILL);
            let _ = tokio::time::timeout(GONE_LIMIT, handle::gone(rest)).await;
        }
        self.exit = Some(exit);
        exit
    }

    /// Sends a signal to everyone in the tree. If the main process ends by it with another status than 0, the rest is
    /// ended at once; to give all of them time, see [`Self::stop`].
    pub fn signal(&self, signal: Signal) {
        self.cage.signal_all(signal);
    }

    /// Asks everyone in the tree to end, with this signal, and lets each take its time even when the main process is
    /// gone. Call [`Self::kill`] when the time is up.
    pub fn stop(&self, signal: Signal) {
        handle::send(self.keeper.get_ref(), Signal::USR1);
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

    /// How often its processes were refused, or ended, because there were too many.
    pub fn limit_hits(&self) -> u64 {
        self.cage.limit_hits()
    }
}

/// What the keeper wrote at the end, if it did.
pub fn left_exit(directory: &Path) -> Option<ServiceExit> {
    parse_exit(&std::fs::read_to_string(directory.join(EXIT_FILE)).ok()?)
}

fn parse_exit(text: &str) -> Option<ServiceExit> {
    let mut words = text.split_whitespace();
    let (how, number, at) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let status = match how {
        "exited" => ExitStatus::Exited(number),
        "signalled" => ExitStatus::Signalled(number),
        _ => return None,
    };
    Some(ServiceExit::Ended { status, at_ms: at.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_the_end_is_read() {
        let ended = |status| Some(ServiceExit::Ended { status, at_ms: 1_731_660_000_123 });
        assert_eq!(parse_exit("exited 3 1731660000123\n"), ended(ExitStatus::Exited(3)));
        assert_eq!(parse_exit("signalled 9 1731660000123\n"), ended(ExitStatus::Signalled(9)));
        for text in ["", "exited", "exited 3", "left 3 1", "exited x 1"] {
            assert_eq!(parse_exit(text), None, "{text}");
        }
    }
}
