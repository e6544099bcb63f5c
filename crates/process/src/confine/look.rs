//! Looks for what is hidden in a tree, and what is closed to other users in it, such as `/etc/shadow`, and can be read by us.

use super::closed::Closed;
use super::grants::{is_away, is_closed};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Room for some hundred changes.
const NEWS_BYTES: usize = 4096;

/// What of a tree may be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// All of it.
    Open,
    /// Only these parts.
    Parts(Vec<PathBuf>),
    /// It is gone, or a link, or not even we can read it. There is no rule for it, and it is not in the way of one for more: a rule
    /// for a link would be one for what it names, which may be hidden.
    Away,
}

/// A look through a tree. Asked of the permissions and not by trying: root reads everything. What was closed before still is. All
/// open directories are watched from before their entries are looked at; if one cannot be, nothing is told any more.
pub(super) struct Look<'a> {
    pub(super) hidden: &'a [PathBuf],
    pub(super) news: &'a mut Option<News>,
    pub(super) closed: &'a mut Closed,
    /// How many entries are looked at.
    pub(super) entries: usize,
}

impl Look<'_> {
    /// Looks at a tree and so many levels below it. What is below these, or what there are too many of, is granted with the
    /// directory that it is in, unless something hidden is there.
    pub(super) fn through(&mut self, tree: &Path, depth: usize) -> io::Result<Tree> {
        if self.hidden.iter().any(|path| tree.starts_with(path)) {
            return Ok(Tree::Parts(Vec::new()));
        }
        let about = match std::fs::symlink_metadata(tree) {
            Ok(about) if about.is_symlink() => return Ok(Tree::Away),
            Ok(about) => about,
            Err(error) if is_away(&error) => return Ok(Tree::Away),
            Err(error) => return Err(error),
        };
        let is_closed_now = is_closed(about.mode(), about.is_dir());
        if is_closed_now || self.closed.has(tree, &about, SystemTime::now()) {
            let is_ours = rustix::fs::access(tree, rustix::fs::Access::READ_OK).is_ok();
            if is_closed_now && (is_ours || about.uid() == geteuid().as_raw()) {
                self.closed.remember(tree, &about);
            }
            return Ok(if is_ours { Tree::Parts(Vec::new()) } else { Tree::Away });
        }
        let is_far = depth == 0 || self.entries == 0;
        if !about.is_dir() || is_far && !self.hidden.iter().any(|path| path.starts_with(tree)) {
            return Ok(Tree::Open);
        }
        self.entries_of(tree, depth.saturating_sub(1))
    }

    fn entries_of(&mut self, directory: &Path, depth: usize) -> io::Result<Tree> {
        if self.news.as_ref().is_some_and(|news| !news.watch(directory)) {
            *self.news = None;
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if is_away(&error) => return Ok(Tree::Away),
            Err(error) => return Err(error),
        };
        let (mut parts, mut is_whole) = (Vec::new(), true);
        for entry in entries {
            let path = entry?.path();
            self.entries = self.entries.saturating_sub(1);
            match self.through(&path, depth)? {
                Tree::Open => parts.push(path),
                Tree::Parts(below) => {
                    parts.extend(below);
                    is_whole = false;
                }
                Tree::Away => {}
            }
        }
        Ok(if is_whole { Tree::Open } else { Tree::Parts(parts) })
    }
}

/// What the kernel tells of directories: changes of their entries, and of permissions.
#[derive(Debug)]
pub(super) struct News(OwnedFd);

impl News {
    /// None where a user may have no more of these.
    pub(super) fn open() -> Option<Self> {
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Self)
    }

    /// Tells of a directory too, from now on. Whether that can be done, or there is no such directory any more.
    fn watch(&self, directory: &Path) -> bool {
        let wanted = WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        matches!(inotify::add_watch(&self.0, directory, wanted), Ok(_) | Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// Whether there were news since the last call.
    pub(super) fn take(&self) -> bool {
        let mut bytes = [0; NEWS_BYTES];
        let mut had_some = false;
        loop {
            match rustix::io::read(&self.0, &mut bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return had_some,
                Ok(_) => had_some = true,
                Err(_) => return true,
            }
        }
    }
}
