//! A service: a long-running command of a session, which outlives us. A small program of its own, the keeper, starts
//! bash, writes the output to a bounded log and notes the end; we only hold handles, and another daemon can take over.

mod keeper;
pub mod log;
mod spec;
mod start;
mod watch;

pub use spec::{ServiceExit, ServiceSpec, ServiceStamps, ServiceStartError, left_exit};

use crate::cage::Cage;
use crate::confine::{Confinement, Namespaces};
use crate::facts::Fact;
use crate::proc::Stat;
use crate::run::RunSpec;
use crate::shell::NotRestored;
use crate::{handle, spawn, stdio};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use start::Begun;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How long killed processes may take to exit. Longer means that they wait for a disk; do not wait for that.
const GONE_LIMIT: Duration = Duration::from_secs(5);

/// A running service. Dropping it lets the service continue; another daemon may be about to take it over.
#[derive(Debug)]
pub struct ServiceProcess {
    directory: PathBuf,
    stamps: ServiceStamps,
    keeper: AsyncFd<OwnedFd>,
    cage: Cage,
    exit: Option<ServiceExit>,
    /// Kept for the other processes of its session.
    namespaces: Option<Arc<Namespaces>>,
}

impl ServiceProcess {
    /// Starts, confined if it should be; gives what of the state could not be restored. Everything started is ended if this
    /// fails or is dropped half-way.
    pub async fn start(
        spec: ServiceSpec,
        cage: Cage,
        confinement: Option<Confinement>,
        facts: &[Fact],
        run: RunSpec<'_>,
    ) -> Result<(Self, Vec<NotRestored>), ServiceStartError> {
        let directory = spec.directory.clone();
        let namespaces = confinement.as_ref().and_then(Confinement::namespaces).cloned();
        let Begun { stamps, keeper, cage, problems } = start::start(spec, cage, confinement, facts, run).await?;
        Ok((Self { directory, stamps, keeper, cage, exit: None, namespaces }, problems))
    }

    /// Takes over one that an earlier daemon started, with its cage from [`crate::CageFactory::adopt`]. `None` if its
    /// keeper is gone: then what was left in the cage is ended, and [`left_exit`] says how it exited.
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
        let namespaces = Namespaces::of_process(stamps.main.pid).ok().flatten().map(Arc::new);
        Ok(Some(Self { directory, stamps, keeper, cage, exit: None, namespaces }))
    }

    /// What its room shares with the other processes of its session, if it is in one.
    pub fn namespaces(&self) -> Option<&Arc<Namespaces>> {
        self.namespaces.as_ref()
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
            spawn::awaited().remove(self.stamps.keeper.pid);
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
