//! Sessions whose keyed store has changes that are not copied for other nodes. There is a file for each, written before the
//! change is recorded, so that a node that was killed and started again goes on trying.

use super::session_notes::SessionNotes;
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::SessionId;
use shellkeep_store::Survives;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The folder of the data directory with the notes.
const FOLDER: &str = "uncopied";

/// Sessions whose keyed store is to be copied again.
#[derive(Debug)]
pub(crate) struct Uncopied {
    notes: SessionNotes,
    /// Those with a task that waits to copy them.
    waiting: Mutex<HashSet<SessionId>>,
    /// A session was noted for which no task waits.
    noted: Notify,
}

impl Uncopied {
    /// Those in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let notes = SessionNotes::at(data_dir, FOLDER, Survives::Power)?;
        Ok(Self { notes, waiting: Mutex::default(), noted: Notify::new() })
    }

    /// Sessions that were noted, by this process or an earlier one.
    pub(crate) fn noted(&self) -> io::Result<Vec<SessionId>> {
        self.notes.all()
    }

    /// Notes a session that is to be copied, for whoever waits in [`Self::until_noted`].
    pub(super) async fn note(self: &Arc<Self>, id: &SessionId) {
        self.change(id, |_| true).await;
        self.noted.notify_one();
    }

    /// Returns when a session was noted.
    pub(crate) async fn until_noted(&self) {
        self.noted.notified().await;
    }

    /// A task begins to wait for another try. False if there is one already.
    pub(super) fn wait(&self, id: &SessionId) -> bool {
        lock(&self.waiting).insert(id.clone())
    }

    /// Its wait is over: a change that fails from now on is perhaps not in what it copies, and needs another task.
    pub(super) fn go(&self, id: &SessionId) {
        lock(&self.waiting).remove(id);
    }

    /// Writes the note of a session if a task waits for it, and otherwise removes it.
    pub(super) async fn save(self: &Arc<Self>, id: &SessionId) {
        let of = id.clone();
        self.change(id, move |all| lock(&all.waiting).contains(&of)).await;
    }

    /// Writes or removes a note. A thread that may block does it.
    async fn change(self: &Arc<Self>, id: &SessionId, is_noted: impl FnOnce(&Self) -> bool + Send + 'static) {
        let (all, of) = (Arc::clone(self), id.clone());
        let changing = tasks::blocking(move || all.notes.set(&of, || is_noted(&all).then(String::new)));
        if let Ok(Err(error)) = changing.await {
            tracing::warn!(session = %id, %error, "the note that a keyed store is not copied could not be changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_to_be_copied_is_known_after_a_restart() {
        let data = tempfile::TempDir::new().unwrap();
        let at = || Arc::new(Uncopied::at(data.path()).unwrap());
        let (uncopied, id) = (at(), SessionId::parse("s").unwrap());
        assert!(uncopied.wait(&id) && !uncopied.wait(&id));
        uncopied.save(&id).await;
        assert_eq!(at().noted().unwrap(), std::slice::from_ref(&id));
        // While one try succeeds, another change fails.
        uncopied.go(&id);
        assert!(uncopied.wait(&id));
        uncopied.save(&id).await;
        assert_eq!(at().noted().unwrap(), std::slice::from_ref(&id));
        uncopied.go(&id);
        uncopied.save(&id).await;
        assert_eq!(at().noted().unwrap(), []);
        uncopied.note(&id).await;
        uncopied.until_noted().await;
        assert_eq!(at().noted().unwrap(), [id]);
    }
}
