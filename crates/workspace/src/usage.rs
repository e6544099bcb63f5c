//! How much of the disk a directory takes.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What the system calls a block, whatever the file system's own are.
const BLOCK: u64 = 512;

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
/// nothing; links are not followed.
pub fn usage(directory: &Path) -> Usage {
    let mut total = Usage::default();
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.nlink() > 1 && !metadata.is_dir() && !seen.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            total = total + Usage { bytes: metadata.blocks() * BLOCK, files: 1 };
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    total
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
        assert_eq!(usage(&home.path().join("nothing")), Usage::default());
    }
}
