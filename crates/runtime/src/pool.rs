//! Shells: some started ahead, so that waking a session costs the restore and not the start, and never more than the
//! quota. A shell is never given to a second session.

use shellkeep_process::{CageFactory, LiveShell, ShellSpec, StartError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A shell and its place under the quota; both end together.
#[derive(Debug)]
pub struct Worn {
    /// The shell.
    pub shell: LiveShell,
    _place: Place,
}

/// A place under the quota. Giving it up is news for those who wait for one.
#[derive(Debug)]
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    news: Arc<News>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.permit = None;
        self.news.freed.notify_one();
        self.news.wanted.notify_one();
    }
}

#[derive(Debug, Default)]
struct News {
    /// A shell may be had now that could not be had before.
    freed: Notify,
    /// Spares may be missing.
    wanted: Notify,
}

/// The shells of a node.
#[derive(Debug)]
pub struct Pool {
    bash: PathBuf,
    scratch: PathBuf,
    factory: CageFactory,
    places: Arc<Semaphore>,
    limit: usize,
    ahead: usize,
    spares: Mutex<Vec<Worn>>,
    news: Arc<News>,
    started: AtomicU64,
}

impl Pool {
    /// A pool of at most `limit` shells, `ahead` of them started before anyone asks. `scratch` is an empty directory.
    pub fn new(bash: PathBuf, scratch: PathBuf, factory: CageFactory, limit: usize, ahead: usize) -> Self {
        Self {
            bash,
            scratch,
            factory,
            places: Arc::new(Semaphore::new(limit)),
            limit,
            ahead: ahead.min(limit),
            spares: Mutex::new(Vec::new()),
            news: Arc::default(),
            started: AtomicU64::new(0),
        }
    }

    /// The quota.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Shells started ahead.
    pub fn spare_count(&self) -> usize {
        self.spares().len()
    }

    /// Shells alive, spares included.
    pub fn live_count(&self) -> usize {
        self.limit - self.places.available_permits()
    }

    /// A shell if one is spare or the quota allows another; `None` if every place is taken.
    pub async fn try_take(&self) -> Result<Option<Worn>, StartError> {
        let spare = self.spares().pop();
        if spare.is_some() {
            self.news.wanted.notify_one();
            return Ok(spare);
        }
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => self.start(place).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Waits until a shell may be had that could not be had before: a place is free, or a session has become idle.
    pub async fn freed(&self) {
        self.news.freed.notified().await;
    }

    /// A session has become idle; whoever waits may take its place.
    pub fn one_is_idle(&self) {
        self.news.freed.notify_one();
    }

    async fn start(&self, permit: OwnedSemaphorePermit) -> Result<Worn, StartError> {
        let place = Place { permit: Some(permit), news: Arc::clone(&self.news) };
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("shell-{}-{number}", std::process::id());
        let spec = ShellSpec { bash: self.bash.clone(), rescue: self.scratch.join(&name) };
        let shell = LiveShell::start(spec, self.factory.cage(&name)).await?;
        metrics::counter!("shellkeep_shells_started_total").increment(1);
        Ok(Worn { shell, _place: place })
    }

    /// Keeps spares ready, for as long as the task that runs this lives.
    pub async fn keep_ahead(&self) {
        loop {
            while self.spare_count() < self.ahead {
                let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { break };
                match self.start(place).await {
                    Ok(worn) => {
                        self.spares().push(worn);
                        self.news.freed.notify_one();
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a spare shell could not be started");
                        break;
                    }
                }
            }
            self.news.wanted.notified().await;
        }
    }

    /// Gives up the spares and ends whatever is left in any cage.
    pub fn close(&self) {
        self.places.close();
        self.spares().clear();
        self.factory.remove();
    }

    fn spares(&self) -> MutexGuard<'_, Vec<Worn>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
