//! Looking at a workspace: at everything, or at the names that news were about. What is found goes into the index;
//! nothing is read here but directories and rules, and links are never followed.

mod left_out;
mod list;

pub(crate) use left_out::Omissions;
pub use left_out::{LeftOut, Reason};

use crate::checkpointer::Trouble;
use crate::ignored::{self, Rules, RulesUse, Verdict};
use crate::index::{Changes, Directory, Leaf, Node, Stamp, modified, note};
use crate::limits::Limits;
use crate::meta::MODE_BITS;
use crate::watch::{Depth, Mail, ROOT_ITSELF, Watches};
use list::{Seen, list};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Directories nested deeper are left out: each level that is open takes a descriptor.
pub(crate) const MAX_DEPTH: usize = 128;

/// One look. Lives as long as the look takes.
pub(crate) struct Look<'a> {
    pub limits: &'a Limits,
    /// None: there are no events, so every scan reads everything.
    pub watches: Option<&'a mut Watches>,
    pub changes: &'a mut Changes,
    pub omissions: &'a mut Omissions,
    /// Files that the index holds.
    pub files: &'a mut u64,
    /// Rules that it holds.
    pub held: &'a mut RulesUse,
    /// What is on another device is not ours.
    pub device: u64,
    /// Set when no watch was to be had; from then on nothing more is watched.
    pub is_exhausted: bool,
    rules: Rules,
    path: Vec<u8>,
    depth: usize,
}

/// What of the index a look changes beside the directories.
pub(crate) struct Known<'a> {
    pub changes: &'a mut Changes,
    pub files: &'a mut u64,
    pub rules: &'a mut RulesUse,
}

/// How a directory is opened: itself, not what a link of its name points to.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

impl<'a> Look<'a> {
    pub fn new(
        limits: &'a Limits,
        watches: Option<&'a mut Watches>,
        known: Known<'a>,
        omissions: &'a mut Omissions,
        device: u64,
    ) -> Self {
        let Known { changes, files, rules: held } = known;
        let (rules, path, depth, is_exhausted) = (Rules::default(), Vec::new(), 0, false);
        Self { limits, watches, changes, omissions, files, held, device, is_exhausted, rules, path, depth }
    }

    /// Looks at everything.
    pub fn everything(&mut self, root: &mut Directory, place: &OwnedFd) -> Result<(), Trouble> {
        self.enter(root, place)
    }

    /// Looks at what the mail is about.
    pub fn news(&mut self, root: &mut Directory, place: &OwnedFd, mail: &Mail) -> Result<(), Trouble> {
        for (directory, names) in &mail.names {
            if directory.is_empty() && names.keys().any(|name| ignored::decides(name)) {
                return self.enter(root, place);
            }
            if directory.is_empty() && names.contains_key(ROOT_ITSELF) {
                self.permissions(root, place)?;
            }
            self.visit(root, place.as_fd(), directory, names)?;
        }
        Ok(())
    }

    /// Looks at an open directory itself.
    fn permissions(&self, directory: &mut Directory, place: &OwnedFd) -> Result<(), Trouble> {
        let about = fstat(place).map_err(|error| self.trouble(error))?;
        (directory.inode, directory.modified) = (about.st_ino, modified(&about));
        if directory.bits != about.st_mode & MODE_BITS {
            directory.bits = about.st_mode & MODE_BITS;
            directory.mark();
        }
        Ok(())
    }

    /// Goes down to the directory that the news are about, through directories that are known.
    fn visit(
        &mut self,
        here: &mut Directory,
        place: BorrowedFd<'_>,
        way: &[u8],
        names: &BTreeMap<Vec<u8>, Depth>,
    ) -> Result<(), Trouble> {
        let entered = self.rules.enter(&self.path, here.rules.as_ref());
        let result = if way.is_empty() {
            here.modified = fstat(place).map_or(0, |about| modified(&about));
            names.iter().try_for_each(|(name, depth)| self.look_at(here, place, name, *depth))
        } else {
            self.descend(here, place, way, names)
        };
        self.rules.leave(entered);
        result
    }

    fn descend(
        &mut self,
        here: &mut Directory,
        place: BorrowedFd<'_>,
        way: &[u8],
        names: &BTreeMap<Vec<u8>, Depth>,
    ) -> Result<(), Trouble> {
        let slash = way.iter().position(|byte| *byte == b'/');
        let name = &way[..slash.unwrap_or(way.len())];
        let rest = slash.map_or(&b""[..], |slash| &way[slash + 1..]);
        // No longer known: its parent reported that, and at its new place it was scanned as something new.
        let Some(Node::Directory(child)) = here.entries.get_mut(name) else { return Ok(()) };
        let opened = open_directory(place, name).ok().filter(|opened| is_inode(opened, child.inode));
        let is_decided_anew = slash.is_none() && names.keys().any(|name| ignored::decides(name));
        let Some(opened) = opened.filter(|_| !is_decided_anew) else {
            return self.look_at(here, place, name, Depth::Below);
        };
        let result = self.at(name, |look| look.visit(child, opened.as_fd(), rest, names));
        if child.written.is_none() {
            here.mark();
        }
        result
    }

    /// Scans a directory and everything below. It is watched first, so that no change is missed.
    fn enter(&mut self, directory: &mut Directory, place: &OwnedFd) -> Result<(), Trouble> {
        self.watch(place);
        self.permissions(directory, place)?;
        self.omissions.clear(&self.path);
        let seen = match list(place) {
            Ok(seen) => seen,
            // Removed since it was opened; that is news to come.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) if self.depth > 0 => return self.unreadable(error),
            Err(error) => return Err(self.trouble(error)),
        };
        self.held.give_back(directory.rules.take());
        let rules = seen.rules(place, self.held);
        self.omissions.rules_read(&self.path, rules.is_ok());
        // Without its rules, what they name is kept: too much is better than too little.
        directory.rules = rules.unwrap_or_default();
        directory.is_ignored |= self.depth > 0 && !self.is_wanted() && seen.is_marked(place);
        let entered = self.rules.enter(&self.path, directory.rules.as_ref());
        let result = self.look_at_all(directory, place, &seen);
        self.rules.leave(entered);
        result
    }

    fn look_at_all(&mut self, directory: &mut Directory, place: &OwnedFd, seen: &Seen) -> Result<(), Trouble> {
        let gone: Vec<Box<[u8]>> = directory.entries.keys().filter(|name| !seen.has(name)).cloned().collect();
        for name in gone {
            self.at(&name, |look| {
                look.remove(directory, &name);
                Ok(())
            })?;
        }
        seen.names().try_for_each(|name| self.look_at(directory, place.as_fd(), name, Depth::Below))
    }

    /// Whether a rule says that the directory we are in is to be kept, whatever is in it.
    fn is_wanted(&self) -> bool {
        self.rules.judge(&self.path, true) == Verdict::Kept
    }

    fn look_at(
        &mut self,
        parent: &mut Directory,
        place: BorrowedFd<'_>,
        name: &[u8],
        depth: Depth,
    ) -> Result<(), Trouble> {
        if ignored::is_never_kept(name) || name == ROOT_ITSELF {
            return Ok(());
        }
        self.at(name, |look| {
            let about = match statat(place, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) => about,
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    look.remove(parent, name);
                    return Ok(());
                }
                Err(error) => return look.unreadable(error),
            };
            let kind = FileType::from_raw_mode(about.st_mode);
            let is_directory = kind == FileType::Directory;
            let is_out = parent.is_ignored || look.is_out(name, is_directory);
            match kind {
                FileType::Directory => look.directory(parent, place, name, &about, Aim { is_out, depth }),
                FileType::RegularFile | FileType::Symlink => look.leaf(parent, name, &about, is_out),
                _ => {
                    look.remove(parent, name);
                    look.leave_out(is_out, Reason::Special);
                    Ok(())
                }
            }
        })
    }

    fn is_out(&self, name: &[u8], is_directory: bool) -> bool {
        match self.rules.judge(&self.path, is_directory) {
            Verdict::Out => true,
            Verdict::Kept => false,
            Verdict::Unsaid => ignored::is_by_default(name, is_directory),
        }
    }

    fn leaf(&mut self, parent: &mut Directory, name: &[u8], about: &Stat, is_out: bool) -> Result<(), Trouble> {
        let stamp = Stamp::of(about);
        let is_kept = match parent.entries.get(name) {
            Some(Node::Leaf(leaf)) => leaf.id.is_some() || !is_out,
            _ => !is_out,
        };
        let is_too_big = stamp.size > self.limits.max_file_bytes;
        if !is_kept || is_too_big {
            self.remove(parent, name);
            self.leave_out(!is_kept, Reason::TooBig { bytes: stamp.size });
            return Ok(());
        }
        self.omissions.clear(&self.path);
        match parent.entries.get_mut(name) {
            Some(Node::Leaf(leaf)) if same_type(&leaf.stamp, &stamp) => {
                if leaf.stamp != stamp || !leaf.is_sure || leaf.is_racy {
                    note(self.changes, &self.path, Some(leaf));
                    (leaf.stamp, leaf.is_sure) = (stamp, false);
                    parent.mark();
                }
                return Ok(());
            }
            Some(_) => self.remove(parent, name),
            None => {}
        }
        if *self.files >= self.limits.files {
            return Err(Trouble::TooManyFiles { limit: self.limits.files });
        }
        note(self.changes, &self.path, None);
        *self.files += 1;
        parent.entries.insert(name.into(), Node::Leaf(Leaf { stamp, id: None, is_sure: false, is_racy: true }));
        parent.mark();
        Ok(())
    }

    fn directory(
        &mut self,
        parent: &mut Directory,
        place: BorrowedFd<'_>,
        name: &[u8],
        about: &Stat,
        aim: Aim,
    ) -> Result<(), Trouble> {
        let known = match parent.entries.get_mut(name) {
            Some(Node::Directory(known)) => Some(known),
            _ => None,
        };
        if let Some(known) = &known
            && aim.depth == Depth::Itself
            && known.inode == about.st_ino
        {
            if known.bits == about.st_mode & MODE_BITS {
                return Ok(());
            }
        } else if aim.is_out && known.is_none() {
            self.remove(parent, name);
            return Ok(());
        }
        let refused = if about.st_dev != self.device {
            Some(Reason::OtherFileSystem)
        } else {
            (self.depth > MAX_DEPTH).then_some(Reason::TooDeep)
        };
        if let Some(reason) = refused {
            self.remove(parent, name);
            self.leave_out(false, reason);
            return Ok(());
        }
        match open_directory(place, name) {
            Ok(opened) => self.go_into(parent, name, &opened, aim.is_out),
            // It became something else since we asked; that is news to come.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(error) => {
                if !is_shortage(error) {
                    self.closed(parent, name, about, aim.is_out);
                }
                self.unreadable(error)
            }
        }
    }

    /// A directory that may not be read. Its kind and permissions are seen all the same: otherwise closing it would be no
    /// change, and an undo would take back the command before. What is known to be in it stays only while it is the same
    /// directory and no entry came or went; otherwise an undo must put it back. Never inlined, for the stack of a deep look.
    #[inline(never)]
    fn closed(&mut self, parent: &mut Directory, name: &[u8], about: &Stat, is_out: bool) {
        let (bits, modified) = (about.st_mode & MODE_BITS, modified(about));
        match parent.entries.get_mut(name) {
            Some(Node::Directory(known)) if known.is_still(about) => {
                (known.inode, known.modified) = (about.st_ino, modified);
                if known.bits == bits {
                    return;
                }
                known.bits = bits;
                known.mark();
            }
            _ => {
                self.remove(parent, name);
                if is_out {
                    return;
                }
                let closed = Directory { bits, modified, inode: about.st_ino, ..Directory::default() };
                parent.entries.insert(name.into(), Node::Directory(Box::new(closed)));
            }
        }
        parent.mark();
    }

    fn go_into(&mut self, parent: &mut Directory, name: &[u8], opened: &OwnedFd, is_out: bool) -> Result<(), Trouble> {
        let Some(Node::Directory(child)) = parent.entries.get_mut(name) else {
            return self.go_into_new(parent, name, opened, is_out);
        };
        child.is_ignored = is_out;
        let result = self.enter(child, opened);
        let is_of_no_use = child.is_ignored && child.entries.is_empty();
        if child.written.is_none() {
            parent.mark();
        }
        if is_of_no_use && result.is_ok() {
            self.remove(parent, name);
        }
        result
    }

    fn go_into_new(
        &mut self,
        parent: &mut Directory,
        name: &[u8],
        opened: &OwnedFd,
        is_out: bool,
    ) -> Result<(), Trouble> {
        self.remove(parent, name);
        let mut child = Box::new(Directory { is_ignored: is_out, ..Directory::default() });
        let result = self.enter(&mut child, opened);
        if child.is_ignored && child.entries.is_empty() {
            // A cache, as a file in it says: as if it had never been there.
            self.held.give_back(child.rules.take());
            if let Some(watches) = &mut self.watches {
                watches.forget(&self.path);
            }
        } else {
            parent.entries.insert(name.into(), Node::Directory(child));
            parent.mark();
        }
        result
    }

    /// What was at this path is gone, or is no longer kept.
    fn remove(&mut self, parent: &mut Directory, name: &[u8]) {
        self.omissions.clear(&self.path);
        match parent.entries.remove(name) {
            None => return,
            Some(Node::Leaf(leaf)) => self.lost(&leaf),
            Some(Node::Directory(directory)) => {
                self.lost_below(&directory);
                if let Some(watches) = &mut self.watches {
                    watches.forget(&self.path);
                }
            }
        }
        parent.mark();
    }

    fn lost(&mut self, leaf: &Leaf) {
        *self.files = self.files.saturating_sub(1);
        note(self.changes, &self.path, Some(leaf));
    }

    fn lost_below(&mut self, directory: &Directory) {
        self.held.give_back(directory.rules.clone());
        self.omissions.rules_read(&self.path, true);
        for (name, node) in &directory.entries {
            self.at(name, |look| {
                match node {
                    Node::Leaf(leaf) => look.lost(leaf),
                    Node::Directory(directory) => look.lost_below(directory),
                }
                Ok(())
            })
            .unwrap_or_default();
        }
    }

    fn watch(&mut self, place: &OwnedFd) {
        if let Some(watches) = &mut self.watches
            && !self.is_exhausted
        {
            self.is_exhausted = watches.watch(&self.path, place.as_fd()).is_err();
        }
    }

    /// What may not be read is left as it was, and said. Having no descriptor or memory left is another matter.
    fn unreadable(&mut self, error: Errno) -> Result<(), Trouble> {
        if is_shortage(error) {
            return Err(self.trouble(error));
        }
        self.leave_out(false, Reason::Unreadable);
        Ok(())
    }

    fn leave_out(&mut self, is_out_anyway: bool, reason: Reason) {
        if !is_out_anyway {
            self.omissions.add(&self.path, reason);
        }
    }

    fn trouble(&self, error: Errno) -> Trouble {
        Trouble::Io { path: self.path.clone(), source: error.into() }
    }

    /// Does something with `name` at the end of the path.
    fn at<T>(&mut self, name: &[u8], job: impl FnOnce(&mut Self) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let length = self.path.len();
        if length > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.depth += 1;
        let result = job(self);
        self.depth -= 1;
        self.path.truncate(length);
        result
    }
}

/// What is wanted of a look at a directory.
struct Aim {
    is_out: bool,
    depth: Depth,
}

/// Whether we are short of something, which says nothing of what is there.
fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

fn is_inode(opened: &OwnedFd, inode: u64) -> bool {
    fstat(opened).is_ok_and(|about| about.st_ino == inode)
}

fn same_type(one: &Stamp, other: &Stamp) -> bool {
    FileType::from_raw_mode(one.mode) == FileType::from_raw_mode(other.mode)
}
