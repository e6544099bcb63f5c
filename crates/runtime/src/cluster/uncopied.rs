//! Sessions whose keyed store has changes that are not copied for other nodes. There is a file for each, written before the
//! change is recorded, so that a node that was killed and started again goes on trying.

use crate::sync::lock;
use crate::tasks;
use shellkeep_session::SessionId;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The folder of the data directory with the notes.
const FOLDER: &str = "uncopied";

/// Sessions whose keyed store is to be copied again.
#[derive(Debug)]
pub(crate) struct Uncopied {
    folder: PathBuf,
    /// Those with a task that waits to copy them.
    waiting: Mutex<HashSet<SessionId>>,
    /// Held while a note is written or removed.
    writing: Mutex<()>,
    /// A session was noted for which no task waits.
    noted: Notify,
}

impl Uncopied {
    /// Those in a data directory.
    pub(super) fn at(data_dir: &Path) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, waiting: Mutex::default(), writing: Mutex::default(), noted: Notify::new() })
    }

    /// Sessions that were noted, by this process or an earlier one.
    pub(crate) fn noted(&self) -> io::Result<Vec<SessionId>> {
        let names = std::fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<_> = names.collect::<io::Result<_>>()?;
        Ok(names.iter().filter_map(|name| SessionId::parse(name.to_str()?).ok()).collect())
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

    /// Writes the note of a session if a task waits for it, and otherwise removes it. What it finds is the latest, whoever asked
    /// first.
    pub(super) async fn save(self: &Arc<Self>, id: &SessionId) {
        let of = id.clone();
        self.change(id, move |all| lock(&all.waiting).contains(&of)).await;
    }

    /// Writes or removes a note. A thread that may block does it.
    async fn change(self: &Arc<Self>, id: &SessionId, is_noted: impl FnOnce(&Self) -> bool + Send + 'static) {
        let (all, note) = (Arc::clone(self), self.folder.join(id.as_str()));
        let changing = tasks::blocking(move || {
            let _turn = lock(&all.writing);
            if is_noted(&all) {
                File::create(note)?;
                return File::open(&all.folder)?.sync_all();
            }
            std::fs::remove_file(note).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
        });
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
