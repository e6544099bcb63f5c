//! Copies one directory: its files and links, and new empty directories for those in it, which become jobs. Everything
//! is opened relative to the directory, so no path is walked twice and no link leads astray.

use super::file::{self, Piece, times};
use super::shared::{Copied, DIRECTORY, Job, Pair, Shared, TopMode};
use crate::fault::Point;
use crate::meta::MODE_BITS;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, Stat, chmodat, fchmod, fstat, futimens, mkdirat, openat, readlinkat,
    statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// Bytes of names that are read from a directory at a time.
const LISTING: usize = 64 << 10;
/// What a directory has while it is filled.
const FILLING: u32 = 0o700;

/// One thread's buffers and counts.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    listing: Vec<MaybeUninit<u8>>,
    buffer: Vec<u8>,
    pub copied: Copied,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>) -> Self {
        let listing = vec![MaybeUninit::uninit(); LISTING];
        Self { shared, listing, buffer: vec![0; file::BUFFER], copied: Copied::default() }
    }

    /// Copies a directory; those in it are left to the first free thread.
    pub fn directory(&mut self, job: Job) -> io::Result<()> {
        let Some(pair) = self.open(&job)? else { return Ok(()) };
        let pair = Arc::new(pair);
        let stat = fstat(&pair.from)?;
        if (stat.st_dev, stat.st_ino) == self.shared.target {
            return Ok(());
        }
        let entries = self.list(&pair.from)?;
        for (kind, name) in &entries {
            self.entry(&pair, &job.path, *kind, name)?;
        }
        let is_private = job.name.is_none() && self.shared.top_mode == TopMode::Private;
        let bits = if is_private { FILLING } else { MODE_BITS };
        // At the end, because filling it changes its time, and because it may forbid to be filled.
        fchmod(&pair.to, Mode::from_raw_mode(stat.st_mode & bits))?;
        Ok(futimens(&pair.to, &times(&stat))?)
    }

    fn open(&self, job: &Job) -> io::Result<Option<Pair>> {
        let Some(name) = &job.name else {
            return Ok(Some(Pair { from: job.above.from.try_clone()?, to: job.above.to.try_clone()? }));
        };
        let from = match openat(&job.above.from, name.as_c_str(), DIRECTORY, Mode::empty()) {
            Ok(from) => from,
            Err(error) => {
                self.missed(&job.path, error)?;
                // Made when it was seen; what it was, as far as that can be known.
                if let Ok(stat) = statat(&job.above.from, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
                    let bits = Mode::from_raw_mode(stat.st_mode & MODE_BITS);
                    chmodat(&job.above.to, name.as_c_str(), bits, AtFlags::empty())?;
                }
                return Ok(None);
            }
        };
        Ok(Some(Pair { from, to: openat(&job.above.to, name.as_c_str(), DIRECTORY, Mode::empty())? }))
    }

    /// What is in a directory, in the order of the inodes: nearest to how it lies on a disk.
    fn list(&mut self, directory: &OwnedFd) -> io::Result<Vec<(FileType, CString)>> {
        let mut entries = Vec::new();
        let mut listing = RawDir::new(directory, &mut self.listing);
        while let Some(entry) = listing.next() {
            let entry = match entry {
                // It was removed while we looked.
                Err(Errno::NOENT) => break,
                other => other?,
            };
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                entries.push((entry.ino(), entry.file_type(), entry.file_name().to_owned()));
            }
        }
        entries.sort_unstable_by_key(|(inode, ..)| *inode);
        Ok(entries.into_iter().map(|(_, kind, name)| (kind, name)).collect())
    }

    fn entry(&mut self, pair: &Arc<Pair>, above: &[u8], kind: FileType, name: &CStr) -> io::Result<()> {
        self.shared.faults.check(Point::Copying)?;
        let kind = match kind {
            // Some file systems do not say.
            FileType::Unknown => match statat(&pair.from, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(error) => return self.missed(&join(above, name.to_bytes()), error),
            },
            known => known,
        };
        match kind {
            FileType::RegularFile => self.file(pair, above, name),
            FileType::Directory => {
                let path = join(above, name.to_bytes());
                mkdirat(&pair.to, name, Mode::from_raw_mode(FILLING))?;
                self.copied.directories += 1;
                self.shared.push(Job { above: Arc::clone(pair), name: Some(name.to_owned()), path });
                Ok(())
            }
            FileType::Symlink => self.link(pair, above, name),
            other => {
                self.shared.tell(&join(above, name.to_bytes()), unusual(other));
                Ok(())
            }
        }
    }

    fn file(&mut self, pair: &Pair, above: &[u8], name: &CStr) -> io::Result<()> {
        // Does not block if it has become a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = match openat(&pair.from, name, flags, Mode::empty()) {
            Ok(from) => from,
            Err(error) => return self.missed(&join(above, name.to_bytes()), error),
        };
        let stat = fstat(&from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            self.shared.tell(&join(above, name.to_bytes()), "its kind changed while it was copied");
            return Ok(());
        }
        let piece = Piece { from: from.as_fd(), stat: &stat, to: pair.to.as_fd(), name };
        let (shared, buffer) = (self.shared, &mut self.buffer);
        let bytes = if stat.st_nlink > 1 {
            let path = join(above, name.to_bytes());
            let place = (pair.to.as_fd(), name);
            shared.links.link_or(&stat, &path, place, || file::copy(&piece, shared, buffer))?
        } else {
            file::copy(&piece, shared, buffer)?
        };
        self.copied.files += 1;
        self.copied.bytes += bytes;
        Ok(())
    }

    fn link(&mut self, pair: &Pair, above: &[u8], name: &CStr) -> io::Result<()> {
        let (stat, text) = match read_link(pair.from.as_fd(), name) {
            Ok(read) => read,
            Err(error) => return self.missed(&join(above, name.to_bytes()), error),
        };
        if leads_into(text.to_bytes(), &self.shared.from) {
            self.shared.tell(&join(above, name.to_bytes()), "copied; the link points into the original workspace");
        }
        symlinkat(text.as_c_str(), &pair.to, name)?;
        utimensat(&pair.to, name, &times(&stat), AtFlags::SYMLINK_NOFOLLOW)?;
        self.copied.links += 1;
        Ok(())
    }

    /// What could not be opened is reported; what was deleted in the meantime is not in the copy either.
    fn missed(&self, path: &[u8], error: Errno) -> io::Result<()> {
        match error {
            Errno::NOENT => Ok(()),
            Errno::ACCESS | Errno::PERM => {
                self.shared.tell(path, "cannot be read");
                Ok(())
            }
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::INVAL => {
                self.shared.tell(path, "its kind changed while it was copied");
                Ok(())
            }
            other => Err(other.into()),
        }
    }
}

fn read_link(directory: BorrowedFd<'_>, name: &CStr) -> Result<(Stat, CString), Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((stat, readlinkat(directory, name, Vec::new())?))
}

fn unusual(kind: FileType) -> &'static str {
    match kind {
        FileType::Socket => "a socket is not copied",
        FileType::Fifo => "a named pipe is not copied",
        _ => "a device is not copied",
    }
}

/// Makes all directories below writable, so that they can be removed.
pub(super) fn open_up(directory: &Path) -> io::Result<()> {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(FILLING))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// `directory/name`, or only the name at the top.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    if !directory.is_empty() {
        path.extend_from_slice(directory);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Whether a link's text leads into the directory.
fn leads_into(text: &[u8], directory: &Path) -> bool {
    Path::new(OsStr::from_bytes(text)).starts_with(directory)
}
