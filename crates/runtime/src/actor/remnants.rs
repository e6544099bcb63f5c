//! What runs on without its shell: the shell ended, or belonged to a command in the background that has ended.

use super::rest_reason::RestReason;
use crate::notices;
use crate::pool::PooledShell;
use rustix::fd::OwnedFd;
use shellkeep_process::{handle, stdio};
use shellkeep_session::{Notice, Unkept};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// So many of a session's shells that have ended take no place from others. Each holds a few descriptors of the daemon.
const WITHOUT_PLACE: usize = 32;
/// How many are looked at when another is added.
const LOOKED_AT: usize = 8;
/// At most so often a process that has ended makes us look at the others: some start the next one and end.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often is looked where there is no process to wait for, as when the daemon has no descriptors left.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// The processes that shells left running. They end with the session, and with its shell when it is put to sleep.
#[derive(Default)]
pub(super) struct Remnants {
    shells: VecDeque<PooledShell>,
    /// A process of the first.
    watched: Option<AsyncFd<OwnedFd>>,
}

impl Remnants {
    /// Keeps what this shell left running, if it left anything. Up to [`WITHOUT_PLACE`] of them leave their places to other
    /// shells: what runs without one counts among its agent's processes.
    pub(super) fn keep(&mut self, mut pooled: PooledShell) {
        for _ in 0..LOOKED_AT.min(self.shells.len()) {
            let first = self.shells.pop_front();
            self.shells.extend(first.filter(|first| !first.shell.descendants.alive().is_empty()));
        }
        self.watched = None;
        if pooled.shell.descendants.alive().is_empty() {
            return;
        }
        if self.shells.len() < WITHOUT_PLACE {
            pooled.leave();
        }
        self.shells.push_back(pooled);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shells.is_empty()
    }

    /// Ends all of them, and the session's shell. Gives a notice of what is lost: processes, and what only that shell had, of
    /// which `variables` were too large to keep.
    pub(super) fn end_with(
        &mut self,
        shell: Option<PooledShell>,
        variables: &[String],
        why: RestReason,
    ) -> Option<Notice> {
        let ended = std::mem::take(self).shells;
        let all = ended.iter().chain(&shell);
        let processes: Vec<_> = all.flat_map(|pooled| notices::processes(&pooled.shell)).collect();
        let unkept = shell
            .as_ref()
            .map(|pooled| Unkept { descriptors: notices::descriptors(&pooled.shell), variables: variables.to_vec() });
        notices::given_up(&processes, &unkept.unwrap_or_default(), why.why())
    }

    /// Returns when the first may have ended, and after it was forgotten if it has. May be dropped and called again at any time.
    pub(super) async fn changed(&mut self) {
        if self.watched.is_none() {
            let Some(first) = self.shells.front() else { return std::future::pending().await };
            let others = first.shell.descendants.alive();
            if others.is_empty() {
                self.shells.pop_front();
                return;
            }
            let handle = others.iter().find_map(|stat| handle::open_exact(stat.stamp()));
            self.watched = handle.and_then(|handle| stdio::watch(handle, Interest::READABLE).ok());
        }
        match &self.watched {
            Some(process) => {
                drop(process.readable().await);
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            None => tokio::time::sleep(LOOK_ANYWAY).await,
        }
        self.watched = None;
    }
}
