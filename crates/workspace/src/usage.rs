//! How much of the disk a directory takes.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, open, openat, openat2, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the system calls a block, whatever the file system's own are.
const BLOCK: u64 = 512;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What is below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Files, directories and whatever else has a name.
    pub files: u64,
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, files: self.files + other.files }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), std::ops::Add::add)
    }
}

/// What everything below a directory takes, each file once however many names it has. What cannot be read counts as
/// nothing; links are not followed, also where one is put in the place of a directory while we look: how much somebody else has
/// is not to be learned here.
pub fn usage(directory: &Path) -> Usage {
    let mut total = Usage::default();
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let Ok(top) = open(directory, DIRECTORY, Mode::empty()) else { return total };
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(directory) = waiting.pop() {
        let Ok((place, entries)) = below(&top, &directory) else { continue };
        for entry in entries.flatten().filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            let Ok(about) = statat(&place, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
            if about.st_nlink > 1 && !is_directory && !seen.insert((about.st_dev, about.st_ino)) {
                continue;
            }
            total = total + Usage { bytes: u64::try_from(about.st_blocks).unwrap_or_default() * BLOCK, files: 1 };
            if is_directory {
                waiting.push(directory.join(OsStr::from_bytes(entry.file_name().to_bytes())));
            }
        }
    }
    total
}

/// Opens a directory below another one, without following links.
fn below(top: &OwnedFd, path: &Path) -> Result<(OwnedFd, Dir), Errno> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let place = match openat2(top, path, DIRECTORY, Mode::empty(), within) {
        // Kernels before 5.6 and some sandboxes: at least the last name is not a link.
        Err(Errno::NOSYS | Errno::PERM) => openat(top, path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?,
        other => other?,
    };
    let entries = Dir::read_from(&place)?;
    Ok((place, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_count_once_and_links_lead_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let below = home.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("file"), vec![1; 100_000]).unwrap();
        let Usage { bytes: once, files } = usage(home.path());
        assert!((100_000..200_000).contains(&once), "{once}");
        assert_eq!(files, 3);
        std::fs::hard_link(below.join("file"), home.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", home.path().join("out")).unwrap();
        let again = usage(home.path());
        assert!(again.bytes < once + 50_000);
        assert_eq!(again.files, 4);
        // In the place of a directory that was just seen.
        let top = open(home.path(), DIRECTORY, Mode::empty()).unwrap();
        assert!(super::below(&top, Path::new("a/b")).is_ok());
        for path in ["out", "out/share"] {
            assert_eq!(super::below(&top, Path::new(path)).unwrap_err(), Errno::LOOP, "{path}");
        }
        assert_eq!(usage(&home.path().join("nothing")), Usage::default());
    }
}
