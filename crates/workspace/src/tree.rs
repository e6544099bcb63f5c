//! Single files of a workspace, for callers who name them by path: looked at, read, written and removed beside whatever
//! runs there. The workspace's directory is held open and every path is resolved below it by the kernel, so neither `..`
//! nor a symbolic link leads out, also if someone swaps a directory for a link at that very moment.

mod expected;
mod put;

pub use expected::Expected;
pub use put::{Put, Written};

use crate::deep::remove_at;
use crate::root;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// To name things in a directory.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The kernel asks for another try if a directory was moved while it resolved a path, and so does a link that is one no more
/// when it is read; more often than this is an attack.
const TRIES: usize = 64;
/// Permissions, setuid, setgid and sticky.
const MODE_BITS: u32 = 0o7777;
/// Most bytes that one call reads or writes; more is read in parts. Larger files are not hashed either.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Why something could not be done with a file.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The path leads out of the workspace.
    #[error("the path leads out of the workspace")]
    Outside,
    /// There is nothing at the path.
    #[error("there is no such file")]
    NotFound,
    /// There is a link at the path, and nothing where it leads to.
    #[error("it is a symbolic link to nothing")]
    Dangling,
    /// A directory is where a file should be.
    #[error("it is a directory")]
    IsDirectory,
    /// It is neither a file nor a directory: a pipe, a socket, a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// A directory is needed where something else is.
    #[error("'{}' is not a directory", String::from_utf8_lossy(above))]
    NotADirectory {
        /// Its path, below the workspace.
        above: Vec<u8>,
    },
    /// The directory has something in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The path leads through too many links.
    #[error("there are too many symbolic links on the path")]
    LinkLoop,
    /// The path, or a name in it, is longer than the file system takes.
    #[error("the path or a name in it is too long")]
    NameTooLong,
    /// Something on the path, or at its end, was replaced each time that it was looked at.
    #[error("it keeps being replaced")]
    Unsteady,
    /// More would have to be returned than is allowed.
    #[error("the file has {size} bytes")]
    TooLarge {
        /// How large it is.
        size: u64,
    },
    /// The file is not what the caller expected.
    #[error("the file is not what was expected")]
    Unexpected {
        /// The SHA-256 of what is there; none if nothing is.
        current: Option<String>,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for TreeError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound,
            // A link out of the workspace; without openat2, any link on the way.
            Errno::XDEV => Self::Outside,
            Errno::LOOP => Self::LinkLoop,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::ISDIR => Self::IsDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            // A socket, or a pipe without a writer, cannot be opened.
            Errno::NXIO => Self::NotAFile,
            // What `resolve` and `NameAt::entry` give up with.
            Errno::AGAIN => Self::Unsteady,
            error => Self::Io(error.into()),
        }
    }
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link, which was not followed.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, below the workspace; empty for the workspace itself.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When its content last changed, in seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Where a link points to.
    pub target: Option<Vec<u8>>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    /// How large the file is.
    pub size: u64,
    /// The SHA-256 of the bytes, in hexadecimal, if they are the whole file.
    pub sha256: Option<String>,
}

/// A workspace, held open.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

/// A name in a directory that is held open.
struct NameAt<'a> {
    directory: OwnedFd,
    name: &'a [u8],
}

impl Tree {
    /// Opens a workspace.
    pub fn open(workspace: &Path) -> io::Result<Self> {
        Ok(Self { root: root::open(workspace, OFlags::PATH)? })
    }

    /// What is at a path. A link is not followed.
    pub fn entry(&self, path: &[u8]) -> Result<Entry, TreeError> {
        if path.is_empty() {
            return Ok(entry(Vec::new(), &fstat(&self.root)?, None));
        }
        let place = self.place(path)?;
        place.entry(path.to_vec())
    }

    /// What is in a directory, by name: at most `limit` entries after the name `after`, and whether there are more. However
    /// many there are, no more than that is held in memory.
    pub fn list(&self, path: &[u8], after: &[u8], limit: usize) -> Result<(Vec<Entry>, bool), TreeError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = if path.is_empty() {
            openat(&self.root, c".", flags, Mode::empty())?
        } else {
            let place = self.place(path)?;
            openat(&place.directory, place.name, flags, Mode::empty())?
        };
        let mut first: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        let mut has_more = false;
        for found in Dir::read_from(&directory)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name <= after {
                continue;
            }
            first.push(name.to_vec());
            if first.len() > limit {
                first.pop();
                has_more = true;
            }
        }
        let mut entries = Vec::with_capacity(first.len());
        for name in first.into_sorted_vec() {
            let whole = if path.is_empty() { name.clone() } else { [path, b"/", &name].concat() };
            let directory = openat(&directory, c".", DIRECTORY, Mode::empty())?;
            match (NameAt { directory, name: &name }).entry(whole) {
                Ok(entry) => entries.push(entry),
                // It was removed while we looked.
                Err(TreeError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((entries, has_more))
    }

    /// Reads at most `limit` bytes from `offset` on; without a limit the whole rest, if that is at most `most`.
    pub fn read(&self, path: &[u8], offset: u64, limit: Option<u64>, most: u64) -> Result<Content, TreeError> {
        let file = self.open_file(path)?;
        let size = file.metadata()?.len();
        let rest = size.saturating_sub(offset);
        if limit.is_none() && rest > most {
            return Err(TreeError::TooLarge { size });
        }
        let wanted = limit.unwrap_or(most).min(most);
        let mut bytes = vec![0; usize::try_from(rest.min(wanted)).unwrap_or(usize::MAX)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                // It became shorter while we read.
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        let is_whole = offset == 0 && filled as u64 == size;
        let sha256 = is_whole.then(|| sha256(&bytes));
        Ok(Content { bytes, size, sha256 })
    }

    /// Removes what is at a path; a link, not what it points to. A directory that is not empty only if `recursive`.
    pub fn remove(&self, path: &[u8], recursive: bool, expected: &Expected) -> Result<(), TreeError> {
        // What must be there is not, as when it goes away while we look.
        let missing = |error: TreeError| match (error, expected) {
            (TreeError::NotFound, Expected::Sha256(_) | Expected::Something) => TreeError::Unexpected { current: None },
            (error, _) => error,
        };
        let place = self.place(path).map_err(missing)?;
        let kind = FileType::from_raw_mode(place.stat().map_err(|error| missing(error.into()))?.st_mode);
        match expected {
            Expected::Anything | Expected::Something => {}
            Expected::Nothing => return Err(TreeError::Unexpected { current: self.sha256(path)? }),
            Expected::Sha256(wanted) if kind == FileType::RegularFile => return place.remove_only(wanted),
            Expected::Sha256(wanted) => {
                // Reading a link reads what it leads to.
                let current = self.sha256(path)?;
                if current.as_ref() != Some(wanted) {
                    return Err(TreeError::Unexpected { current });
                }
            }
        }
        if kind != FileType::Directory {
            return Ok(rustix::fs::unlinkat(&place.directory, place.name, AtFlags::empty())?);
        }
        if !recursive {
            return Ok(rustix::fs::unlinkat(&place.directory, place.name, AtFlags::REMOVEDIR)?);
        }
        // From the directory that is held open, so that nothing on the way can be swapped. Links are not followed.
        Ok(remove_at(place.directory.as_fd(), place.name)?)
    }

    /// The SHA-256 of the file that a path leads to; none if it leads to no file, or to one that is too large for one call.
    fn sha256(&self, path: &[u8]) -> Result<Option<String>, TreeError> {
        match self.open_file(path) {
            Ok(file) if file.metadata()?.len() <= MAX_FILE_BYTES as u64 => Ok(Some(sha256_of(file)?)),
            Err(error @ (TreeError::Io(_) | TreeError::Unsteady)) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Opens a regular file to read it.
    fn open_file(&self, path: &[u8]) -> Result<File, TreeError> {
        // Nothing is waited for: a pipe without a writer would be waited for forever.
        let file = self.follow(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(TreeError::IsDirectory),
            _ => Err(TreeError::NotAFile),
        }
    }

    /// Opens what a path leads to, and tells a link that leads nowhere from a path at which there is nothing.
    fn follow(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, TreeError> {
        let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let ends_at_link = || self.place(path).is_ok_and(|place| place.stat().is_ok_and(is_link));
        match self.resolve(path, flags) {
            Err(Errno::NOENT) if ends_at_link() => Err(TreeError::Dangling),
            opened => Ok(opened?),
        }
    }

    /// The directory of a path, and its last name.
    fn place<'a>(&self, path: &'a [u8]) -> Result<NameAt<'a>, TreeError> {
        let (above, name) = split(path);
        Ok(NameAt { directory: self.resolve(above, DIRECTORY)?, name })
    }

    /// Opens what a path leads to. Links are followed as long as they stay in the workspace.
    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let named: &[u8] = if path.is_empty() { b"." } else { path };
        for _ in 0..TRIES {
            match openat2(&self.root, named, flags, Mode::empty(), within) {
                Err(Errno::AGAIN) => {}
                // Kernels before 5.6 and some sandboxes: no link is followed then.
                Err(Errno::NOSYS | Errno::PERM) => return self.walk(path, flags),
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens what a path leads to, name by name. A link is not followed, and taken for one that leads out.
    fn walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let (above, name) = split(path);
        let mut directory = openat(&self.root, c".", DIRECTORY, Mode::empty())?;
        for name in above.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let next = openat(&directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            if FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink {
                return Err(Errno::XDEV);
            }
            directory = next;
        }
        let name = if name.is_empty() { b"." } else { name };
        match openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) => Err(Errno::XDEV),
            opened => opened,
        }
    }
}

impl NameAt<'_> {
    fn stat(&self) -> Result<Stat, Errno> {
        statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn entry(&self, path: Vec<u8>) -> Result<Entry, TreeError> {
        for _ in 0..TRIES {
            let stat = self.stat()?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Ok(entry(path, &stat, None));
            }
            match readlinkat(&self.directory, self.name, Vec::new()) {
                // Something else is in the place of the link by now.
                Err(Errno::INVAL) => {}
                target => return Ok(entry(path, &stat, Some(target?.into_bytes()))),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

fn entry(path: Vec<u8>, stat: &Stat, target: Option<Vec<u8>>) -> Entry {
    Entry {
        path,
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        },
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & MODE_BITS,
        modified: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        target,
    }
}

/// A path without its last name, and that name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of what a file holds, of at most so much as one call may write: it may grow while it is read.
fn sha256_of(file: File) -> io::Result<String> {
    let mut file = file.take(MAX_FILE_BYTES as u64);
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
