//! Whose groups are whose, for the next daemon: in files of the host, not in an attribute of the group. Where processes of
//! parties have the daemon's user, they can set the attributes of their groups, and so leave what they are charged with to
//! another party.

use crate::cgroup::Group;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The owner's alone.
const PRIVATE: u32 = 0o700;

/// One file for each group, with its inode and the name of its party. A group that is made again has another inode.
#[derive(Debug, Default)]
pub(super) struct PartyNotes {
    directory: OnceLock<PathBuf>,
}

impl PartyNotes {
    /// Where they are. Until that is said there are none.
    pub(super) fn keep_in(&self, directory: PathBuf) {
        let _ = self.directory.set(directory);
    }

    /// Notes that a group with this number is of this party.
    pub(super) fn put(&self, number: u64, group: &Group, name: &str) {
        let Some(directory) = self.directory.get() else { return };
        let path = directory.join(number.to_string());
        let noted = inode(group.path()).and_then(|inode| note(&path, &format!("{inode} {name}")));
        if noted.is_err() {
            // Nobody's is better than another's.
            let _ = fs::remove_file(&path);
        }
    }

    /// Whose the group with this number is, if that was noted.
    pub(super) fn name(&self, number: u64, group: &Path) -> Option<String> {
        let text = fs::read_to_string(self.directory.get()?.join(number.to_string())).ok()?;
        let (noted, name) = text.split_once(' ')?;
        (noted == inode(group).ok()?.to_string()).then(|| name.to_owned())
    }
}

fn inode(group: &Path) -> io::Result<u64> {
    Ok(fs::metadata(group)?.ino())
}

fn note(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|noted| noted == text.as_bytes()) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(PRIVATE).create(directory)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_about_one_group_and_not_about_the_next_of_its_number() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("of-1");
        fs::create_dir(&path).unwrap();
        let group = Group::at(path.clone());
        let notes = PartyNotes::default();
        notes.put(1, &group, "ann");
        assert_eq!(notes.name(1, &path), None, "nobody said where");
        let kept = home.path().join("data/parties");
        notes.keep_in(kept.clone());
        notes.put(1, &group, "ann");
        notes.put(1, &group, "bob");
        let next = PartyNotes::default();
        next.keep_in(kept.clone());
        assert_eq!(next.name(1, &path).as_deref(), Some("bob"));
        assert_eq!(next.name(2, &path), None);
        // Both exist at the same time, so they are two.
        fs::create_dir(home.path().join("other")).unwrap();
        fs::rename(&path, home.path().join("gone")).unwrap();
        fs::rename(home.path().join("other"), &path).unwrap();
        assert_eq!(next.name(1, &path), None);
        // What cannot be noted is nobody's.
        fs::create_dir(kept.join("1.new")).unwrap();
        notes.put(1, &group, "eve");
        assert!(!kept.join("1").exists());
    }
}
