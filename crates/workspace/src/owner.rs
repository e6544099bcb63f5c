//! Whom files belong to. A daemon that runs as root works in workspaces of other users: what it writes there belongs to whom
//! the workspace belongs, and a workspace can be given to another user with everything in it.

use crate::root;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fchmod, fchown, fstat, mkdirat, openat, statat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Directories within each other, beyond which a tree is not given to anyone: each needs a descriptor.
const MOST_LEVELS: usize = 500;
/// To look at something and give it away, whatever it is.
const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Setuid, setgid and sticky, which a directory may have from the one that it is in.
const INHERITED: u32 = 0o7000;
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

    /// Gives away a directory that was just made in one of the owner's.
    fn take_directory(self, directory: impl AsFd, name: &[u8], is: (u64, u64)) -> Result<(), Errno> {
        match just_made(directory, name, is)? {
            Some((made, _)) => fchown(&made, Some(self.user), Some(self.group)),
            None => Ok(()),
        }
    }

    /// The same by its name, where nobody else can put something in its place. A link is given away itself.
    pub(crate) fn take_at(self, directory: impl AsFd, name: impl rustix::path::Arg) -> Result<(), Errno> {
        chownat(directory, name, Some(self.user), Some(self.group), AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Makes a directory, for an owner if it is not ours, with these permissions if they are given. The mode is that of a
/// new directory, before our umask.
pub(crate) fn make_directory(
    directory: impl AsFd,
    name: &[u8],
    mode: Mode,
    permissions: Option<u32>,
    owner: Option<Owner>,
) -> Result<(), Errno> {
    mkdirat(&directory, name, mode)?;
    if permissions.is_none() && owner.is_none() {
        return Ok(());
    }
    let made = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is = (made.st_dev, made.st_ino);
    if let Some(permissions) = permissions
        && let Some((made, found)) = just_made(&directory, name, is)?
    {
        // What it has from the directory above, such as its group, stays.
        fchmod(&made, Mode::from_raw_mode(found.st_mode & INHERITED | permissions))?;
    }
    owner.map_or(Ok(()), |owner| owner.take_directory(directory, name, is))
}

/// Opens a directory that was just made; none if something else is in its place by now: another one, or one in which
/// something is.
fn just_made(directory: impl AsFd, name: &[u8], is: (u64, u64)) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    let made = openat(directory, name, DIRECTORY, Mode::empty())?;
    let found = fstat(&made)?;
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw() && (found.st_dev, found.st_ino) == is;
    let is_empty = is_ours && Level::open(made.as_fd())?.next()?.is_none();
    Ok(is_empty.then_some((made, found)))
}

/// The user that a directory belongs to.
pub fn user_of(directory: &Path) -> io::Result<u32> {
    Ok(fstat(root::open(directory, OFlags::PATH)?)?.st_uid)
}

/// Gives a directory to a user and the group with the same number, with everything in it that belongs to its present owner;
/// what is somebody else's, or on another file system, stays so. It is closed to everybody else first. Each directory comes
/// after what is in it, so that the new owner changes nothing while we are there, and what was interrupted is done again.
/// Everything is held by a descriptor between looking at it and giving it. Links are not followed. A file of ours that has
/// names elsewhere is given to nobody, because it would be given there as well, and is an error. Needs root.
pub fn give(directory: &Path, user: u32) -> io::Result<()> {
    let top = root::open(directory, OFlags::RDONLY)?;
    let about = fstat(&top)?;
    let from = about.st_uid;
    if from == user {
        return Ok(());
    }
    fchmod(&top, Mode::RWXU)?;
    let to = Owner { user: Uid::from_raw(user), group: Gid::from_raw(user) };
    let mut levels = vec![Level::open(top.as_fd())?];
    let mut shared = Shared::default();
    while let (levels_left, Some(level)) = (levels.len(), levels.last_mut()) {
        let Some(name) = level.next()? else {
            if levels_left == 1 {
                shared.check(directory)?;
            }
            if fstat(&level.place)?.st_uid == from {
                to.take(&level.place)?;
            }
            levels.pop();
            continue;
        };
        let held = match openat(&level.place, &name, HELD, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            held => held?,
        };
        let found = fstat(&held)?;
        if found.st_dev != about.st_dev {
            continue;
        }
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            let is_ours = from == rustix::process::geteuid().as_raw();
            if found.st_uid == from && (!is_ours || shared.has_all_names(&found, &name)) {
                chownat(&held, c"", Some(to.user), Some(to.group), AtFlags::EMPTY_PATH)?;
            }
            continue;
        }
        if levels.len() >= MOST_LEVELS {
            return Err(io::Error::other(format!("there are more than {MOST_LEVELS} directories within each other")));
        }
        levels.push(Level::open(openat(&held, c".", DIRECTORY, Mode::empty())?.as_fd())?);
    }
    Ok(())
}

/// Files with several names, some of which were not found yet: how many were, and one of them.
#[derive(Default)]
struct Shared {
    found: HashMap<u64, (u64, CString)>,
}

impl Shared {
    /// Whether this is the last name of a file.
    fn has_all_names(&mut self, about: &Stat, name: &CString) -> bool {
        let (found, _) = self.found.entry(about.st_ino).or_insert_with(|| (0, name.clone()));
        *found += 1;
        let is_last = *found >= about.st_nlink;
        if is_last {
            self.found.remove(&about.st_ino);
        }
        is_last
    }

    /// An error if there is a file with a name elsewhere.
    fn check(&self, directory: &Path) -> io::Result<()> {
        let Some((_, name)) = self.found.values().next() else { return Ok(()) };
        let (name, place) = (name.to_string_lossy(), directory.display());
        Err(io::Error::other(format!(
            "'{name}' in {place} is a file that has other names outside of it (hard links), which would be given away too; put \
             a copy in its place (`find {place} -type f -links +1` finds such files)"
        )))
    }
}

/// A directory that is being given away.
struct Level {
    place: OwnedFd,
    entries: Dir,
}

impl Level {
    fn open(place: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self { place: rustix::io::fcntl_dupfd_cloexec(place, 0)?, entries: Dir::read_from(place)? })
    }

    fn next(&mut self) -> Result<Option<CString>, Errno> {
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

    /// In a session of root's, such a link can be made to anything.
    #[test]
    fn a_file_with_a_name_elsewhere_is_not_given() {
        if !is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("w/a")).unwrap();
        for file in ["store", "w/own"] {
            fs::write(at(file), "x").unwrap();
        }
        fs::hard_link(at("w/own"), at("w/a/same")).unwrap();
        fs::hard_link(at("store"), at("w/a/x")).unwrap();
        fs::hard_link(at("store"), at("w/a/y")).unwrap();
        let user = |name: &str| at(name).metadata().unwrap().uid();
        for _ in 0..2 {
            let why = give(&at("w"), SOMEBODY).unwrap_err().to_string();
            assert!(why.contains("hard links") && why.contains("-links +1"), "{why}");
            assert_eq!((user("store"), user("w")), (0, 0));
        }
        fs::remove_file(at("w/a/x")).unwrap();
        fs::remove_file(at("w/a/y")).unwrap();
        give(&at("w"), SOMEBODY).unwrap();
        assert_eq!([user("store"), user("w"), user("w/own"), user("w/a/same")], [0, SOMEBODY, SOMEBODY, SOMEBODY]);
        // What was a user's is given back, wherever else it is: only its own files have names elsewhere.
        fs::hard_link(at("w/own"), at("elsewhere")).unwrap();
        give(&at("w"), 0).unwrap();
        assert_eq!((user("w"), user("elsewhere")), (0, 0));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_not_given() {
        if !is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let top = home.path().join("w");
        fs::create_dir_all(top.join("d/".repeat(MOST_LEVELS + 1))).unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(give(&top, SOMEBODY).unwrap_err().to_string().contains("within each other"));
        // Its owner is the old one, so that it is tried again, and so is that of what we were in. It was closed first.
        assert_eq!((user_of(&top).unwrap(), user_of(&top.join("d")).unwrap()), (0, 0));
        assert_eq!(top.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn only_the_directory_that_was_made_is_given() {
        if !is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let above = root::open(home.path(), OFlags::RDONLY).unwrap();
        let owner = Owner { user: Uid::from_raw(SOMEBODY), group: Gid::from_raw(SOMEBODY) };
        make_directory(&above, b"made", Mode::RWXU, None, Some(owner)).unwrap();
        assert_eq!(user_of(&at("made")).unwrap(), SOMEBODY);
        assert_eq!(make_directory(&above, b"made", Mode::RWXU, None, Some(owner)), Err(Errno::EXIST));
        // What was made is moved away, and something of ours is in its place.
        fs::create_dir(at("asked")).unwrap();
        let is = fs::metadata(at("asked")).map(|about| (about.dev(), about.ino())).unwrap();
        fs::rename(at("asked"), at("away")).unwrap();
        fs::create_dir(at("asked")).unwrap();
        owner.take_directory(&above, b"asked", is).unwrap();
        assert_eq!(user_of(&at("asked")).unwrap(), 0);
        // The same one, with something in it.
        fs::write(at("away/file"), "x").unwrap();
        owner.take_directory(&above, b"away", is).unwrap();
        assert_eq!(user_of(&at("away")).unwrap(), 0);
        fs::remove_file(at("away/file")).unwrap();
        owner.take_directory(&above, b"away", is).unwrap();
        assert_eq!(user_of(&at("away")).unwrap(), SOMEBODY);
    }
}
