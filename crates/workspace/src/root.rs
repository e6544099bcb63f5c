//! Opening a workspace: the directory itself, never what a symbolic link on the way to it points to. A workspace is known
//! by its real path, so a link there was put in its place later, and what it points to is someone else's.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open as open_plain, openat2};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// What is said of a workspace that has become a link.
const LINKED: &str = "its directory, or one above it, was replaced by a symbolic link, which is not followed; put the directory back, or make a new session for the other place";

/// Opens a workspace's directory. The error of a link says so in words.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Kernels before 5.6 and some sandboxes: at least the last name is not a link.
        Err(Errno::NOSYS | Errno::PERM) => open_plain(path, flags | OFlags::NOFOLLOW, Mode::empty()),
        other => other,
    };
    opened.map_err(|error| match error {
        Errno::LOOP => io::Error::other(LINKED),
        // Without openat2 a link in the place of the directory is "not a directory".
        Errno::NOTDIR if path.is_symlink() => io::Error::other(LINKED),
        error => error.into(),
    })
}

/// Whether a look at a workspace's path may wait for another machine or program: unless every directory on the way to it
/// is on a file system of this machine's own disks or memory.
pub(crate) fn may_hang(path: &Path) -> bool {
    /// ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, ZFS, tmpfs, ramfs, overlayfs.
    const LOCAL: [u32; 9] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0xF2F5_2010,
        0xCA45_1A4E,
        0x2FC1_2FC1,
        0x0102_1994,
        0x8584_58F6,
        0x794C_7630,
    ];
    // The kernel's type of this number differs from one architecture to the next; its 32 bits are the same.
    let is_local = |path| rustix::fs::statfs(path).is_ok_and(|about| LOCAL.contains(&(about.f_type as u32)));
    !path.ancestors().all(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_anywhere_on_the_way_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("real/workspace")).unwrap();
        symlink(home.join("real"), home.join("above")).unwrap();
        symlink(home.join("real/workspace"), home.join("itself")).unwrap();
        let opened = |path: &str| open(&home.join(path), OFlags::RDONLY).map_err(|error| error.to_string());
        assert!(opened("real/workspace").is_ok());
        assert_eq!(opened("above/workspace").unwrap_err(), LINKED);
        assert_eq!(opened("itself").unwrap_err(), LINKED);
        assert_eq!(open(&home.join("none"), OFlags::PATH).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_file_systems_of_this_machine_never_hang() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!may_hang(directory.path()), "{directory:?} is not on a local file system");
        assert!(may_hang(Path::new("/proc/self")));
        assert!(may_hang(&directory.path().join("missing")));
    }
}
