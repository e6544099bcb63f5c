//! Sessions that this node made while the shared store was away, and that the store has not confirmed since. It may say of their
//! names that a session was removed: that was an earlier one. There is a file for each, so that a node that was restarted knows it
//! too.

use crate::sync::lock;
use crate::tasks;
use shellkeep_session::SessionId;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The folder of the data directory with the notes.
const FOLDER: &str = "alone";

/// Sessions that this node made without the shared store.
#[derive(Debug)]
pub(super) struct MadeAlone {
    folder: PathBuf,
    ids: Mutex<HashSet<SessionId>>,
    /// Held while a note is written or removed.
    writing: Mutex<()>,
}

impl MadeAlone {
    /// What is noted in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let names = std::fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        let ids = names.iter().filter_map(|name| SessionId::parse(name.to_str()?).ok()).collect();
        Ok(Self { folder, ids: Mutex::new(ids), writing: Mutex::default() })
    }

    /// Whether the shared store does not know of a session, although it may know of an earlier one of its name.
    pub(super) fn contains(&self, id: &SessionId) -> bool {
        lock(&self.ids).contains(id)
    }

    /// The session is about to be made. Returns when that is noted.
    pub(super) async fn note(self: &Arc<Self>, id: &SessionId) {
        if lock(&self.ids).insert(id.clone()) {
            self.save(id).await;
        }
    }

    /// The shared store knows the session, or it is gone.
    pub(super) async fn forget(self: &Arc<Self>, id: &SessionId) {
        if lock(&self.ids).remove(id) {
            self.save(id).await;
        }
    }

    /// Writes or removes the note of a session, on a thread that may block. What it finds is the latest, whoever asked first.
    async fn save(self: &Arc<Self>, id: &SessionId) {
        let (all, of) = (Arc::clone(self), id.clone());
        let saving = tasks::blocking(move || {
            let _turn = lock(&all.writing);
            let note = all.folder.join(of.as_str());
            if all.contains(&of) {
                File::create(note)?;
                return File::open(&all.folder)?.sync_all();
            }
            std::fs::remove_file(note).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
        });
        if let Ok(Err(error)) = saving.await {
            tracing::warn!(session = %id, %error, "the note that the shared store does not know a session could not be changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_made_alone_is_known_after_a_restart() {
        let data = tempfile::TempDir::new().unwrap();
        let at = || Arc::new(MadeAlone::at(data.path()).unwrap());
        let (made, id) = (at(), SessionId::parse("s").unwrap());
        assert!(!made.contains(&id));
        made.note(&id).await;
        assert!(made.contains(&id) && at().contains(&id));
        made.forget(&id).await;
        assert!(!made.contains(&id) && !at().contains(&id));
    }
}
