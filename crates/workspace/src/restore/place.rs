//! The few things that are done to a workspace, each relative to its directory: no link on the way leads elsewhere.

use super::intent::Expected;
use crate::meta::MODE_BITS;
use crate::repo::ObjectId;
use crate::root;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, chmod, fstat, openat, readlinkat, renameat, renameat_with,
    statat,
};
use rustix::io::{Errno, read};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// To name things in a directory; it needs not be readable.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Setuid, setgid and sticky.
const SPECIAL: u32 = 0o7000;
/// Files are looked at in pieces of this size.
const BUFFER: usize = 64 << 10;

/// The workspace, held open.
pub(super) struct Root(OwnedFd);

/// A name in a directory that is held open.
pub(super) struct Spot {
    pub directory: OwnedFd,
    pub name: Vec<u8>,
}

impl Root {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(root::open(path, OFlags::PATH)?))
    }

    /// Where a path leads, without its last name.
    pub fn spot(&self, path: &[u8]) -> Result<Spot, Errno> {
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let name = names.pop().unwrap_or_default().to_vec();
        let mut directory = openat(&self.0, c".", DIRECTORY, Mode::empty())?;
        for name in names {
            directory = openat(&directory, name, DIRECTORY, Mode::empty())?;
        }
        Ok(Spot { directory, name })
    }

    /// What a path is; the empty one is the workspace.
    pub fn stat(&self, path: &[u8]) -> Result<Stat, Errno> {
        if path.is_empty() { fstat(&self.0) } else { self.spot(path)?.stat() }
    }

    /// Sets a file's or directory's permissions, if `is_wanted` says so of what it is. No link is followed.
    pub fn set_bits(&self, path: &[u8], bits: u32, is_wanted: impl FnOnce(&Stat) -> bool) -> Result<bool, Errno> {
        if path.is_empty() {
            // Not by a name in it, for which it would have to be open already.
            return set_bits(&self.0, bits, is_wanted);
        }
        let spot = self.spot(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        set_bits(&openat(&spot.directory, spot.name.as_slice(), flags, Mode::empty())?, bits, is_wanted)
    }
}

/// Sets the permissions of what is held by name only.
fn set_bits(held: &OwnedFd, bits: u32, is_wanted: impl FnOnce(&Stat) -> bool) -> Result<bool, Errno> {
    let stat = fstat(held)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink || !is_wanted(&stat) {
        return Ok(false);
    }
    // A directory keeps what its owner set beyond permissions (setgid, sticky); a file never gets such a bit from us.
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let special = if is_directory { stat.st_mode & SPECIAL } else { 0 };
    // What is held by name only can be changed through this name of it, whatever the path leads to by now.
    chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::from_raw_mode(special | bits & MODE_BITS))?;
    Ok(true)
}

impl Spot {
    pub fn new(directory: &OwnedFd, name: &str) -> Result<Self, Errno> {
        Ok(Self { directory: openat(directory, c".", DIRECTORY, Mode::empty())?, name: name.as_bytes().to_vec() })
    }

    pub fn stat(&self) -> Result<Stat, Errno> {
        statat(&self.directory, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Moves what is here to where nothing is.
    pub fn move_to(&self, to: &Spot) -> Result<(), Errno> {
        let (from, name) = (self.name.as_slice(), to.name.as_slice());
        match renameat_with(&self.directory, from, &to.directory, name, RenameFlags::NOREPLACE) {
            // Some file systems cannot promise it; then we look, which is nearly as good.
            Err(Errno::INVAL | Errno::NOSYS) => match to.stat() {
                Err(Errno::NOENT) => renameat(&self.directory, from, &to.directory, name),
                Err(error) => Err(error),
                Ok(_) => Err(Errno::EXIST),
            },
            other => other,
        }
    }

    pub fn swap(&self, other: &Spot) -> Result<(), Errno> {
        let (from, name) = (self.name.as_slice(), other.name.as_slice());
        renameat_with(&self.directory, from, &other.directory, name, RenameFlags::EXCHANGE)
    }

    /// Whether what is here is what a checkpoint holds: kind, permissions and bytes.
    pub fn is(&self, expected: &Expected) -> Result<bool, Errno> {
        let stat = self.stat()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if expected.is_link => Ok(self.link()? == Some(expected.id)),
            FileType::RegularFile if !expected.is_link && stat.st_mode & MODE_BITS == expected.bits => {
                Ok(self.file()? == Some(expected.id))
            }
            _ => Ok(false),
        }
    }

    /// Whether this and another are two of the same, as a checkpoint would hold them.
    pub fn is_like(&self, other: &Spot) -> Result<bool, Errno> {
        let stat = self.stat()?;
        let (is_link, bits) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => (true, 0),
            FileType::RegularFile => (false, stat.st_mode & MODE_BITS),
            _ => return Ok(false),
        };
        let id = if is_link { self.link()? } else { self.file()? };
        id.map_or(Ok(false), |id| other.is(&Expected { is_link, bits, id }))
    }

    /// The id of where the link here points; none if someone put something else here since we looked.
    fn link(&self) -> Result<Option<ObjectId>, Errno> {
        match readlinkat(&self.directory, self.name.as_slice(), Vec::new()) {
            Ok(text) => Ok(hash(&mut text.as_bytes(), text.as_bytes().len() as u64)),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The id of the bytes of the file here.
    fn file(&self) -> Result<Option<ObjectId>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, self.name.as_slice(), flags, Mode::empty())?;
        let size = u64::try_from(fstat(&file)?.st_size).unwrap_or_default();
        Ok(hash(&mut Contents(file.as_fd()), size))
    }
}

struct Contents<'a>(BorrowedFd<'a>);

impl io::Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(read(self.0, buffer)?)
    }
}

/// The id of a file with these bytes; `None` if they cannot be read or are not as many.
fn hash(bytes: &mut dyn io::Read, size: u64) -> Option<ObjectId> {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(format!("blob {size}\0").as_bytes());
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER)).max(1)];
    let mut left = size;
    loop {
        match bytes.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                left = left.checked_sub(count as u64)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    hasher.try_finalize().ok().filter(|_| left == 0)
}
