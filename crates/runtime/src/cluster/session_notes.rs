//! Notes about sessions that a node finds again after a restart: a folder of the data directory with an empty file for each.

use crate::sync::lock;
use shellkeep_session::SessionId;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A folder with notes.
#[derive(Debug)]
pub(super) struct SessionNotes {
    folder: PathBuf,
    /// Held while a note is written or removed.
    writing: Mutex<()>,
}

impl SessionNotes {
    /// The folder of this name in a data directory.
    pub(super) fn at(data_dir: &Path, name: &str) -> io::Result<Self> {
        let folder = data_dir.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, writing: Mutex::default() })
    }

    /// The sessions that are noted.
    pub(super) fn all(&self) -> io::Result<Vec<SessionId>> {
        let names = std::fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        Ok(names.iter().filter_map(|name| SessionId::parse(name.to_str()?).ok()).collect())
    }

    /// Writes or removes a note. Blocks. `is_noted` is asked in turn, so that the latest is written, whoever asked first.
    pub(super) fn set(&self, id: &SessionId, is_noted: impl FnOnce() -> bool) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let note = self.folder.join(id.as_str());
        if is_noted() {
            File::create(note)?;
            return File::open(&self.folder)?.sync_all();
        }
        std::fs::remove_file(note).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }
}
