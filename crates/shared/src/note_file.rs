//! A small file of this node with what it knows of others. It is written without the lock under which that changes: everybody
//! takes the lock who works with the tier, and a disk may be slow. What could not be written is tried again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file.
#[derive(Debug, Default)]
pub(crate) struct NoteFile {
    /// None if nothing is kept.
    path: Option<PathBuf>,
    /// It lacks what changed last.
    is_behind: bool,
    /// It could not be written when that was tried last.
    has_failed: Arc<AtomicBool>,
}

/// What is to be written, without the lock.
pub(crate) struct Unwritten {
    path: PathBuf,
    text: String,
    has_failed: Arc<AtomicBool>,
}

impl NoteFile {
    /// A file that may not exist.
    pub(crate) fn at(path: Option<PathBuf>) -> Self {
        Self { path, ..Self::default() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What is in it. Nothing if it does not exist.
    pub(crate) fn read(&self) -> String {
        self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// What is to be in it has changed.
    pub(crate) fn changed(&mut self) {
        self.is_behind = true;
    }

    /// It is time to try again what failed. Not called all the time: a disk that is full stays so for a while.
    pub(crate) fn try_again(&mut self) {
        self.is_behind |= self.has_failed.load(Ordering::Relaxed);
    }

    /// What is to be written, once after each change and for each time that it is tried again.
    pub(crate) fn unwritten(&mut self, text: impl FnOnce() -> String) -> Option<Unwritten> {
        let path = self.path.clone().filter(|_| std::mem::take(&mut self.is_behind))?;
        Some(Unwritten { path, text: text(), has_failed: Arc::clone(&self.has_failed) })
    }
}

impl Unwritten {
    pub(crate) fn write(self) {
        let Self { path, text, has_failed } = self;
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        let failed_before = has_failed.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !failed_before
        {
            tracing::warn!(file = %path.display(), %error, "what is known of other nodes cannot be written; it is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: what could not be written was taken for written, and lost with the next start.
    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("later").join("nodes");
        let mut file = NoteFile::at(Some(path.clone()));
        let write = |file: &mut NoteFile| file.unwritten(|| "n2".to_owned()).map(Unwritten::write).is_some();
        assert!(!write(&mut file), "nothing has changed");
        file.changed();
        assert!(write(&mut file) && !write(&mut file), "it fails, once");
        std::fs::create_dir(folder.path().join("later")).unwrap();
        file.try_again();
        assert!(write(&mut file));
        assert_eq!(NoteFile::at(Some(path)).read(), "n2");
        file.try_again();
        assert!(!write(&mut file), "it is written");
        assert_eq!(std::fs::read_dir(folder.path().join("later")).unwrap().count(), 1);
    }
}
