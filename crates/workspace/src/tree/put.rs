//! Writing a file: aside first, then by one rename, so that a reader finds the old content or the new. And removing one
//! only if it is the expected one.

use super::expected::Expected;
use super::{MAX_FILE_BYTES, MODE_BITS, NameAt, Tree, TreeError, sha256, sha256_of, split};
use crate::owner::{Owner, make_directory};
use crate::sync::lock;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, getxattr, linkat, openat, readlinkat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The beginning of the names under which files are written aside; the process and a number follow.
const ASIDE: &str = ".shellkeep-put-";
/// Permissions of a new file and a new directory, before the umask.
const NEW_FILE: u32 = 0o666;
const NEW_DIRECTORY: u32 = 0o777;
/// What a file that is written can have of a mode: not that it runs as its owner, who may be another one than its writer.
const PERMISSIONS: u32 = 0o777;
/// The access control list of what is made in a directory.
const DEFAULT_LIST: &str = "system.posix_acl_default";
/// Links that are followed to the file that is to be written, one after the other.
const LINKS: usize = 8;

static NUMBER: AtomicU64 = AtomicU64::new(0);
/// Held while a file is exchanged and perhaps put back. Of three callers that did so at once, one could put back what another
/// had exchanged, and the file of one that was refused stayed. Directories share them.
static EXCHANGES: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

/// A file to write.
#[derive(Debug)]
pub struct Put<'a> {
    /// Its content.
    pub bytes: &'a [u8],
    /// Its permissions; those of the file that is there, or the usual ones, if none are given.
    pub mode: Option<u32>,
    /// What permissions a new file and new directories do not get; those of our own umask if none is given.
    pub umask: Option<u32>,
    /// What must be there.
    pub expected: Expected,
    /// Whether it must be on disk when this returns.
    pub power: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Whether nothing was there before.
    pub is_new: bool,
}

/// A file written aside, removed unless it is moved to its place.
struct Aside<'a> {
    directory: &'a OwnedFd,
    name: String,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // It is gone already if it was moved.
        let _ = unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
    }
}

/// Directories made for a file, removed unless it is written.
struct Made<'a> {
    tree: &'a Tree,
    /// The path of the last one.
    path: &'a [u8],
    /// How much of it is the path of each one that was made, from the top.
    lengths: Vec<usize>,
    /// The umask of new ones.
    umask: Option<u32>,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for length in self.lengths.iter().rev() {
            // One in which something is by now stays, and so do those above it.
            let Ok(place) = self.tree.place(&self.path[..*length]) else { return };
            let _ = unlinkat(&place.directory, place.name, AtFlags::REMOVEDIR);
        }
    }
}

impl Made<'_> {
    /// The directory, made if need be and if the file can be written at all.
    fn directory(&mut self, put: &Put<'_>) -> Result<OwnedFd, TreeError> {
        match self.tree.resolve(self.path, super::DIRECTORY) {
            Err(Errno::NOENT) if matches!(put.expected, Expected::Sha256(_) | Expected::Something) => {
                Err(TreeError::Unexpected { current: None })
            }
            Err(Errno::NOENT) => self.make(),
            Err(Errno::NOTDIR) => Err(self.not_a_directory()),
            other => Ok(other?),
        }
    }

    /// The directory, made with those above it that are missing. A path may name two thousand of them.
    fn make(&mut self) -> Result<OwnedFd, TreeError> {
        let mut missing = Vec::new();
        let mut length = self.path.len();
        let mut directory = loop {
            let path = &self.path[..length];
            match self.tree.resolve(path, super::DIRECTORY) {
                Err(Errno::NOENT) if !path.is_empty() => {
                    missing.push(length);
                    length = split(path).0.len();
                }
                Err(Errno::NOTDIR) => return Err(self.not_a_directory()),
                other => break other?,
            }
        };
        let (mode, owner) = (Mode::from_raw_mode(NEW_DIRECTORY), Owner::of(&self.tree.root)?);
        while let Some(length) = missing.pop() {
            let path = &self.path[..length];
            let permissions = without(self.umask, NEW_DIRECTORY, &directory);
            match make_directory(&directory, split(path).1, mode, permissions, owner) {
                Ok(()) => self.lengths.push(length),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            directory = self.tree.resolve(path, super::DIRECTORY)?;
        }
        Ok(directory)
    }

    /// That something else is where a directory is needed.
    fn not_a_directory(&self) -> TreeError {
        let ends = self.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let is_other =
            |length: &usize| matches!(self.tree.resolve(&self.path[..*length], super::DIRECTORY), Err(Errno::NOTDIR));
        let length = ends.chain([self.path.len()]).find(is_other).unwrap_or(self.path.len());
        TreeError::NotADirectory { above: self.path[..length].to_vec() }
    }
}

impl Tree {
    /// Writes a file. Directories above it are made, and removed again if it is not written; a link at its path is
    /// followed if it stays in the workspace.
    pub fn write(&self, path: &[u8], put: &Put<'_>) -> Result<Written, TreeError> {
        if path.is_empty() {
            return Err(TreeError::IsDirectory);
        }
        let mut path = path.to_vec();
        for _ in 0..LINKS {
            match self.write_at(&path, put)? {
                Some(written) => return Ok(written),
                None => path = self.target(&path)?,
            }
        }
        Err(TreeError::LinkLoop)
    }

    /// Writes a file, unless there is a link at its path.
    fn write_at(&self, path: &[u8], put: &Put<'_>) -> Result<Option<Written>, TreeError> {
        let (above, name) = split(path);
        let mut made = Made { tree: self, path: above, lengths: Vec::new(), umask: put.umask };
        let place = NameAt { directory: made.directory(put)?, name };
        let owner = Owner::of(&self.root)?;
        let written = match place.stat() {
            Err(Errno::NOENT) => place.write(None, put, owner)?,
            Err(error) => return Err(error.into()),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => place.write(Some(stat.st_mode & MODE_BITS), put, owner)?,
                FileType::Directory => return Err(TreeError::IsDirectory),
                FileType::Symlink => return Ok(None),
                _ => return Err(TreeError::NotAFile),
            },
        };
        made.lengths.clear();
        Ok(Some(written))
    }

    /// The path of the file that a link leads to, below the workspace.
    fn target(&self, path: &[u8]) -> Result<Vec<u8>, TreeError> {
        let held = self.follow(path, OFlags::PATH)?;
        let real = |fd: &OwnedFd| {
            let name = format!("/proc/self/fd/{}", fd.as_raw_fd());
            readlinkat(rustix::fs::CWD, name, Vec::new()).map(std::ffi::CString::into_bytes)
        };
        let (root, found) = (real(&self.root)?, real(&held)?);
        let below = found.strip_prefix(root.as_slice()).and_then(|rest| rest.strip_prefix(b"/"));
        below.map(<[u8]>::to_vec).ok_or(TreeError::Outside)
    }
}

/// The permissions of something new in a directory under a umask that is not ours. None if we need not set them: ours
/// is right, or the directory has an access control list for what is made in it, which replaces every umask.
fn without(umask: Option<u32>, mode: u32, directory: &OwnedFd) -> Option<u32> {
    let umask = umask?;
    let held = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let has_list = match getxattr(held.as_str(), DEFAULT_LIST, &mut [0_u8; 256]) {
        Ok(bytes) => bytes > 0,
        // It is longer than that.
        Err(error) => error == Errno::RANGE,
    };
    (!has_list).then_some(mode & !umask & PERMISSIONS)
}

impl NameAt<'_> {
    /// Writes a file here, for this owner if it is not ours. `mode` is that of the file that is here now, if there is one.
    fn write(&self, mode: Option<u32>, put: &Put<'_>, owner: Option<Owner>) -> Result<Written, TreeError> {
        let current = || self.sha256();
        match (&put.expected, mode) {
            (Expected::Nothing, Some(_)) => return Err(TreeError::Unexpected { current: current()? }),
            (Expected::Sha256(_) | Expected::Something, None) => return Err(TreeError::Unexpected { current: None }),
            (Expected::Sha256(wanted), Some(_)) => match current()? {
                found if found.as_ref() != Some(wanted) => return Err(TreeError::Unexpected { current: found }),
                _ => {}
            },
            (Expected::Anything, _) | (Expected::Something, Some(_)) | (Expected::Nothing, None) => {}
        }
        let aside = self.write_aside(put, put.mode.or(mode).map(|mode| mode & PERMISSIONS), owner)?;
        match &put.expected {
            Expected::Anything => renameat(&self.directory, aside.name.as_str(), &self.directory, self.name)?,
            Expected::Nothing => self.move_new(&aside)?,
            Expected::Something => self.swap(&aside, None)?,
            Expected::Sha256(wanted) => self.swap(&aside, Some(wanted))?,
        }
        if put.power {
            File::from(openat(&self.directory, c".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?).sync_all()?;
        }
        Ok(Written { sha256: sha256(put.bytes), is_new: mode.is_none() })
    }

    /// Moves a file here, where nothing may be.
    fn move_new(&self, aside: &Aside<'_>) -> Result<(), TreeError> {
        let name = aside.name.as_str();
        match renameat_with(&self.directory, name, &self.directory, self.name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(TreeError::Unexpected { current: self.sha256()? }),
            // Some file systems cannot promise it. We have just checked, which is nearly as good.
            Err(Errno::INVAL | Errno::NOSYS) => Ok(renameat(&self.directory, name, &self.directory, self.name)?),
            other => Ok(other?),
        }
    }

    /// Moves a file here in exchange for the one that is expected, or for any file, and back if something else was here by
    /// then.
    fn swap(&self, aside: &Aside<'_>, wanted: Option<&str>) -> Result<(), TreeError> {
        let name = aside.name.as_str();
        let turn = fstat(&self.directory)?.st_ino as usize % EXCHANGES.len();
        let _turn = lock(&EXCHANGES[turn]);
        let exchange = || renameat_with(&self.directory, name, &self.directory, self.name, RenameFlags::EXCHANGE);
        let beside = NameAt {
            directory: openat(&self.directory, c".", super::DIRECTORY, Mode::empty())?,
            name: name.as_bytes(),
        };
        let ours = beside.identity()?;
        match exchange() {
            Err(Errno::INVAL | Errno::NOSYS) => {
                return Ok(renameat(&self.directory, name, &self.directory, self.name)?);
            }
            Err(Errno::NOENT) => return Err(TreeError::Unexpected { current: None }),
            exchanged => exchanged?,
        }
        let found = match wanted {
            Some(_) => beside.sha256(),
            None => Ok(None),
        };
        let is_expected = match wanted {
            Some(wanted) => matches!(&found, Ok(Some(found)) if found == wanted),
            None => beside.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
        };
        if is_expected {
            return Ok(());
        }
        exchange()?;
        if beside.identity()? != ours {
            // Another caller wrote here in between. Its file is the newest, so it stays.
            exchange()?;
        }
        Err(TreeError::Unexpected { current: found? })
    }

    /// Removes the file that is here, if it is the expected one. It is moved aside before it is compared for the last time,
    /// so that what somebody writes here in between is never removed.
    pub(super) fn remove_only(&self, wanted: &str) -> Result<(), TreeError> {
        let found = self.sha256()?;
        if found.as_deref() != Some(wanted) {
            return Err(TreeError::Unexpected { current: found });
        }
        let name = format!("{ASIDE}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // Opened now: what fails once the file is aside must not leave it there.
        let beside = NameAt {
            directory: openat(&self.directory, c".", super::DIRECTORY, Mode::empty())?,
            name: name.as_bytes(),
        };
        let turn = fstat(&self.directory)?.st_ino as usize % EXCHANGES.len();
        let _turn = lock(&EXCHANGES[turn]);
        let only_new = RenameFlags::NOREPLACE;
        match renameat_with(&self.directory, self.name, &self.directory, name.as_str(), only_new) {
            // Some file systems cannot promise it. We have just checked, which is nearly as good.
            Err(Errno::INVAL | Errno::NOSYS) => {
                return Ok(unlinkat(&self.directory, self.name, AtFlags::empty())?);
            }
            Err(Errno::NOENT) => return Err(TreeError::Unexpected { current: None }),
            moved => moved?,
        }
        // From here on the file has no guard: it may be one that nobody has compared.
        let remove = || unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        let found = beside.sha256();
        if matches!(&found, Ok(Some(found)) if found == wanted) {
            return Ok(remove()?);
        }
        match renameat_with(&self.directory, name.as_str(), &self.directory, self.name, only_new) {
            // A newer one is here by now, and stays.
            Err(Errno::EXIST) => remove()?,
            back => back?,
        }
        Err(TreeError::Unexpected { current: found? })
    }

    /// Device and inode of what is here.
    fn identity(&self) -> Result<(u64, u64), TreeError> {
        let found = statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_dev, found.st_ino))
    }

    /// The SHA-256 of the file here; none if there is no regular file, or one that is too large to have been read or written
    /// in one call.
    fn sha256(&self) -> Result<Option<String>, TreeError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&self.directory, self.name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(file) => {
                let found = fstat(&file)?;
                let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
                let is_small = usize::try_from(found.st_size).is_ok_and(|size| size <= MAX_FILE_BYTES);
                if is_file && is_small { Ok(Some(sha256_of(File::from(file))?)) } else { Ok(None) }
            }
        }
    }

    /// Writes a file beside its place. Until it is complete it has no name, where the file system can do that: a daemon that
    /// is killed leaves nothing behind.
    fn write_aside(&self, put: &Put<'_>, mode: Option<u32>, owner: Option<Owner>) -> Result<Aside<'_>, TreeError> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{ASIDE}{}-{number}", std::process::id());
        let new = Mode::from_raw_mode(NEW_FILE);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, aside) = match openat(&self.directory, c".", flags | OFlags::TMPFILE, new) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                let file = openat(&self.directory, name.as_str(), flags | OFlags::CREATE | OFlags::EXCL, new)?;
                (file, Some(Aside { directory: &self.directory, name: name.clone() }))
            }
            Err(error) => return Err(error.into()),
        };
        let mut file = File::from(file);
        file.write_all(put.bytes)?;
        owner.map_or(Ok(()), |owner| owner.take(&file))?;
        if let Some(mode) = mode.or_else(|| without(put.umask, NEW_FILE, &self.directory)) {
            fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        if put.power {
            file.sync_all()?;
        }
        if let Some(aside) = aside {
            return Ok(aside);
        }
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(rustix::fs::CWD, held.as_str(), &self.directory, name.as_str(), AtFlags::SYMLINK_FOLLOW)?;
        Ok(Aside { directory: &self.directory, name })
    }
}
