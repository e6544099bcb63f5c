//! Being told what changes in workspaces. The kernel allows a user few inotify instances, fewer than there are sessions,
//! so one serves the whole process: every live session watches its directories through it, and each look reads what
//! is queued for all of them.

mod mail;

pub(crate) use mail::{Depth, Mail, Mailbox};

use crate::sync::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

/// Room for the kernel's news.
const NEWS_BYTES: usize = 16 << 10;
/// Of the watches that the system allows a user, we leave a quarter to editors and other programs of the same user.
const OUR_SHARE: (usize, usize) = (3, 4);
/// How many watches we take where the system does not say how many there are.
const WATCHES_UNSAID: usize = 8192;
/// The listening thread reads in batches: a build that writes a million files is news every so often. The kernel keeps
/// 16,384 news unless told otherwise; nothing we know makes that many in this time.
const BATCH: Duration = Duration::from_millis(20);
/// How long the listening thread outlives the watcher at most.
const LINGER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The name under which the root's own permissions are news. No file has it.
pub(crate) const ROOT_ITSELF: &[u8] = b"";

/// What we want to hear of a directory. All watches have the same, because the kernel has one watch for a directory
/// however often it is asked for, and the last who asks decides.
fn wanted() -> WatchFlags {
    WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::EXCL_UNLINK
        | WatchFlags::ONLYDIR
}

/// The one watcher of a process, shared by all checkpointers.
#[derive(Debug)]
pub struct Watcher {
    /// None where the system gives us no inotify; then nothing is reported, and every look is a scan.
    inotify: Option<OwnedFd>,
    watched: Mutex<HashMap<i32, Vec<Interest>>>,
    most: usize,
}

/// A subscriber to a directory, and the directory's name there.
#[derive(Debug)]
struct Interest {
    mailbox: Arc<Mailbox>,
    path: Arc<[u8]>,
}

/// No watch is to be had: the system's limit or ours is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Watcher {
    /// A watcher that takes most of the watches the system allows. Works without inotify too; then every look is a scan.
    pub fn new() -> Arc<Self> {
        let allowed = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok();
        let allowed = allowed.and_then(|text| text.trim().parse::<usize>().ok());
        Self::with_limit(allowed.map_or(WATCHES_UNSAID, |all| all / OUR_SHARE.1 * OUR_SHARE.0))
    }

    /// A watcher of at most this many directories; 0 is as if there were no inotify.
    pub fn with_limit(most: usize) -> Arc<Self> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = if most == 0 { None } else { inotify::init(flags).ok() };
        Arc::new(Self { inotify, watched: Mutex::default(), most })
    }

    /// Starts a thread that reads what is queued while no one looks, so that a long command does not fill the queue. It
    /// ends with the watcher.
    pub fn listen(self: &Arc<Self>) -> io::Result<()> {
        let watcher = Arc::downgrade(self);
        std::thread::Builder::new().name("shellkeep-files".to_owned()).spawn(move || listen(&watcher))?;
        Ok(())
    }

    /// Reads what is queued and passes it on. When this returns, all that was queued before is passed on,
    /// also what another thread was just reading.
    pub fn drain(&self) {
        let Some(inotify) = &self.inotify else { return };
        // Locked over reading and telling: no one may see an empty queue while its news are still in our hands.
        let mut watched = self.watched();
        let mut room = [MaybeUninit::uninit(); NEWS_BYTES];
        let mut reader = Reader::new(inotify.as_fd(), &mut room);
        loop {
            match reader.next() {
                Ok(event) => tell(&mut watched, &event),
                Err(rustix::io::Errno::INTR) => {}
                // Nothing more, or nothing can be read at all. A queue that cannot be read would be a bug of ours.
                Err(_) => return,
            }
        }
    }

    /// How many directories are watched now, each once however many sessions watch it.
    pub fn watches(&self) -> usize {
        self.watched().len()
    }

    /// Whether the system lets us watch at all.
    pub fn is_able(&self) -> bool {
        self.inotify.is_some()
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<i32, Vec<Interest>>> {
        lock(&self.watched)
    }
}

fn listen(watcher: &Weak<Watcher>) {
    while let Some(watcher) = watcher.upgrade() {
        let Some(inotify) = &watcher.inotify else { return };
        let mut asked = [PollFd::new(inotify, PollFlags::IN)];
        let is_there_news = poll(&mut asked, Some(&LINGER)).is_ok_and(|count| count > 0);
        if is_there_news {
            watcher.drain();
        }
        drop(watcher);
        if is_there_news {
            std::thread::sleep(BATCH);
        }
    }
}

fn tell(watched: &mut HashMap<i32, Vec<Interest>>, event: &inotify::Event<'_>) {
    let flags = event.events();
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        watched.values().flatten().for_each(|interest| interest.mailbox.everything());
        return;
    }
    if flags.contains(ReadFlags::IGNORED) {
        // The directory is gone, and the kernel's watch with it. Its parent notifies the subscribers, except for a root.
        for interest in watched.remove(&event.wd()).into_iter().flatten().filter(|one| one.path.is_empty()) {
            interest.mailbox.everything();
        }
        return;
    }
    let Some(interested) = watched.get(&event.wd()) else { return };
    let name = event.file_name().map(std::ffi::CStr::to_bytes).filter(|name| !name.is_empty());
    let is_directory = flags.contains(ReadFlags::ISDIR);
    let is_new = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
    for interest in interested {
        match name {
            Some(name) => {
                let depth = if is_directory && is_new { Depth::Below } else { Depth::Itself };
                interest.mailbox.put(&interest.path, name, depth);
            }
            // A change of the directory itself is reported by its parent too; a root has none that is watched.
            None if !interest.path.is_empty() => {}
            None if flags.contains(ReadFlags::ATTRIB) => {
                interest.mailbox.put(&interest.path, ROOT_ITSELF, Depth::Itself)
            }
            None => interest.mailbox.everything(),
        }
    }
}

/// The watches of one checkpointer. Dropped, they are given back.
#[derive(Debug)]
pub(crate) struct Watches {
    watcher: Arc<Watcher>,
    mailbox: Arc<Mailbox>,
    /// The kernel's numbers, by the directories' paths below the root.
    numbers: BTreeMap<Arc<[u8]>, i32>,
}

impl Watches {
    /// None yet.
    pub fn new(watcher: &Arc<Watcher>, mailbox: &Arc<Mailbox>) -> Self {
        Self { watcher: Arc::clone(watcher), mailbox: Arc::clone(mailbox), numbers: BTreeMap::new() }
    }

    /// Starts to watch this directory under this path. Read it afterwards, so that no change is missed.
    pub fn watch(&mut self, path: &[u8], directory: BorrowedFd<'_>) -> Result<(), Exhausted> {
        let Some(inotify) = &self.watcher.inotify else { return Err(Exhausted) };
        let mut watched = self.watcher.watched();
        if watched.len() >= self.watcher.most {
            return Err(Exhausted);
        }
        // By the open directory and not by its name, which may by now be another's.
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let number = inotify::add_watch(inotify, link, wanted()).map_err(|_| Exhausted)?;
        let path: Arc<[u8]> = Arc::from(path);
        let interested = watched.entry(number).or_default();
        if !interested.iter().any(|one| one.is(&self.mailbox, &path)) {
            interested.push(Interest { mailbox: Arc::clone(&self.mailbox), path: Arc::clone(&path) });
        }
        if let Some(before) = self.numbers.insert(Arc::clone(&path), number)
            && before != number
        {
            release(inotify, &mut watched, before, &self.mailbox, &path);
        }
        Ok(())
    }

    /// Gives back the watches of this directory and of all below it.
    pub fn forget(&mut self, path: &[u8]) {
        let mut below = path.to_vec();
        below.push(b'/');
        let from = (Bound::Included(below.as_slice()), Bound::Unbounded);
        let gone =
            self.numbers.range::<[u8], _>(from).map(|(path, _)| path).take_while(|path| path.starts_with(&below));
        let gone: Vec<Arc<[u8]>> = gone.cloned().chain([Arc::from(path)]).collect();
        self.release_all(gone);
    }

    fn release_all(&mut self, paths: Vec<Arc<[u8]>>) {
        let Some(inotify) = &self.watcher.inotify else { return };
        let mut watched = self.watcher.watched();
        for path in paths {
            if let Some(number) = self.numbers.remove(&path) {
                release(inotify, &mut watched, number, &self.mailbox, &path);
            }
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let all = self.numbers.keys().cloned().collect();
        self.release_all(all);
    }
}

impl Interest {
    fn is(&self, mailbox: &Arc<Mailbox>, path: &[u8]) -> bool {
        Arc::ptr_eq(&self.mailbox, mailbox) && *self.path == *path
    }
}

/// One interest less; the last one takes the kernel's watch along.
fn release(
    inotify: &OwnedFd,
    watched: &mut HashMap<i32, Vec<Interest>>,
    number: i32,
    mailbox: &Arc<Mailbox>,
    path: &[u8],
) {
    // Gone already when the kernel told that the directory is.
    let Some(interested) = watched.get_mut(&number) else { return };
    interested.retain(|one| !one.is(mailbox, path));
    if interested.is_empty() {
        watched.remove(&number);
        let _ = inotify::remove_watch(inotify, number);
    }
}
