//! Copies a whole workspace for a fork: everything in it, with `.git` and what checkpoints leave out. The copy is made
//! under another name and renamed at the end, so a crash leaves no half of one.
//!
//! Kept: bytes, permissions, times of last change, links, names that belong to one file, holes in files. Not kept:
//! owners, setuid, setgid and sticky bits, extended attributes. Left out and said: sockets, pipes, devices, what cannot be read. Nothing is synced:
//! a power cut shortly after may leave files of the copy empty, the original is as it was.

mod file;
mod level;
mod links;
mod shared;

pub use shared::{Copied, TopMode};

use crate::deep::remove_all;
use crate::fault::Faults;
use shared::{Job, Pair, Shared};
use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// More than these do not help: they wait for the file system's locks.
const MAX_THREADS: usize = 4;
/// What the name of an unfinished copy begins with; the copy's name follows. No checkpoint keeps such names.
const UNFINISHED: &str = ".shellkeep-copy-";

/// Copies the directory `from` to `to`, which must not be there or be empty.
pub fn workspace(from: &Path, to: &Path, top_mode: TopMode, faults: &Faults) -> io::Result<Copied> {
    let unfinished = unfinished(to)?;
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the fork's directory is not empty"));
    }
    remove(&unfinished)?;
    std::fs::create_dir(&unfinished)?;
    let mut guard = Unfinished { path: Some(unfinished.clone()) };
    let copied = copy(from, &unfinished, top_mode, faults)?;
    std::fs::rename(&unfinished, to)?;
    guard.path = None;
    Ok(copied)
}

/// Removes copies in `directory` that were not finished because the process died. Only when none is being made there.
pub fn remove_unfinished(directory: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            remove(&entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn unfinished(to: &Path) -> io::Result<PathBuf> {
    let name = to.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut marked = OsString::from(UNFINISHED);
    marked.push(name);
    Ok(to.with_file_name(marked))
}

/// Removes a directory that was copied as it was: one that its owner may not write to is opened up first.
fn remove(path: &Path) -> io::Result<()> {
    match remove_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            level::open_up(path)?;
            remove_all(path)
        }
        other => other,
    }
}

/// Removes an unfinished copy unless it was finished.
struct Unfinished {
    path: Option<PathBuf>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = remove(path);
        }
    }
}

fn copy(from: &Path, to: &Path, top_mode: TopMode, faults: &Faults) -> io::Result<Copied> {
    let root = Pair::open(from, to)?;
    let shared = Shared::new(from, to, top_mode, faults)?;
    shared.push(Job::root(root));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
    let mut total = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(&shared))).collect();
        let mut total = work(&shared);
        for other in others {
            let theirs = other.join().unwrap_or_else(|_| Err(io::Error::other("a copying thread panicked")));
            total = add(total, theirs);
        }
        total
    })?;
    total.shares_bytes = shared.has_cloned.load(Ordering::Relaxed);
    total.left_out_total = shared.told_total.load(Ordering::Relaxed);
    total.left_out = shared.told.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(total)
}

fn add(one: io::Result<Copied>, other: io::Result<Copied>) -> io::Result<Copied> {
    let (mut one, other) = (one?, other?);
    one.files += other.files;
    one.directories += other.directories;
    one.links += other.links;
    one.bytes += other.bytes;
    Ok(one)
}

/// Copies directories until there are none.
fn work(shared: &Shared<'_>) -> io::Result<Copied> {
    let mut worker = level::Worker::new(shared);
    while let Some(job) = shared.next() {
        let result = worker.directory(job);
        if result.is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        shared.done();
        result?;
    }
    Ok(worker.copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Blow, Point};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    /// A directory with a bit of everything.
    fn everything(root: &Path) {
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir(root.join("empty")).unwrap();
        fs::write(root.join(".git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
        fs::write(root.join("a/b/c/text"), "text").unwrap();
        fs::write(root.join("a/nothing"), "").unwrap();
        fs::write(root.join("a/big"), vec![7; 3 * file::BUFFER + 5]).unwrap();
        fs::write(root.join(OsStr::from_bytes(b"odd\n\xff")), "odd").unwrap();
        fs::hard_link(root.join("a/b/c/text"), root.join("same")).unwrap();
        symlink("../nowhere", root.join("a/link")).unwrap();
        symlink(root.join("a"), root.join("back")).unwrap();
        let sparse = fs::File::create(root.join("a/sparse")).unwrap();
        std::os::unix::fs::FileExt::write_at(&sparse, b"end", 50 << 20).unwrap();
        for (path, mode) in [(".git/hooks/pre-commit", 0o755), ("a/b/c/text", 0o606), ("a/b", 0o511), ("empty", 0o775)]
        {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    }

    type Seen = (u32, i64, i64, Vec<u8>);

    fn look(root: &Path) -> std::collections::BTreeMap<PathBuf, Seen> {
        let mut seen = std::collections::BTreeMap::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap).filter(|e| e.file_name() != "socket") {
                let about = entry.path().symlink_metadata().unwrap();
                let bytes = if about.is_dir() {
                    waiting.push(entry.path());
                    Vec::new()
                } else if about.is_symlink() {
                    fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()
                } else {
                    fs::read(entry.path()).unwrap()
                };
                let name = entry.path().strip_prefix(root).unwrap().to_owned();
                seen.insert(name, (about.mode(), about.mtime(), about.mtime_nsec(), bytes));
            }
        }
        seen
    }

    #[test]
    fn a_copy_is_the_same_and_its_own() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir(&from).unwrap();
        everything(&from);
        fs::set_permissions(&from, fs::Permissions::from_mode(0o755)).unwrap();
        let before = look(&from);
        let copied = workspace(&from, &to, TopMode::Same, &Faults::default()).unwrap();
        assert_eq!(look(&to), before);
        assert_eq!(look(&from), before);
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        assert_eq!(mode(&to), 0o755);
        let closed = home.path().join("closed");
        workspace(&from, &closed, TopMode::Private, &Faults::default()).unwrap();
        assert_eq!((look(&closed), mode(&closed)), (before, 0o700));
        assert_eq!((copied.files, copied.directories, copied.links), (7, 6, 2));
        let mut reasons: Vec<_> = copied.left_out.iter().map(|(path, _)| path.as_slice()).collect();
        reasons.sort_unstable();
        assert_eq!(reasons, [&b"back"[..], b"socket"]);
        let inode = |path: &str| to.join(path).metadata().unwrap().ino();
        assert_eq!(inode("same"), inode("a/b/c/text"));
        assert!(to.join("a/sparse").metadata().unwrap().blocks() < 1000);
        fs::write(to.join("same"), "other").unwrap();
        assert_eq!(fs::read(from.join("same")).unwrap(), b"text");
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_and_one_that_died_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir(&from).unwrap();
        everything(&from);
        let names = || fs::read_dir(home.path()).unwrap().count();
        let faults = Faults::default();
        for nth in 1..16 {
            faults.arm(Point::Copying, nth, 1, Blow::Full);
            assert_eq!(
                workspace(&from, &to, TopMode::Same, &faults).unwrap_err().kind(),
                io::ErrorKind::StorageFull,
                "{nth}"
            );
            assert_eq!(names(), 1, "{nth}");
        }
        faults.disarm(Point::Copying);
        let died = unfinished(&to).unwrap();
        fs::create_dir_all(died.join("half")).unwrap();
        workspace(&from, &to, TopMode::Same, &faults).unwrap();
        assert_eq!(names(), 2);
        fs::create_dir_all(died.join("half")).unwrap();
        assert_eq!(remove_unfinished(home.path()).unwrap(), 1);
        assert_eq!(workspace(&from, &to, TopMode::Same, &faults).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(look(&from), look(&to));
    }

    #[test]
    fn a_copy_inside_of_the_original_does_not_hold_itself() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "x").unwrap();
        let to = home.path().join("forks/one");
        fs::create_dir_all(&to).unwrap();
        workspace(home.path(), &to, TopMode::Same, &Faults::default()).unwrap();
        assert!(to.join("file").exists() && to.join("forks/one").exists());
        assert_eq!(fs::read_dir(to.join("forks/one")).unwrap().count(), 0);
    }
}
