//! Notes about sessions that a node finds again after a restart: a folder of the data directory with a file for each.

use crate::sync::lock;
use shellkeep_session::SessionId;
use shellkeep_store::Survives;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A folder with notes.
#[derive(Debug)]
pub(super) struct SessionNotes {
    folder: PathBuf,
    /// What it survives that there is a note. What is in one may be lost with the power.
    survives: Survives,
    /// Held while a note is written or removed.
    writing: Mutex<()>,
}

impl SessionNotes {
    /// The folder of this name in a data directory.
    pub(super) fn at(data_dir: &Path, name: &str, survives: Survives) -> io::Result<Self> {
        let folder = data_dir.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, survives, writing: Mutex::default() })
    }

    /// The sessions that are noted.
    pub(super) fn all(&self) -> io::Result<Vec<SessionId>> {
        let names = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        Ok(names.iter().filter_map(|name| SessionId::parse(name.to_str()?).ok()).collect())
    }

    /// What a note says.
    pub(super) fn text(&self, id: &SessionId) -> io::Result<String> {
        fs::read_to_string(self.folder.join(id.as_str()))
    }

    /// Adds to a note, or begins one. Blocks. It survives a crash, and no loss of power.
    pub(super) fn append(&self, id: &SessionId, text: &str) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let mut file = File::options().create(true).append(true).open(self.folder.join(id.as_str()))?;
        let length = file.metadata()?.len();
        // What is added next must not follow a part of this.
        file.write_all(text.as_bytes()).inspect_err(|_| drop(file.set_len(length)))
    }

    /// Writes or removes a note. Blocks. `note` is asked in turn, so that the latest is written, whoever asked first.
    pub(super) fn set(&self, id: &SessionId, note: impl FnOnce() -> Option<String>) -> io::Result<()> {
        let _turn = lock(&self.writing);
        let file = self.folder.join(id.as_str());
        let Some(note) = note() else {
            return fs::remove_file(file).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            });
        };
        // No session is named like this: an id does not begin with a dot.
        let new = self.folder.join(format!(".{id}"));
        fs::write(&new, note)?;
        fs::rename(&new, file)?;
        match self.survives {
            Survives::Crash => Ok(()),
            Survives::Power => File::open(&self.folder)?.sync_all(),
        }
    }
}
