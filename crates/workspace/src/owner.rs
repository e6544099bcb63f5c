//! Whom files belong to. A daemon that runs as root works in workspaces of other users: what it writes there belongs to whom
//! the workspace belongs, and a workspace can be given to another user with everything in it.

use crate::root;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchmod, fchown, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Directories within each other, beyond which a tree is not given to anyone: each needs a descriptor.
const MOST_LEVELS: usize = 500;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A user and a group that new files are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    user: Uid,
    group: Gid,
}

impl Owner {
    /// Whom new files in this workspace are given to; none if they are ours to keep. Only root can give files away.
    pub(crate) fn of(workspace: impl AsFd) -> io::Result<Option<Self>> {
        let own = rustix::process::geteuid();
        let found = fstat(workspace)?;
        let is_others = own.is_root() && found.st_uid != own.as_raw();
        Ok(is_others.then(|| Self { user: Uid::from_raw(found.st_uid), group: Gid::from_raw(found.st_gid) }))
    }

    /// Gives away what was just made: a file that has no name yet, or that nobody else can reach.
    pub(crate) fn take(self, file: impl AsFd) -> io::Result<()> {
        Ok(fchown(file, Some(self.user), Some(self.group))?)
    }

    /// Gives away a directory that was just made in one of the owner's, unless something else is in its place by now.
    pub(crate) fn take_directory(self, directory: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        let made = openat(directory, name, DIRECTORY, Mode::empty())?;
        if fstat(&made)?.st_uid == rustix::process::geteuid().as_raw() {
            fchown(&made, Some(self.user), Some(self.group))?;
        }
        Ok(())
    }

    /// The same by its name, where nobody else can put something in its place. A link is given away itself.
    pub(crate) fn take_at(self, directory: impl AsFd, name: impl rustix::path::Arg) -> Result<(), Errno> {
        chownat(directory, name, Some(self.user), Some(self.group), AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// The user that a directory belongs to.
pub fn user_of(directory: &Path) -> io::Result<u32> {
    Ok(fstat(root::open(directory, OFlags::PATH)?)?.st_uid)
}

/// Gives a directory to a user and the group with the same number, with everything in it that belongs to its present owner;
/// what is somebody else's, or on another file system, stays so. The directory itself comes last, so that what was
/// interrupted is done again, and is closed to everybody else. Links are not followed. Needs root.
pub fn give(directory: &Path, user: u32) -> io::Result<()> {
    let top = root::open(directory, OFlags::RDONLY)?;
    let about = fstat(&top)?;
    let from = about.st_uid;
    if from == user {
        return Ok(());
    }
    let to = Owner { user: Uid::from_raw(user), group: Gid::from_raw(user) };
    let mut levels = vec![Level::open(top.as_fd())?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.next()? else {
            levels.pop();
            continue;
        };
        let found = match statat(&level.place, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        if found.st_dev != about.st_dev {
            continue;
        }
        if found.st_uid == from {
            to.take_at(&level.place, &name)?;
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let below = match openat(&level.place, &name, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                below => Level::open(below?.as_fd())?,
            };
            if levels.len() >= MOST_LEVELS {
                return Err(io::Error::other(format!(
                    "there are more than {MOST_LEVELS} directories within each other"
                )));
            }
            levels.push(below);
        }
    }
    fchmod(&top, Mode::RWXU)?;
    to.take(top)
}

/// A directory that is being given away.
struct Level {
    place: OwnedFd,
    entries: Dir,
}

impl Level {
    fn open(place: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { place: place.try_clone_to_owned()?, entries: Dir::read_from(place)? })
    }

    fn next(&mut self) -> io::Result<Option<CString>> {
        loop {
            let Some(entry) = self.entries.read() else { return Ok(None) };
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(Some(entry.file_name().to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    const SOMEBODY: u32 = 200_000;

    /// Giving files away needs root. As another user there is nothing to test.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn everything_of_its_owner_is_given_and_nothing_else() {
        if !is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("w/a/b")).unwrap();
        for file in ["outside", "w/file", "w/a/b/deep", "w/a/theirs"] {
            fs::write(at(file), "x").unwrap();
        }
        chown(at("w/a/theirs"), Some(SOMEBODY + 1), None).unwrap();
        symlink(at("outside"), at("w/link")).unwrap();
        symlink(home.path(), at("w/a/up")).unwrap();
        fs::set_permissions(at("w"), fs::Permissions::from_mode(0o755)).unwrap();
        give(&at("w"), SOMEBODY).unwrap();
        assert_eq!(at("w").metadata().unwrap().mode() & 0o777, 0o700);
        let user = |name: &str| at(name).symlink_metadata().unwrap().uid();
        for given in ["w", "w/file", "w/a", "w/a/b", "w/a/b/deep", "w/link", "w/a/up"] {
            assert_eq!(user(given), SOMEBODY, "{given}");
        }
        assert_eq!((user("outside"), user("w/a/theirs"), user("")), (0, SOMEBODY + 1, 0));
        assert_eq!(user_of(&at("w")).unwrap(), SOMEBODY);
        symlink(at("w"), at("way")).unwrap();
        assert!(give(&at("way"), 0).is_err());
    }

    #[test]
    fn a_tree_that_is_too_deep_is_not_given() {
        if !is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("w").join("d/".repeat(MOST_LEVELS + 1))).unwrap();
        assert!(give(&home.path().join("w"), SOMEBODY).unwrap_err().to_string().contains("within each other"));
        // Its owner is the old one, so that it is tried again.
        assert_eq!(user_of(&home.path().join("w")).unwrap(), 0);
    }
}
