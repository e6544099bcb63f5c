//! Sessions that this node made without asking the shared store for their names, because that was away, and that the store has not
//! confirmed since. It may say of their names that a session was removed: that was an earlier one. There is a file for each, so
//! that a node that was restarted knows it too.

use super::session_notes::SessionNotes;
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::SessionId;
use shellkeep_store::Survives;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The folder of the data directory with the notes.
const FOLDER: &str = "alone";

/// Sessions that this node made without the shared store.
#[derive(Debug)]
pub(crate) struct MadeAlone {
    notes: SessionNotes,
    ids: Mutex<HashSet<SessionId>>,
}

impl MadeAlone {
    /// What is noted in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let notes = SessionNotes::at(data_dir, FOLDER, Survives::Power)?;
        let ids = notes.all()?.into_iter().collect();
        Ok(Self { notes, ids: Mutex::new(ids) })
    }

    /// Whether the shared store does not know of a session, although it may know of an earlier one of its name.
    pub(super) fn contains(&self, id: &SessionId) -> bool {
        lock(&self.ids).contains(id)
    }

    /// The session is about to be made. Returns when that is noted.
    pub(crate) async fn note(self: &Arc<Self>, id: &SessionId) {
        if lock(&self.ids).insert(id.clone()) {
            self.save(id).await;
        }
    }

    /// The shared store knows the session, or it is gone.
    pub(crate) async fn forget(self: &Arc<Self>, id: &SessionId) {
        if lock(&self.ids).remove(id) {
            self.save(id).await;
        }
    }

    /// Writes or removes the note of a session, on a thread that may block.
    async fn save(self: &Arc<Self>, id: &SessionId) {
        let (all, of) = (Arc::clone(self), id.clone());
        let saving = tasks::blocking(move || all.notes.set(&of, || all.contains(&of).then(String::new)));
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
