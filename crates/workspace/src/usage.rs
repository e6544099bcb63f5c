//! How much of the disk a directory takes.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What the system calls a block, whatever the file system's own are.
const BLOCK: u64 = 512;

/// The bytes on disk of everything below a directory, each file once however many names it has. What cannot be read
/// counts as nothing; links are not followed.
pub fn usage(directory: &Path) -> u64 {
    let mut total = 0;
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.nlink() > 1 && !metadata.is_dir() && !seen.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            total += metadata.blocks() * BLOCK;
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
        let once = usage(home.path());
        assert!((100_000..200_000).contains(&once), "{once}");
        std::fs::hard_link(below.join("file"), home.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", home.path().join("out")).unwrap();
        assert!(usage(home.path()) < once + 50_000);
        assert_eq!(usage(&home.path().join("nothing")), 0);
    }
}
