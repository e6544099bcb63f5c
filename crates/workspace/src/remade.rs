//! A workspace that was removed, created again so that its files can be restored into it.

use std::io;
use std::path::{Path, PathBuf};

/// Directories that were created. Those that are still empty are removed again, unless they are kept.
#[derive(Debug)]
pub struct Remade {
    /// The deepest first.
    made: Vec<PathBuf>,
}

impl Remade {
    /// Creates a workspace that is not there, with the directories above it; `None` if something is there.
    pub fn workspace(path: &Path) -> io::Result<Option<Self>> {
        let mut remade = Self { made: Vec::new() };
        for directory in path.ancestors() {
            match directory.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => remade.made.push(directory.to_owned()),
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        // What cannot be created leaves nothing behind.
        remade.made.iter().rev().try_for_each(std::fs::create_dir)?;
        Ok((!remade.made.is_empty()).then_some(remade))
    }

    /// They stay, also if they are empty.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for Remade {
    fn drop(&mut self) {
        for directory in &self.made {
            // One with something in it stays.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_was_created_and_stays_empty_is_removed_again() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("a/b");
        drop(Remade::workspace(&workspace).unwrap().unwrap());
        assert!(!home.path().join("a").exists());
        Remade::workspace(&workspace).unwrap().unwrap().keep();
        assert!(workspace.is_dir() && Remade::workspace(&workspace).unwrap().is_none());
        let used = home.path().join("c/d");
        let remade = Remade::workspace(&used).unwrap().unwrap();
        fs::write(used.join("file"), "x").unwrap();
        drop(remade);
        assert!(used.join("file").exists());
    }

    #[test]
    fn a_link_or_a_file_in_the_way_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        symlink(home.path().join("none"), &link).unwrap();
        assert!(Remade::workspace(&link).unwrap().is_none());
        assert!(Remade::workspace(&link.join("below")).is_err());
        assert!(!home.path().join("none").exists() && link.is_symlink());
    }
}
