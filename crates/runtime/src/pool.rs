//! Shells: some started in advance, so that waking a session costs a restore and not a start, and never more than the
//! quota. A shell is never reused by a second session. A failed start is retried after a pause.

mod trouble;

use crate::admission::{FairNotify, Notified};
use crate::host_mounts::{HostMounts, MountChanges};
use crate::rooms::Ahead;
use crate::sandboxes::Sandboxes;
use crate::spare_namespaces::GIVE_WAY;
use crate::sync::lock;
use shellkeep_process::{CageFactory, LiveShell, Namespaces, StartError, Zygote};
use shellkeep_session::Sandbox;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::sync::Notify;
pub use trouble::NoShell;
use trouble::Trouble;

/// How long after a change of the machine's mounts rooms are made in advance again.
const MOUNTS_SETTLE: Duration = Duration::from_secs(1);

/// A shell and its place under the quota; both end together.
#[derive(Debug)]
pub struct PooledShell {
    pub shell: LiveShell,
    /// How far it is confined. While it has no session, the sandbox that it is prepared for; none is for all.
    pub sandbox: Sandbox,
    /// The room that it is in already, while it has no session.
    pub room: Option<RoomAhead>,
    _place: PoolSlot,
}

/// A room that was entered before its session is known.
#[derive(Debug, Clone)]
pub struct RoomAhead {
    /// What it shares with the other processes of the session.
    pub namespaces: Arc<Namespaces>,
    /// Which mounts of the machine it was made from; see [`HostMounts::changes`].
    mounts: u64,
}

/// A place under the quota. Releasing it notifies those that wait for one.
#[derive(Debug)]
struct PoolSlot {
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
struct Places {
    taken: AtomicUsize,
    limit: AtomicUsize,
    news: News,
    trouble: Trouble,
}

impl Places {
    fn take(self: &Arc<Self>) -> Option<PoolSlot> {
        let below = |taken: usize| (taken < self.limit.load(Ordering::SeqCst)).then_some(taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below).ok()?;
        Some(PoolSlot { places: Arc::clone(self), was_used: false })
    }
}

#[derive(Debug, Default)]
struct News {
    /// A shell may have become available.
    freed: Arc<FairNotify>,
    /// Spares may be missing.
    wanted: Notify,
}

/// Shells that were started in advance.
#[derive(Debug)]
struct Spares {
    ready: Vec<PooledShell>,
    /// The sandboxes that sessions have had since the start, for which spares are prepared.
    wanted: Vec<Sandbox>,
}

impl Spares {
    /// Drops rooms that were made from other mounts of the machine than there are now; all, if that is not known.
    fn drop_outdated(&mut self, mounts: Option<u64>) {
        self.ready.retain(|spare| spare.room.as_ref().is_none_or(|room| Some(room.mounts) == mounts));
    }

    /// One for a session with this sandbox; if none is prepared for it, one that is not prepared.
    fn take(&mut self, sandbox: Sandbox) -> Option<PooledShell> {
        if !self.wanted.contains(&sandbox) {
            self.wanted.push(sandbox);
        }
        let place = |sandbox| self.ready.iter().rposition(|spare| spare.sandbox == sandbox);
        let place = place(sandbox).or_else(|| place(Sandbox::None));
        place.map(|place| self.ready.swap_remove(place))
    }

    /// A sandbox for which there are fewer than `count`.
    fn missing(&self, count: usize) -> Option<Sandbox> {
        let ready = |sandbox| self.ready.iter().filter(|spare| spare.sandbox == sandbox).count();
        self.wanted.iter().copied().find(|sandbox| ready(*sandbox) < count)
    }
}

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
    spares: Mutex<Spares>,
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
        let spares = Spares { ready: Vec::new(), wanted: vec![prepared_for(&sandboxes, sandboxes.least_of(None))] };
        Self {
            zygote,
            scratch,
            factory,
            sandboxes,
            mounts: HostMounts::open(),
            places: Arc::new(Places {
                taken: AtomicUsize::new(0),
                limit: AtomicUsize::new(limit),
                news: News::default(),
                trouble: Trouble::default(),
            }),
            ahead: ahead.min(limit),
            spares: Mutex::new(spares),
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
        let mut spares = self.spares();
        let kept = spares.ready.len().saturating_sub(beyond);
        drop(spares.ready.split_off(kept));
        drop(spares);
        self.live_count().saturating_sub(self.limit())
    }

    /// Shells started in advance.
    pub fn spare_count(&self) -> usize {
        self.spares().ready.len()
    }

    /// Shells alive, spares included.
    pub fn live_count(&self) -> usize {
        self.places.taken.load(Ordering::SeqCst)
    }

    /// A shell for a session of this agent and with this sandbox, if one is spare or the quota allows another; `None` if every
    /// place is taken. Shortly after a start failed no other is tried; the answer is the reason of the one that failed. Shells
    /// of an agent are born among its processes, so spares are for sessions without one.
    pub async fn try_take(&self, agent: Option<&str>, sandbox: Sandbox) -> Result<Option<PooledShell>, NoShell> {
        let spare = if agent.is_none() { self.take_spare(prepared_for(&self.sandboxes, sandbox)) } else { None };
        if let Some(spare) = spare {
            self.places.news.wanted.notify_one();
            if !spare.sandbox.is_none() {
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

    fn take_spare(&self, sandbox: Sandbox) -> Option<PooledShell> {
        let mut spares = self.spares();
        if sandbox == Sandbox::Room {
            spares.drop_outdated(self.changes_of_mounts().ok());
        }
        spares.take(sandbox)
    }

    fn changes_of_mounts(&self) -> io::Result<u64> {
        self.mounts.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?.changes()
    }

    /// Where spares have taken the last places, one of them goes.
    async fn instead_of_a_spare(&self, agent: Option<&str>) -> Result<Option<PooledShell>, NoShell> {
        let is_gone = self.spares().ready.pop().is_some();
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

    async fn launch(&self, mut place: PoolSlot, agent: Option<&str>) -> Result<PooledShell, StartError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("shell-{}-{number}", std::process::id());
        let shell = self.zygote.shell(self.scratch.join(&name), self.factory.cage_of(agent, &name)).await?;
        metrics::counter!("shellkeep_shells_started_total").increment(1);
        if shell.origin().is_forked {
            metrics::counter!("shellkeep_shells_forked_total").increment(1);
        }
        place.was_used = true;
        Ok(PooledShell { shell, sandbox: Sandbox::None, room: None, _place: place })
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
            let Some(pool) = pool.upgrade() else { return };
            if pool.start_spare().await {
                continue;
            }
            // Dropping the pool wakes this task one last time.
            drop(pool);
            places.news.wanted.notified().await;
            tokio::time::sleep(GIVE_WAY).await;
        }
    }

    /// Drops spares whose rooms have mounts that the machine has no more, or lack new ones, for as long as the pool lives.
    pub async fn drop_outdated_rooms(pool: Weak<Self>) {
        // Where changes cannot be seen, no room is made in advance.
        let Ok(changes) = MountChanges::open() else { return };
        while changes.next().await.is_ok() {
            {
                let Some(pool) = pool.upgrade() else { return };
                let now = pool.changes_of_mounts().ok();
                pool.spares().drop_outdated(now);
            }
            // Where one is mounted, often several are.
            tokio::time::sleep(MOUNTS_SETTLE).await;
            let Some(pool) = pool.upgrade() else { return };
            pool.places.news.wanted.notify_one();
        }
    }

    /// Starts a spare if one is missing. Returns whether it tried.
    async fn start_spare(&self) -> bool {
        let Some(sandbox) = self.spares().missing(self.ahead) else { return false };
        let Some(place) = self.places.take() else { return false };
        if let Ok(mut pooled) = self.start(place, None).await {
            match self.prepare(&mut pooled, sandbox).await {
                Ok(()) => self.spares().ready.push(pooled),
                Err(error) => {
                    // The next session with this sandbox says why it does not work.
                    tracing::debug!(%sandbox, %error, "no shell could be prepared");
                    self.spares().wanted.retain(|wanted| *wanted != sandbox);
                }
            }
            self.places.news.freed.notify_one();
        }
        true
    }

    async fn prepare(&self, pooled: &mut PooledShell, sandbox: Sandbox) -> io::Result<()> {
        let (sandboxes, mounts) = (Arc::clone(&self.sandboxes), self.changes_of_mounts()?);
        // For a room it starts a program and waits for it.
        let ahead = tokio::task::spawn_blocking(move || sandboxes.ahead(sandbox)).await;
        if let Some(Ahead { preparation, room }) = ahead.map_err(io::Error::other)?? {
            preparation.apply(&mut pooled.shell).await?;
            pooled.room = room.map(|namespaces| RoomAhead { namespaces, mounts });
            pooled.sandbox = sandbox;
        }
        Ok(())
    }

    /// Drops the spares and kills whatever is left in any cage, except for those in `keep`.
    pub fn close(&self, keep: &HashSet<String>) {
        self.places.limit.store(0, Ordering::SeqCst);
        self.spares().ready.clear();
        self.zygote.close();
        self.factory.remove(keep);
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        lock(&self.spares)
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
