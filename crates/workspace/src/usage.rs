//! How much of the disk a directory takes.

use crate::deep::{Descent, open_listed};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, statat};
use std::collections::HashSet;
use std::ffi::CString;
use std::path::Path;

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
/// is not to be learned here. What is moved while we look may count twice or not at all.
pub fn usage(directory: &Path) -> Usage {
    let mut count = Count::default();
    let Ok(top) = open(directory, DIRECTORY, Mode::empty()) else { return count.total };
    let mut descent = Descent::default();
    let waiting = count.entries_of(&top);
    // Without its device and inode there is no way down.
    let _ = descent.enter(top, CString::default(), waiting);
    loop {
        let Some((here, next)) = descent.next() else {
            if descent.leave() == Ok(None) {
                return count.total;
            }
            continue;
        };
        let Ok(place) = open_listed(here, &next) else { continue };
        let waiting = count.entries_of(&place);
        if !waiting.is_empty() {
            let _ = descent.enter(place, next, waiting);
        }
    }
}

/// What was counted so far.
#[derive(Default)]
struct Count {
    total: Usage,
    /// Files with several names, by device and inode.
    seen: HashSet<(u64, u64)>,
}

impl Count {
    /// Counts what is in a directory; returns the directories among that.
    fn entries_of(&mut self, place: &OwnedFd) -> Vec<CString> {
        let mut directories = Vec::new();
        let Ok(entries) = Dir::read_from(place) else { return directories };
        for entry in entries.flatten().filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            let Ok(about) = statat(place, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
            if about.st_nlink > 1 && !is_directory && !self.seen.insert((about.st_dev, about.st_ino)) {
                continue;
            }
            let bytes = u64::try_from(about.st_blocks).unwrap_or_default() * BLOCK;
            self.total = self.total + Usage { bytes, files: 1 };
            if is_directory {
                directories.push(entry.file_name().to_owned());
            }
        }
        directories
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deep::tests::nest;
    use rustix::fd::AsFd as _;

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
        assert!(open_listed(top.as_fd(), c"a").is_ok());
        assert!(open_listed(top.as_fd(), c"out").is_err());
        assert_eq!(usage(&home.path().join("nothing")), Usage::default());
    }

    /// What was below a long path was in no measurement, so an agent had as much of the disk as it wanted.
    #[test]
    fn what_is_below_a_long_path_counts() {
        for (name, levels) in [("n".repeat(250), 100), ("d".to_owned(), 5000)] {
            let home = tempfile::tempdir().unwrap();
            nest(home.path(), &name, levels);
            std::fs::rename(home.path().join(&name), home.path().join("beside")).unwrap();
            nest(home.path(), &name, levels);
            let found = usage(home.path());
            assert_eq!(found.files, 2 * (levels as u64 + 1));
            assert!(found.bytes >= 2 << 20, "{found:?}");
            crate::deep::remove_all(&home.path().join("beside")).unwrap();
            crate::deep::remove_all(&home.path().join(&name)).unwrap();
            assert_eq!(usage(home.path()), Usage::default());
        }
    }
}
