//! Shells: some started in advance, so that waking a session costs a restore and not a start, and never more than the
//! quota. A shell is never reused by a second session. A failed start is retried after a pause.

mod places;
mod spares;
mod trouble;

use crate::admission::Notified;
use crate::host_mounts::{HostMounts, MountChanges};
use crate::rooms::Ahead;
use crate::sandboxes::Sandboxes;
use crate::spare_namespaces::GIVE_WAY;
use crate::tasks;
use places::{Places, PoolSlot};
pub use places::{PooledShell, RoomAhead};
use shellkeep_process::{CageFactory, StartError, Zygote};
use shellkeep_session::Sandbox;
use spares::Spares;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
pub use trouble::NoShell;

/// How long after a change of the machine's mounts rooms are made in advance again.
const MOUNTS_SETTLE: Duration = Duration::from_secs(1);

/// How long no spares are started after some have ended. Whatever killed them may go on.
const ENDED_PAUSE: Duration = Duration::from_millis(100);

/// The shells of a node.
#[derive(Debug)]
pub struct Pool {
    zygote: Zygote,
    scratch: PathBuf,
    factory: Arc<CageFactory>,
    sandboxes: Arc<Sandboxes>,
    mounts: io::Result<HostMounts>,
    places: Arc<Places>,
    /// How many are started in advance, for each sandbox that sessions have.
    ahead: usize,
    spares: Spares,
    started: AtomicU64,
}

impl Pool {
    /// A pool of at most `limit` shells. `ahead` are started in advance for each sandbox that sessions have, at first for
    /// `least`. `scratch` is an empty directory.
    pub(crate) fn new(
        zygote: Zygote,
        scratch: PathBuf,
        factory: Arc<CageFactory>,
        sandboxes: Arc<Sandboxes>,
        (limit, ahead): (usize, usize),
    ) -> Self {
        let spares = Spares::new(prepared_for(&sandboxes, sandboxes.least_of(None)));
        Self {
            zygote,
            scratch,
            factory,
            sandboxes,
            mounts: HostMounts::open(),
            places: Arc::new(Places::new(limit)),
            ahead: ahead.min(limit),
            spares,
            started: AtomicU64::new(0),
        }
    }

    /// The quota.
    pub fn limit(&self) -> usize {
        self.places.limit.load(Ordering::SeqCst)
    }

    /// Changes the quota. Shells beyond a lower one are not affected; see [`Pool::excess`].
    pub fn set_limit(&self, limit: usize) {
        let before = self.places.limit.swap(limit, Ordering::SeqCst);
        for _ in before..limit {
            self.places.news.freed.notify_one();
        }
        self.places.news.wanted.notify_one();
    }

    /// How many shells live beyond the quota. Spares go first.
    pub fn excess(&self) -> usize {
        let beyond = self.live_count().saturating_sub(self.limit());
        self.spares.drop_some(beyond);
        self.live_count().saturating_sub(self.limit())
    }

    /// Shells started in advance.
    pub fn spare_count(&self) -> usize {
        self.spares.count()
    }

    /// Shells alive, spares included.
    pub fn live_count(&self) -> usize {
        self.places.taken.load(Ordering::SeqCst)
    }

    /// A shell for a session of this agent, if one is spare or the quota allows another; `None` if every place is taken. It may
    /// be prepared for `sandbox`; without one it is not prepared. Shortly after a start failed no other is tried; the answer is the
    /// reason of the one that failed. An agent's shells start among its processes; spares are for sessions without one.
    pub async fn try_take(
        &self,
        agent: Option<&str>,
        sandbox: Option<Sandbox>,
    ) -> Result<Option<PooledShell>, NoShell> {
        let spare = if agent.is_none() { self.take_spare(sandbox) } else { None };
        if let Some(spare) = spare {
            self.places.news.wanted.notify_one();
            if !spare.sandbox().is_none() {
                metrics::counter!("shellkeep_shells_prepared_total").increment(1);
            }
            return Ok(Some(spare));
        }
        if let Some(reason) = self.places.trouble.now() {
            return Err(reason);
        }
        match self.places.take() {
            Some(place) => self.start(place, agent).await.map(Some),
            None => self.instead_of_a_spare(agent).await,
        }
    }

    fn take_spare(&self, sandbox: Option<Sandbox>) -> Option<PooledShell> {
        let Some(sandbox) = sandbox else { return self.spares.take_unprepared() };
        self.spares.take(prepared_for(&self.sandboxes, sandbox), || self.changes_of_mounts().ok())
    }

    fn changes_of_mounts(&self) -> io::Result<u64> {
        self.mounts.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?.changes()
    }

    /// Where spares have taken the last places, one of them goes.
    async fn instead_of_a_spare(&self, agent: Option<&str>) -> Result<Option<PooledShell>, NoShell> {
        let is_gone = self.spares.drop_some(1) == 1;
        match self.places.take().filter(|_| is_gone) {
            Some(place) => self.start(place, agent).await.map(Some),
            None => Ok(None),
        }
    }

    /// How many processes an agent may have.
    pub fn processes_per_agent(&self) -> u64 {
        self.factory.limits().per_party
    }

    /// How many processes an agent has, if that is as many as it may have.
    pub fn full(&self, agent: &str) -> Option<u64> {
        let count = self.factory.count_of(agent);
        (count >= self.processes_per_agent()).then_some(count)
    }

    /// Starts a shell to check that it works, and stops it.
    pub async fn probe(&self) -> Result<(), StartError> {
        let Some(place) = self.places.take() else { return Ok(()) };
        self.launch(place, None).await.map(drop)
    }

    /// Why a command waits for a shell although the quota allows more: the last failed start.
    pub fn trouble(&self) -> Option<NoShell> {
        self.places.trouble.last().filter(|_| self.live_count() < self.limit())
    }

    /// A resource for a shell is missing: no shell is started for a while.
    pub fn failed(&self, error: &StartError) -> NoShell {
        metrics::counter!("shellkeep_shell_starts_failed_total").increment(1);
        let why = self.places.trouble.failed(error);
        // The task that keeps spares ready waits for the end of the pause and then wakes one waiter.
        self.places.news.wanted.notify_one();
        why
    }

    /// Waits for a shell to become available: a place is free, or a session has become idle.
    pub fn waiter(&self, agent: &Arc<str>) -> Notified {
        self.places.news.freed.waiter(agent)
    }

    /// A session has become idle; one that waits may take its place.
    pub fn one_is_idle(&self) {
        self.places.news.freed.notify_one();
    }

    async fn start(&self, place: PoolSlot, agent: Option<&str>) -> Result<PooledShell, NoShell> {
        match self.launch(place, agent).await {
            Ok(pooled) => {
                if self.places.trouble.is_over() {
                    // One waiter may take the next shell, and so on until all have one or a start fails again.
                    self.places.news.freed.notify_one();
                }
                Ok(pooled)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    async fn launch(&self, place: PoolSlot, agent: Option<&str>) -> Result<PooledShell, StartError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("shell-{}-{number}", std::process::id());
        let shell = self.zygote.shell(self.scratch.join(&name), self.factory.cage_of(agent, &name)).await?;
        metrics::counter!("shellkeep_shells_started_total").increment(1);
        if shell.origin().is_forked {
            metrics::counter!("shellkeep_shells_forked_total").increment(1);
        }
        Ok(PooledShell::new(shell, place))
    }

    /// Keeps spares ready for as long as the pool lives. After a failed start it pauses, and then lets one waiter try
    /// before it tries itself.
    pub async fn keep_spares(pool: Weak<Self>) {
        let Some(places) = pool.upgrade().map(|pool| Arc::clone(&pool.places)) else { return };
        loop {
            while let Some(pause) = places.trouble.pause() {
                tokio::time::sleep(pause).await;
                places.news.freed.notify_one();
            }
            let Some(live) = pool.upgrade() else { return };
            if live.start_spare().await {
                continue;
            }
            // Dropping the pool wakes this task one last time.
            drop(live);
            let ended = |cx: &mut Context<'_>| pool.upgrade().map_or(Poll::Pending, |pool| pool.spares.poll_ended(cx));
            tokio::select! {
                () = places.news.wanted.notified() => tokio::time::sleep(GIVE_WAY).await,
                () = std::future::poll_fn(ended) => tokio::time::sleep(ENDED_PAUSE).await,
            }
        }
    }

    /// Drops spares whose rooms have mounts that the machine has no more, or lack new ones, for as long as the pool lives.
    pub async fn drop_outdated_rooms(pool: Weak<Self>) {
        // Where changes cannot be seen, no room is made in advance.
        let Ok(changes) = MountChanges::open() else { return };
        while changes.next().await.is_ok() {
            {
                let Some(pool) = pool.upgrade() else { return };
                pool.spares.drop_outdated(pool.changes_of_mounts().ok());
            }
            // Where one is mounted, often several are.
            tokio::time::sleep(MOUNTS_SETTLE).await;
            let Some(pool) = pool.upgrade() else { return };
            pool.places.news.wanted.notify_one();
        }
    }

    /// Starts a spare if one is missing. Returns whether it tried.
    async fn start_spare(&self) -> bool {
        let Some(sandbox) = self.spares.missing(self.ahead) else { return false };
        let Some(place) = self.places.take() else { return false };
        if let Ok(mut pooled) = self.start(place, None).await {
            match self.prepare(&mut pooled, sandbox).await {
                Ok(()) => self.spares.put(pooled),
                Err(error) => {
                    // The next session with this sandbox says why it does not work.
                    tracing::debug!(%sandbox, %error, "no shell could be prepared");
                    self.spares.forget(sandbox);
                }
            }
            self.places.news.freed.notify_one();
        }
        true
    }

    async fn prepare(&self, pooled: &mut PooledShell, sandbox: Sandbox) -> io::Result<()> {
        let sandboxes = Arc::clone(&self.sandboxes);
        // Before it is made. Nothing but a room depends on them.
        let mounts = (sandbox == Sandbox::Room).then(|| self.changes_of_mounts()).transpose()?;
        // For a room it starts a program and waits for it.
        let ahead = tasks::blocking(move || sandboxes.ahead(sandbox)).await;
        if let Some(Ahead { preparation, room }) = ahead.map_err(io::Error::other)?? {
            let room = room.zip(mounts).map(|(namespaces, mounts)| RoomAhead { namespaces, mounts });
            pooled.prepare(sandbox, preparation, room).await?;
        }
        Ok(())
    }

    /// Drops the spares and kills whatever is left in any cage, except for those in `keep`.
    pub fn close(&self, keep: &HashSet<String>) {
        self.places.limit.store(0, Ordering::SeqCst);
        self.spares.drop_some(usize::MAX);
        self.zygote.close();
        self.factory.remove(keep);
    }
}

/// For which sandbox a shell can be prepared, so that sessions with this one can have it.
fn prepared_for(sandboxes: &Sandboxes, sandbox: Sandbox) -> Sandbox {
    if sandboxes.has_user(sandbox) || sandbox == Sandbox::User { Sandbox::None } else { sandbox }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The task that keeps spares ready ends.
        self.places.news.wanted.notify_one();
    }
}
