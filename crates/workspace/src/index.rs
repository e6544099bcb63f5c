//! What was known of a workspace's files at the last look: nested directories with the ids of what the repository holds
//! of them, so that a look and a checkpoint cost what changed and not what is there. Plain data; it opens nothing.

mod file;

pub(crate) use file::{load, store};

use crate::ignored::RulesUse;
use crate::meta::MODE_BITS;
use crate::repo::{Kind, ObjectId};
use ignore::gitignore::Gitignore;
use rustix::fs::{FileType, Stat};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A file's or link's state on disk. What is equal in all of this has not been written to, unless it was within the
/// clock's grain; see [`Leaf::is_racy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// Nanoseconds since 1970.
    pub changed: i64,
    /// With the file type.
    pub mode: u32,
}

impl Stamp {
    pub fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: modified(stat),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            mode: stat.st_mode,
        }
    }

    /// What it is to git.
    pub fn kind(&self) -> Kind {
        if FileType::from_raw_mode(self.mode) == FileType::Symlink {
            Kind::Link
        } else {
            Kind::File { executable: crate::meta::is_program(self.mode) }
        }
    }

    /// Its permission bits; a link has none of its own.
    pub fn bits(&self) -> u32 {
        if self.kind() == Kind::Link { 0 } else { self.mode & MODE_BITS }
    }
}

/// Times before 1678 or after 2262 wrap around; they need only be told apart.
#[allow(clippy::unnecessary_fallible_conversions, reason = "the type of nanoseconds differs between machines")]
pub(crate) fn nanoseconds(seconds: i64, nanoseconds: impl TryInto<i64>) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds.try_into().unwrap_or_default())
}

/// When a file or directory was last changed.
pub(crate) fn modified(about: &Stat) -> i64 {
    nanoseconds(about.st_mtime, about.st_mtime_nsec)
}

/// A file or a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub stamp: Stamp,
    /// Its content in the repository, as far as it was read. None: never yet.
    pub id: Option<ObjectId>,
    /// Whether the content under `id` is that of the file with this stamp.
    pub is_sure: bool,
    /// Whether it changed so shortly before it was read that a later change may not show in the stamp.
    pub is_racy: bool,
}

impl Leaf {
    /// What a checkpoint says of it.
    pub fn told(&self) -> Option<Told> {
        self.id.map(|id| Told { id, kind: self.stamp.kind(), bits: self.stamp.bits() })
    }
}

/// What a checkpoint says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub id: ObjectId,
    pub kind: Kind,
    pub bits: u32,
}

/// What is in a directory.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Leaf(Leaf),
    Directory(Box<Directory>),
}

/// A directory as the repository holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub tree: ObjectId,
    pub meta: Option<ObjectId>,
}

/// A directory and what is kept of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    pub entries: BTreeMap<Box<[u8]>, Node>,
    /// None if something in it or below it must be written first; then it is none in all directories above, too.
    pub written: Option<Written>,
    /// Permission bits.
    pub bits: u32,
    pub inode: u64,
    /// When an entry last came or went, as seen before the last look at the entries. 0: not known, as after a rest.
    pub modified: i64,
    /// Whether the rules leave it out, so that only what was kept before is kept on.
    pub is_ignored: bool,
    /// The rules of its own `.gitignore`.
    pub rules: Option<Arc<Gitignore>>,
}

/// A checkpoint that the index can be compared to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Base {
    pub commit: ObjectId,
    pub written: Written,
}

/// What has changed since the last checkpoint: what that said of each path, or that it had no such path.
pub(crate) type Changes = HashMap<Vec<u8>, Option<Told>>;

/// Files that a checkpoint added, changed and deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// New files.
    pub added: u64,
    /// Files with another content, kind or permissions.
    pub changed: u64,
    /// Files that are gone.
    pub deleted: u64,
}

/// All that is known of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub root: Directory,
    /// Device and inode of the root at the last look; none if it was not there.
    pub place: Option<(u64, u64)>,
    /// The last checkpoint.
    pub base: Option<Base>,
    /// Files and links in it.
    pub files: u64,
    pub changes: Changes,
    /// How many rules its directories hold.
    pub rules: RulesUse,
}

impl Directory {
    /// Notes that something in here must be written.
    pub fn mark(&mut self) {
        self.written = None;
    }

    /// Whether this is still the directory with these entries, as far as one sees from outside. The number of one that was
    /// removed is given to the next one that is made, so it does not tell two apart.
    pub fn is_still(&self, about: &Stat) -> bool {
        let is_same = |known: i64, now: i64| known == 0 || known == now;
        (self.inode == 0 || self.inode == about.st_ino) && is_same(self.modified, modified(about))
    }

    /// Trusts nothing: every file must be read again.
    fn doubt(&mut self) {
        self.mark();
        for node in self.entries.values_mut() {
            match node {
                Node::Leaf(leaf) => leaf.is_sure = false,
                Node::Directory(directory) => directory.doubt(),
            }
        }
    }

    pub fn find(&self, path: &[u8]) -> Option<&Leaf> {
        let mut here = self;
        let mut rest = path;
        loop {
            let slash = rest.iter().position(|byte| *byte == b'/');
            match (here.entries.get(&rest[..slash.unwrap_or(rest.len())])?, slash) {
                (Node::Leaf(leaf), None) => return Some(leaf),
                (Node::Directory(directory), Some(slash)) => (here, rest) = (directory, &rest[slash + 1..]),
                _ => return None,
            }
        }
    }

    /// Files and links in here and below.
    fn count(&self) -> u64 {
        let below = |node: &Node| match node {
            Node::Leaf(_) => 1,
            Node::Directory(directory) => directory.count(),
        };
        self.entries.values().map(below).sum()
    }
}

/// Remembers what the last checkpoint said of a path that is changing now.
pub(crate) fn note(changes: &mut Changes, path: &[u8], before: Option<&Leaf>) {
    if !changes.contains_key(path) {
        changes.insert(path.to_vec(), before.and_then(Leaf::told));
    }
}

impl Index {
    /// Trusts none of the ids: all files are read again at the next checkpoint.
    pub fn doubt(&mut self) {
        self.root.doubt();
    }

    /// Counts again, after entries were put in from elsewhere.
    pub fn recount(&mut self) {
        self.files = self.root.count();
    }

    /// Files by what became of them since the last checkpoint.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (path, before) in &self.changes {
            let now = self.root.find(path).and_then(Leaf::told);
            match (before, now) {
                (None, Some(_)) => counts.added += 1,
                (Some(_), None) => counts.deleted += 1,
                (Some(before), Some(now)) if *before != now => counts.changed += 1,
                _ => {}
            }
        }
        counts
    }

    /// Whether what is known is what the last checkpoint says.
    pub fn is_settled(&self) -> bool {
        match (&self.root.written, &self.base) {
            (Some(written), Some(base)) => *written == base.written,
            // The first checkpoint needs something to hold.
            (_, None) => self.root.entries.is_empty(),
            (None, Some(_)) => false,
        }
    }
}
