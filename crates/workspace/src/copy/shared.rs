//! What the threads of a copy share: the directories that wait, and what is known so far.

use super::links::Links;
use crate::fault::Faults;
use crate::root;
use crate::sync::lock;
use rustix::fs::{Mode, OFlags, open};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How many omitted paths are listed; all are counted.
const NAMED: usize = 20;
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// Files, each name counted.
    pub files: u64,
    /// Directories without the first.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// Whether the file system shares the bytes until one side changes them.
    pub shares_bytes: bool,
    /// What is not in the copy, or not as one might think: path and reason. The first ones of `left_out_total`.
    pub left_out: Vec<(Vec<u8>, String)>,
    /// How many there are.
    pub left_out_total: u64,
}

/// The permissions of the copy's own directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopMode {
    /// Those of the original.
    Same,
    /// Of these only the owner's: what keeps others from the original may be a directory above it, which the copy is not in.
    Private,
}

/// A directory and its copy.
pub(super) struct Pair {
    pub from: OwnedFd,
    pub to: OwnedFd,
}

impl Pair {
    pub fn open(from: &Path, to: &Path) -> io::Result<Self> {
        Ok(Self { from: root::open(from, OFlags::RDONLY)?, to: open(to, DIRECTORY, Mode::empty())? })
    }
}

/// A directory to copy. It holds the one above open, not itself: there may be thousands waiting.
pub(super) struct Job {
    pub above: Arc<Pair>,
    /// In the one above; `None` is that one itself.
    pub name: Option<CString>,
    /// From the root.
    pub path: Vec<u8>,
}

impl Job {
    pub fn root(root: Pair) -> Self {
        Self { above: Arc::new(root), name: None, path: Vec::new() }
    }
}

/// What the threads share.
pub(super) struct Shared<'a> {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Set when one failed, so that the others end.
    pub failed: AtomicBool,
    /// Whether it is still worth asking the file system to share bytes.
    pub may_clone: AtomicBool,
    pub has_cloned: AtomicBool,
    pub links: Links,
    pub told: Mutex<Vec<(Vec<u8>, String)>>,
    pub told_total: AtomicU64,
    /// The copy itself, should it lie inside of what is copied.
    pub target: (u64, u64),
    /// Where links that lead back into the original begin.
    pub from: PathBuf,
    pub umask: u32,
    pub top_mode: TopMode,
    pub faults: &'a Faults,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Job>,
    /// Threads that are at work and may add more.
    busy: usize,
}

impl<'a> Shared<'a> {
    pub fn new(from: &Path, to: &Path, top_mode: TopMode, faults: &'a Faults) -> io::Result<Self> {
        let about = std::fs::metadata(to)?;
        Ok(Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            may_clone: AtomicBool::new(true),
            has_cloned: AtomicBool::new(false),
            links: Links::new(to)?,
            told: Mutex::default(),
            told_total: AtomicU64::new(0),
            target: (about.dev(), about.ino()),
            from: from.to_owned(),
            umask: umask(),
            top_mode,
            faults,
        })
    }

    pub fn tell(&self, path: &[u8], reason: impl Into<String>) {
        self.told_total.fetch_add(1, Ordering::Relaxed);
        let mut told = lock(&self.told);
        if told.len() < NAMED {
            told.push((path.to_vec(), reason.into()));
        }
    }

    pub fn push(&self, job: Job) {
        lock(&self.queue).waiting.push(job);
        self.changed.notify_one();
    }

    /// The next directory; `None` when all is done or something failed. The newest first, so that few are open.
    pub fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if self.failed.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(job) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(job);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn done(&self) {
        let mut queue = lock(&self.queue);
        queue.busy -= 1;
        if queue.busy == 0 && queue.waiting.is_empty() || self.failed.load(Ordering::Relaxed) {
            self.changed.notify_all();
        }
    }
}

/// The bits that the system takes from new files. It cannot be asked for without setting it, so it is read; unknown, all
/// bits are set again afterwards.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o777)
}
