//! What runs on without its shell: the shell ended, or belonged to a command in the background that has ended.

use crate::notices;
use crate::pool::PooledShell;
use rustix::fd::OwnedFd;
use shellkeep_process::{LiveShell, handle, stdio};
use shellkeep_session::{Notice, Unkept};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The processes that shells left running. They end with the session, and with its shell when it is put to sleep.
#[derive(Default)]
pub(super) struct Remnants {
    shells: Vec<LiveShell>,
    /// A process of the first.
    watched: Option<AsyncFd<OwnedFd>>,
}

impl Remnants {
    /// Keeps what this shell left running, if it left anything. Its place is free for another shell from now on: what runs
    /// without one counts among its agent's processes.
    pub(super) fn keep(&mut self, pooled: PooledShell) {
        self.forget_ended();
        let shell = pooled.leave();
        if !shell.others().is_empty() {
            self.shells.push(shell);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shells.is_empty()
    }

    /// Ends all of them, and the session's shell. Gives a notice of what is lost: processes, and what only that shell had, of
    /// which `variables` were too large to keep.
    pub(super) fn end_with(&mut self, shell: Option<LiveShell>, variables: &[String], why: &str) -> Option<Notice> {
        let ended = std::mem::take(self).shells;
        let processes: Vec<_> = ended.iter().chain(&shell).flat_map(notices::processes).collect();
        let unkept =
            shell.map(|shell| Unkept { descriptors: notices::descriptors(&shell), variables: variables.to_vec() });
        notices::given_up(&processes, &unkept.unwrap_or_default(), why)
    }

    /// Returns when one of the processes has ended. May be dropped and called again at any time.
    pub(super) async fn changed(&mut self) {
        if self.watched.is_none() {
            self.watched = self.shells.first().and_then(|shell| {
                let handle = shell.others().iter().find_map(|stat| handle::open_exact(stat.stamp()))?;
                stdio::watch(handle, Interest::READABLE).ok()
            });
        }
        match &self.watched {
            Some(process) => drop(process.readable().await),
            // There is nothing to wait for. They are looked at again when there are more.
            None => std::future::pending().await,
        }
        self.forget_ended();
    }

    fn forget_ended(&mut self) {
        self.watched = None;
        self.shells.retain(|shell| !shell.others().is_empty());
    }
}
