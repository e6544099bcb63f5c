//! The places of shells under the quota, and a shell in its place.

use super::trouble::Trouble;
use crate::admission::FairNotify;
use crate::sandboxes::Confined;
use crate::tasks;
use rustix::process::Signal;
use shellkeep_process::proc::Stat;
use shellkeep_process::{Fact, LiveShell, Namespaces, NotRestored, Preparation};
use shellkeep_session::Sandbox;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// A shell and its place under the quota; both end together.
#[derive(Debug)]
pub struct PooledShell {
    /// Boxed: it goes from hand to hand with every command.
    pub shell: Box<LiveShell>,
    sandbox: Sandbox,
    settings: u64,
    /// The room that it is in already, while it has no session.
    pub(super) room: Option<RoomAhead>,
    /// Dropped after the shell: who waits for it needs what that frees.
    place: Option<PoolSlot>,
}

impl PooledShell {
    /// One that is not prepared.
    pub(super) fn new(shell: LiveShell, mut place: PoolSlot) -> Self {
        place.was_used = true;
        Self { shell: Box::new(shell), sandbox: Sandbox::None, settings: 0, room: None, place: Some(place) }
    }

    /// Does to it what can be done before its session is known.
    pub(super) async fn prepare(
        &mut self,
        sandbox: Sandbox,
        preparation: Preparation,
        room: Option<RoomAhead>,
    ) -> io::Result<()> {
        self.shell.confine_ahead(preparation).await?;
        (self.sandbox, self.room) = (sandbox, room);
        Ok(())
    }

    /// Becomes a session, confined if it is to be. Gives what could not be restored.
    pub(crate) async fn restore(&mut self, confined: Option<Confined>, facts: &[Fact]) -> io::Result<Vec<NotRestored>> {
        let Some(Confined { confinement, rescue, sandbox }) = confined else { return self.shell.restore(facts).await };
        (self.sandbox, self.settings) = (sandbox, confinement.settings());
        self.shell.restore_confined(confinement, &rescue, facts).await
    }

    /// The room that it is in already, which its session is to share. It is given away once.
    pub fn take_room(&mut self) -> Option<Arc<Namespaces>> {
        self.room.take().map(|room| room.namespaces)
    }

    /// How far it is confined. While it has no session, the sandbox that it is prepared for; none is for all.
    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    /// Which settings of the machine it can read.
    pub fn settings(&self) -> u64 {
        self.settings
    }

    /// Sends a signal to what the running command started. Waits until all of it stands still.
    pub fn signal_run(&self, signal: Signal) {
        tasks::in_place(|| drop(self.shell.descendants.signal_run(signal)));
    }

    /// Kills all that its commands have started, those before the running one too. Waits until all of it stands still.
    pub fn kill_started(&self) {
        tasks::in_place(|| self.shell.descendants.kill());
    }

    /// Whether nothing works in it: it has no other process, and no second thread, which code that a command has loaded into it
    /// may have.
    pub fn is_quiet(&self) -> bool {
        let threads = Stat::read(self.shell.pid()).map_or(0, |stat| stat.threads);
        threads <= 1 && self.shell.descendants.alive().is_empty()
    }

    /// Gives back its place; the shell will run nothing more.
    pub fn leave(&mut self) {
        self.place = None;
    }
}

/// A room that was entered before its session is known.
#[derive(Debug, Clone)]
pub struct RoomAhead {
    /// What it shares with the other processes of the session.
    pub namespaces: Arc<Namespaces>,
    /// Which mounts of the machine it was made from; see `HostMounts::changes`.
    pub(super) mounts: u64,
}

/// A place under the quota. Releasing it notifies those that wait for one.
#[derive(Debug)]
pub(super) struct PoolSlot {
    places: Arc<Places>,
    /// Whether a shell lived in it. Only then does releasing it free processes and descriptors too.
    was_used: bool,
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::SeqCst);
        if self.was_used {
            self.places.trouble.may_try_again();
        }
        self.places.news.freed.notify_one();
        self.places.news.wanted.notify_one();
    }
}

/// The places under the quota, which may change while they are taken.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) taken: AtomicUsize,
    pub(super) limit: AtomicUsize,
    pub(super) news: News,
    pub(super) trouble: Trouble,
}

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        let (taken, limit) = (AtomicUsize::new(0), AtomicUsize::new(limit));
        Self { taken, limit, news: News::default(), trouble: Trouble::default() }
    }

    pub(super) fn take(self: &Arc<Self>) -> Option<PoolSlot> {
        let below = |taken: usize| (taken < self.limit.load(Ordering::SeqCst)).then_some(taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below).ok()?;
        Some(PoolSlot { places: Arc::clone(self), was_used: false })
    }
}

#[derive(Debug, Default)]
pub(super) struct News {
    /// A shell may have become available.
    pub(super) freed: Arc<FairNotify>,
    /// Spares may be missing.
    pub(super) wanted: Notify,
}
