//! The second half of a checkpoint: reading the files that the look found changed, and writing them and the directories
//! above them into the repository. What is done stays done, whatever ends it.

use super::{Limits, Trouble};
use crate::index::{Directory, Leaf, Node, Stamp, Written};
use crate::meta::{self, Level, Modes};
use crate::repo::{Entry, Kind, ObjectId, Repo, RepoError};
use crate::scan::{Omissions, Reason, open_directory};
use crate::watch::{Depth, Mailbox};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock's grain, with room: a change so shortly before a file was read may be followed by one with the same time.
const GRAIN: Duration = Duration::from_millis(50);

/// Bigger files are not held in memory.
const SMALL: u64 = 1 << 20;
/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 2;

/// What came of reading a file.
enum Read {
    /// Its content, unchanged while it was read.
    Whole { id: ObjectId, stamp: Stamp, is_racy: bool },
    /// Its content as read; it changed while it was read.
    Torn { id: Option<ObjectId> },
    /// It is gone, or something else is there.
    Gone,
    /// We may not.
    Refused,
}

/// One checkpoint's writing.
pub(super) struct Writing<'a> {
    repo: &'a mut Repo,
    limits: &'a Limits,
    mailbox: &'a Arc<Mailbox>,
    omissions: &'a mut Omissions,
    begun: Instant,
    files: u64,
    path: Vec<u8>,
    room: Vec<u8>,
}

impl<'a> Writing<'a> {
    pub fn new(
        repo: &'a mut Repo,
        limits: &'a Limits,
        mailbox: &'a Arc<Mailbox>,
        omissions: &'a mut Omissions,
    ) -> Self {
        let begun = Instant::now();
        Self { repo, limits, mailbox, omissions, begun, files: 0, path: Vec::new(), room: Vec::new() }
    }

    /// Writes a directory and all that is marked below it. It is none if the directory is gone; then what was known
    /// of it stays until the news of that are looked at.
    pub fn directory(&mut self, directory: &mut Directory, place: Option<&OwnedFd>) -> Result<Written, Trouble> {
        if let Some(written) = directory.written {
            return Ok(written);
        }
        let length = self.path.len();
        for (name, node) in &mut directory.entries {
            let is_done = match node {
                Node::Leaf(leaf) => leaf.is_sure,
                Node::Directory(below) => below.written.is_some(),
            };
            if is_done {
                continue;
            }
            match node {
                Node::Leaf(leaf) => self.leaf(place, name, leaf)?,
                Node::Directory(below) => {
                    let place = place.and_then(|place| open_directory(place.as_fd(), name).ok());
                    self.push(name);
                    self.directory(below, place.as_ref())?;
                    self.path.truncate(length);
                }
            }
        }
        let written = self.keep(directory)?;
        directory.written = Some(written);
        Ok(written)
    }

    /// Writes one directory whose entries are all written. Never inlined, because what it needs on the stack would be there
    /// once for each directory within another.
    #[inline(never)]
    fn keep(&mut self, directory: &Directory) -> Result<Written, Trouble> {
        let mut entries = Vec::with_capacity(directory.entries.len());
        let mut level = Level::default();
        for (name, node) in &directory.entries {
            let (kind, id) = match node {
                Node::Leaf(leaf) => (leaf.stamp.kind(), leaf.id),
                Node::Directory(below) => (Kind::Directory, below.written.map(|written| written.tree)),
            };
            if let Node::Directory(below) = node
                && let Some(meta) = below.written.and_then(|written| written.meta)
            {
                level.below.insert(name.to_vec(), meta);
            }
            // One that could not be read even once is left out, and said.
            entries.extend(id.map(|id| Entry { name: name.to_vec(), kind, id }));
        }
        let files = directory.entries.iter().filter_map(|(name, node)| match node {
            Node::Leaf(leaf) if leaf.id.is_some() && leaf.stamp.kind() != Kind::Link => {
                Some((&**name, leaf.stamp.bits()))
            }
            _ => None,
        });
        level.modes = Modes::of(directory.bits, files);
        let tree = self.repo.objects.tree(&entries)?;
        let meta = meta::write(self.repo, &level)?;
        Ok(Written { tree, meta })
    }

    #[inline(never)]
    fn leaf(&mut self, place: Option<&OwnedFd>, name: &[u8], leaf: &mut Leaf) -> Result<(), Trouble> {
        if self.begun.elapsed() > self.limits.time {
            return Err(Trouble::TooSlow { limit: self.limits.time, files: self.files });
        }
        self.files += 1;
        let read = match place {
            None => Read::Gone,
            Some(place) if leaf.stamp.kind() == Kind::Link => self.link(place, name, leaf.stamp)?,
            Some(place) => self.file(place, name)?,
        };
        match read {
            Read::Whole { id, stamp, is_racy } => {
                *leaf = Leaf { stamp, id: Some(id), is_sure: true, is_racy };
            }
            Read::Torn { id } => {
                leaf.id = id.or(leaf.id);
                self.again(name);
                self.leave_out(name, Reason::ChangedWhileRead);
            }
            Read::Gone => self.again(name),
            Read::Refused => self.leave_out(name, Reason::Unreadable),
        }
        // What was kept before stays, unless it was thinned away.
        leaf.id = leaf.id.filter(|id| leaf.is_sure || self.repo.objects.contains(*id));
        Ok(())
    }

    fn link(&mut self, place: &OwnedFd, name: &[u8], stamp: Stamp) -> Result<Read, Trouble> {
        match readlinkat(place, name, std::mem::take(&mut self.room)) {
            Ok(target) => {
                let id = self.repo.objects.blob(target.as_bytes())?;
                // A link cannot be written to; another one in its place has another inode or time.
                Ok(Read::Whole { id, stamp, is_racy: is_racy(&stamp, now()) })
            }
            Err(error) => Ok(refusal(error)),
        }
    }

    fn file(&mut self, place: &OwnedFd, name: &[u8]) -> Result<Read, Trouble> {
        // A pipe that is put there now must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut file = match openat(place, name, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(error) => return Ok(refusal(error)),
        };
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let looked = now();
            let Ok(before) = fstat(&file) else { return Ok(Read::Refused) };
            let stamp = Stamp::of(&before);
            let is_file = FileType::from_raw_mode(before.st_mode) == FileType::RegularFile;
            if !is_file || stamp.size > self.limits.max_file_bytes || file.rewind().is_err() {
                return Ok(Read::Gone);
            }
            let Some(id) = self.content(&mut file, stamp.size)? else { return Ok(Read::Refused) };
            last = id.or(last);
            let is_same = fstat(&file).is_ok_and(|after| Stamp::of(&after) == stamp);
            if let Some(id) = id.filter(|_| is_same) {
                return Ok(Read::Whole { id, stamp, is_racy: is_racy(&stamp, looked) });
            }
        }
        Ok(Read::Torn { id: last })
    }

    /// The outer option: whether it can be read. The inner one: whether it had as many bytes as it said.
    fn content(&mut self, file: &mut File, size: u64) -> Result<Option<Option<ObjectId>>, Trouble> {
        if size > SMALL {
            return match self.repo.objects.blob_of(file, size) {
                Ok(id) => Ok(Some(Some(id))),
                Err(RepoError::Short) => Ok(Some(None)),
                Err(RepoError::Source { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        self.room.clear();
        // One byte more than there should be, so that the end is seen without another read.
        self.room.reserve(usize::try_from(size).unwrap_or_default() + 1);
        match file.take(self.limits.max_file_bytes).read_to_end(&mut self.room) {
            Ok(_) => Ok(Some(Some(self.repo.objects.blob(&self.room)?))),
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                Err(Trouble::Io { path: self.path.clone(), source: error })
            }
            Err(_) => Ok(None),
        }
    }

    /// It must be looked at again, even if no change is reported.
    fn again(&self, name: &[u8]) {
        self.mailbox.put(&Arc::from(self.path.as_slice()), name, Depth::Below);
    }

    fn leave_out(&mut self, name: &[u8], reason: Reason) {
        let length = self.path.len();
        self.push(name);
        self.omissions.add(&self.path, reason);
        self.path.truncate(length);
    }

    fn push(&mut self, name: &[u8]) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
    }
}

fn refusal(error: Errno) -> Read {
    match error {
        // Gone, or no longer a file: the watcher will report that.
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO => Read::Gone,
        _ => Read::Refused,
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn is_racy(stamp: &Stamp, looked: i64) -> bool {
    stamp.changed >= looked.saturating_sub(i64::try_from(GRAIN.as_nanos()).unwrap_or_default())
}
