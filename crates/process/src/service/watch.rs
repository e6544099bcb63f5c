//! Being told when a directory changes. The kernel allows a user few inotify instances, fewer than there may be
//! services, so one serves the whole process, on a thread of its own. Sessions of the same user can have all of them, and all
//! watches: where there is none for us, it is time to look once a second.

use crate::sync::lock;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Changes are reported in batches: a service that writes a million lines a second causes few reports.
const BATCH: Duration = Duration::from_millis(5);
/// How often is looked where nothing tells of changes.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// Room for the kernel's news.
const NEWS_BYTES: usize = 16 << 10;

/// All waiters, by the watch descriptor of the directory.
type Waiting = HashMap<i32, Vec<Arc<Notify>>>;

struct Hub {
    inotify: OwnedFd,
    waiting: Mutex<Waiting>,
}

/// Tells when something changes in a directory, or may have changed: a file is written to, made, renamed or removed.
#[derive(Debug)]
pub struct LogWatch {
    /// None if the kernel does not tell.
    told: Option<Told>,
    /// When to look then.
    look_at: Instant,
}

/// A place among those who are told.
#[derive(Debug)]
struct Told {
    number: i32,
    news: Arc<Notify>,
}

impl LogWatch {
    /// Starts watching. Look afterwards, so that no change is missed.
    pub fn new(directory: &Path) -> Self {
        Self { told: Told::new(directory).ok(), look_at: Instant::now() + LOOK_ANYWAY }
    }

    /// Waits for a change since the last time this returned, or since the watch began. May be dropped and called again.
    pub async fn changed(&mut self) {
        if let Some(told) = &self.told {
            return told.news.notified().await;
        }
        tokio::time::sleep_until(self.look_at).await;
        self.look_at = Instant::now() + LOOK_ANYWAY;
    }
}

impl Told {
    fn new(directory: &Path) -> io::Result<Self> {
        let hub = hub()?;
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let news = Arc::new(Notify::new());
        // Locked before the kernel is asked: another thread may be dropping the same directory.
        let mut waiting = hub.waiting();
        let number = add_watch(&hub.inotify, directory, flags | WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR)?;
        waiting.entry(number).or_default().push(Arc::clone(&news));
        Ok(Self { number, news })
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let Ok(hub) = hub() else { return };
        let mut waiting = hub.waiting();
        if let Some(others) = waiting.get_mut(&self.number) {
            others.retain(|news| !Arc::ptr_eq(news, &self.news));
            if others.is_empty() {
                waiting.remove(&self.number);
                let _ = remove_watch(&hub.inotify, self.number);
            }
        }
    }
}

/// Takes what is needed to be told of changes. To be called before anything of a session runs, which may take all that the
/// kernel lets this user have.
pub fn watch_logs() -> io::Result<()> {
    hub().map(|_| ())
}

/// The one of this process, started when it is first needed.
fn hub() -> io::Result<&'static Hub> {
    static HUB: OnceLock<Hub> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _only_one = lock(&STARTING);
    if HUB.get().is_none() {
        let hub = Hub { inotify: init(CreateFlags::CLOEXEC)?, waiting: Mutex::default() };
        let _ = HUB.set(hub);
        std::thread::Builder::new().name("shellkeep-watch".to_owned()).spawn(|| HUB.get().map(Hub::listen))?;
    }
    HUB.get().ok_or_else(|| io::Error::other("nobody watches"))
}

impl Hub {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn listen(&self) {
        let mut room = [MaybeUninit::uninit(); NEWS_BYTES];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut room);
        loop {
            let Ok(event) = reader.next() else { continue };
            let mut changed = vec![event.wd()];
            let is_overflow = event.events().contains(rustix::fs::inotify::ReadFlags::QUEUE_OVERFLOW);
            while !reader.is_buffer_empty() {
                changed.extend(reader.next().map(|event| event.wd()));
            }
            changed.sort_unstable();
            changed.dedup();
            let waiting = self.waiting();
            let told = |number: &i32| is_overflow || changed.binary_search(number).is_ok();
            waiting
                .iter()
                .filter(|(number, _)| told(number))
                .flat_map(|(_, all)| all)
                .for_each(|news| news.notify_one());
            drop(waiting);
            std::thread::sleep(BATCH);
        }
    }
}
