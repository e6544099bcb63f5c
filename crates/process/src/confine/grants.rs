//! Which paths a confined process may read. A rule covers a whole tree and nothing can be taken out of it again, so a tree
//! that contains something hidden is granted entry by entry, without it.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The system: programs, libraries and their data. Not in it: homes, `/tmp`, `/dev`, mounts, and what daemons keep in
/// `/var` and `/run`.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    "/var/lib/dpkg",
    "/var/lib/apt",
    "/var/lib/rpm",
    "/var/cache/apt",
    "/var/cache/fontconfig",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];

/// What others may do with a file that is not closed to them: read it; and with a directory: also pass it.
const READ_BY_OTHERS: u32 = 0o004;
const PASSED_BY_OTHERS: u32 = 0o001;

/// Devices that every program may use. Terminals are not among them: another session may have one open.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Where named semaphores and shared memory are. Its entries are not listed, but one can open those whose name one knows.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// The system, without what is hidden. Paths are real ones: a rule holds for what is behind a link.
pub(super) fn system(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut granted: Vec<PathBuf> =
        SYSTEM.iter().flat_map(|root| Path::new(root).canonicalize()).flat_map(|root| without(&root, hidden)).collect();
    // `/bin` is often `/usr/bin`.
    granted.sort();
    granted.dedup_by(|path, before| path.starts_with(before));
    granted
}

/// A tree without what is hidden: itself, or those of its entries that contain nothing hidden.
pub(super) fn without(tree: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|path| tree.starts_with(path)) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(tree)) {
        return vec![tree.to_owned()];
    }
    let entries = std::fs::read_dir(tree).into_iter().flatten().flatten();
    entries.filter(|entry| !is_link(entry)).flat_map(|entry| without(&entry.path(), hidden)).collect()
}

/// Whether a file or directory with these permissions is closed to other users.
pub(super) fn is_closed(mode: u32, is_directory: bool) -> bool {
    let wanted = if is_directory { READ_BY_OTHERS | PASSED_BY_OTHERS } else { READ_BY_OTHERS };
    mode & wanted != wanted
}

/// A rule for a link would be one for what it names, which may be hidden.
fn is_link(entry: &std::fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_symlink())
}

/// Whether something is not there for us, and not only out of reach for want of descriptors or memory. A link in its place is
/// something else.
pub(super) fn is_away(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Opens what is at a path of the system, to grant it.
pub(super) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens what is at a real path, to grant it; never through a symbolic link. A link there was put in its place later, by whoever
/// may write to a directory above it, such as a session to one that it shares with others, and a rule for it would be one for
/// whatever it names. So what was opened is at this path, and who looks at the path knows what is granted.
pub(super) fn open_real(path: &Path) -> io::Result<OwnedFd> {
    match openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Some containers forbid it.
        Err(Errno::NOSYS | Errno::PERM) => Ok(walk(path)?),
        opened => Ok(opened?),
    }
}

/// The same, one name after the other.
fn walk(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = open(if path.is_absolute() { "/" } else { "." }, flags, Mode::empty())?;
    for name in path.components().filter(|name| !matches!(name, Component::RootDir | Component::CurDir)) {
        at = openat(&at, name.as_os_str(), flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(at)
}

/// Whether what was opened is a directory.
pub(super) fn is_directory(opened: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(opened)?.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_granted_without_what_is_hidden_in_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["a/x", "a/secret/deep", "b", "secretive"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("a/secret"), at("link")).unwrap();
        let sorted = |mut paths: Vec<PathBuf>| {
            paths.sort();
            paths
        };
        let granted = |hidden: &[PathBuf]| sorted(without(root.path(), hidden));
        assert_eq!(granted(&[PathBuf::from("/none")]), [root.path()]);
        assert_eq!(granted(&[at("a/secret")]), [at("a/x"), at("b"), at("secretive")]);
        assert_eq!(granted(&[at("a/secret/deep")]), [at("a/x"), at("b"), at("secretive")]);
        assert!(granted(&[root.path().to_owned()]).is_empty());
        assert!(without(&at("a/x"), &[root.path().to_owned()]).is_empty());
    }

    /// A session put a link to the data directory where its workspace was, and the next fence granted that.
    #[test]
    fn what_has_become_a_link_is_not_opened() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(at("real/workspace")).unwrap();
        std::fs::write(at("real/file"), "").unwrap();
        symlink(at("real"), at("above")).unwrap();
        symlink(at("real/workspace"), at("real/itself")).unwrap();
        symlink(at("none"), at("dangling")).unwrap();
        let tries: [fn(&Path) -> io::Result<OwnedFd>; 2] = [open_real, |path| Ok(walk(path)?)];
        for open in tries {
            let seen = |name: &str| open(&at(name)).map_err(|error| error.raw_os_error());
            assert!(is_directory(&seen("real/workspace").unwrap()).unwrap());
            assert!(!is_directory(&seen("real/file").unwrap()).unwrap());
            for link in ["above", "above/workspace", "real/itself", "dangling", "dangling/x"] {
                assert_eq!(seen(link).unwrap_err(), Some(Errno::LOOP.raw_os_error()), "{link}");
            }
            assert_eq!(seen("none").unwrap_err(), Some(Errno::NOENT.raw_os_error()));
        }
    }

    #[test]
    fn the_system_has_no_homes_and_nothing_twice() {
        let granted = system(&[]);
        assert!(granted.contains(&PathBuf::from("/usr")) && granted.contains(&PathBuf::from("/etc")));
        assert!(!granted.iter().any(|path| path.starts_with("/usr/bin")), "{granted:?}");
        for hidden in ["/root", "/home", "/tmp", "/var/lib", "/dev"] {
            assert!(!granted.iter().any(|path| Path::new(hidden).starts_with(path)), "{hidden}: {granted:?}");
        }
    }
}
