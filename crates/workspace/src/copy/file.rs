//! Copies one file with as few calls as can be: most of the time goes into the file system's making a new one.

use super::shared::Shared;
use crate::meta::MODE_BITS;
use rustix::fs::{
    Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT, copy_file_range, fchmod, ftruncate, futimens,
    ioctl_ficlone, openat, seek,
};
use rustix::io::{Errno, read, write};
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Files that fit are read and written in one piece; the kernel's own copying costs more calls for them.
pub(super) const BUFFER: usize = 128 << 10;
/// What the system calls a block, whatever the file system's own are.
const BLOCK: i64 = 512;

/// What to copy where.
pub(super) struct Piece<'a> {
    pub from: BorrowedFd<'a>,
    pub stat: &'a Stat,
    pub to: BorrowedFd<'a>,
    pub name: &'a CStr,
}

/// Copies it and gives how many bytes it has.
pub(super) fn copy(piece: &Piece<'_>, shared: &Shared<'_>, buffer: &mut [u8]) -> io::Result<u64> {
    let bits = piece.stat.st_mode & MODE_BITS;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = openat(piece.to, piece.name, flags, Mode::from_raw_mode(bits))?;
    let bytes = fill(piece, &to, shared, buffer)?;
    if bits & shared.umask != 0 {
        fchmod(&to, Mode::from_raw_mode(bits))?;
    }
    futimens(&to, &times(piece.stat))?;
    Ok(bytes)
}

fn fill(piece: &Piece<'_>, to: &OwnedFd, shared: &Shared<'_>, buffer: &mut [u8]) -> io::Result<u64> {
    let size = u64::try_from(piece.stat.st_size).unwrap_or_default();
    if size > 0 && shared.may_clone.load(Ordering::Relaxed) {
        match ioctl_ficlone(to, piece.from) {
            Ok(()) => {
                shared.has_cloned.store(true, Ordering::Relaxed);
                return Ok(size);
            }
            Err(Errno::NOSPC | Errno::DQUOT) => return Err(Errno::NOSPC.into()),
            // Not on this file system, or not between these two: asking for every file would cost.
            Err(_) => shared.may_clone.store(false, Ordering::Relaxed),
        }
    }
    if piece.stat.st_blocks * BLOCK < piece.stat.st_size {
        return sparse(piece, to, size, buffer);
    }
    // Files of the system's own (`/proc`) say 0 and have bytes; in a workspace an empty file is empty.
    if size == 0 {
        return Ok(0);
    }
    let mut done = 0;
    while done < size {
        let count = retry(|| read(piece.from, &mut *buffer))?;
        if count == 0 {
            break;
        }
        write_all(to, &buffer[..count])?;
        done += count as u64;
        if size > BUFFER as u64 && done < size {
            done += in_kernel(piece.from, to, size - done)?;
        }
    }
    Ok(done)
}

/// Copies the rest without bringing it here, as far as the kernel can.
fn in_kernel(from: BorrowedFd<'_>, to: &OwnedFd, wanted: u64) -> io::Result<u64> {
    let mut done = 0;
    while done < wanted {
        let length = usize::try_from(wanted - done).unwrap_or(usize::MAX).min(1 << 30);
        match copy_file_range(from, None, to, None, length) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC) => return Err(Errno::NOSPC.into()),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// A file with holes, which stay holes: a disk image of 100 GB may take 1.
fn sparse(piece: &Piece<'_>, to: &OwnedFd, size: u64, buffer: &mut [u8]) -> io::Result<u64> {
    ftruncate(to, size)?;
    let mut at = 0;
    while at < size {
        let start = match seek(piece.from, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            Err(Errno::NXIO) => break,
            // It cannot tell holes from bytes: all of it is bytes.
            Err(_) => at,
        };
        let end = seek(piece.from, SeekFrom::Hole(start)).map_or(size, |end| end.min(size));
        seek(piece.from, SeekFrom::Start(start))?;
        seek(to, SeekFrom::Start(start))?;
        let mut left = end.saturating_sub(start);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let count = retry(|| read(piece.from, &mut buffer[..most]))?;
            if count == 0 {
                return Ok(size);
            }
            write_all(to, &buffer[..count])?;
            left -= count as u64;
        }
        at = end.max(start + 1);
    }
    Ok(size)
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = retry(|| write(to, bytes))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The time of the last change; when it was last read does not matter.
pub(super) fn times(stat: &Stat) -> Timestamps {
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap, reason = "the type differs between machines")]
    let nanoseconds = stat.st_mtime_nsec as i64;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds },
    }
}
