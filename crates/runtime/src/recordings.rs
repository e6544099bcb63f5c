//! The recordings of sessions, read on blocking threads after the store has written the session's records. The
//! recording of a session that its agent deleted is read in the same way.

use crate::data_dir::DataDir;
use crate::names::{Names, not_found};
use crate::ops::{OpError, RecordError, SearchNext};
use crate::stored::read_error;
use crate::work::{SEARCH_TIME, Work};
use shellkeep_record::{Budget, ReadError, Recording, SessionKey};
use shellkeep_session::{SessionId, Timestamp};
use shellkeep_store::Store;
use shellkeep_store::deleted::{self, DeletedSession};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The recordings of all sessions.
pub(crate) struct Recordings {
    store: Store,
    names: Arc<Names>,
    data_dir: Arc<DataDir>,
    work: Arc<Work>,
}

/// With whom a reader takes turns.
enum Turns {
    /// With those that read pages.
    Page,
    /// With those that search, for this long at most.
    Search(Option<Duration>),
    /// With those that search, and is never refused its turn.
    Stream,
}

impl Recordings {
    /// What `store` records.
    pub(crate) fn new(store: Store, names: Arc<Names>, data_dir: Arc<DataDir>, work: Arc<Work>) -> Self {
        Self { store, names, data_dir, work }
    }

    /// A deleted session by the name under which it is kept. A session that exists comes first.
    pub(crate) fn deleted(&self, id: &SessionId) -> Option<DeletedSession> {
        if !deleted::is_name(id) || self.names.contains(id) {
            return None;
        }
        deleted::find(self.data_dir.root(), id)
    }

    /// The directory of a session's recording.
    pub(crate) fn directory(&self, id: &SessionId) -> PathBuf {
        match self.deleted(id) {
            Some(deleted) => deleted::recording(self.data_dir.root(), &deleted.kept_as),
            None => self.store.recording(id),
        }
    }

    /// The key that proves a session's recording. A deleted session keeps the key of its former name.
    pub(crate) fn key(&self, id: &SessionId) -> SessionKey {
        match self.deleted(id) {
            Some(deleted) => self.store.session_key(&deleted.session_id),
            None => self.store.session_key(id),
        }
    }

    /// The directory of the outputs that a session's lines name, and the name it had when they were signed.
    pub(crate) fn recorded_as(&self, id: &SessionId) -> (PathBuf, SessionId) {
        match self.deleted(id) {
            Some(deleted) => (deleted::outputs(self.data_dir.root(), &deleted.kept_as), deleted.session_id),
            None => (self.data_dir.outputs(id).to_path_buf(), id.clone()),
        }
    }

    /// Makes the store write and sign a session's records.
    pub(crate) async fn seal(&self, id: &SessionId) -> Result<(), OpError> {
        self.store.seal(id).await.map_err(|error| read_error(id, error))
    }

    /// Makes the store write a session's records. Returns where its recording is.
    pub(crate) async fn flush(&self, id: &SessionId) -> Result<PathBuf, OpError> {
        self.store.flush_about(id).await.map_err(|error| read_error(id, error))?;
        Ok(self.directory(id))
    }

    /// Reads a session's recording, with everything in it that has happened until now.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, Turns::Search(None), read).await
    }

    /// The same, for no longer than a search may take.
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, Turns::Search(Some(SEARCH_TIME)), read).await
    }

    /// Reads a page: one that a search fills if `searched`, and else one that needs no longer than its lines.
    pub(crate) async fn page<T: Send + 'static>(
        &self,
        id: &SessionId,
        searched: bool,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, if searched { Turns::Search(Some(SEARCH_TIME)) } else { Turns::Page }, read).await
    }

    /// Searches for a stream of events, which is never refused its turn.
    pub(crate) async fn search_in_stream<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, Turns::Stream, read).await
    }

    /// Does something else that keeps a processor busy for a reader of a session, when it is the turn of the session's agent.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        id: &SessionId,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OpError> {
        self.work.in_turn(self.names.agent_of(id).as_deref(), None, |_| job()).await
    }

    async fn read_within<T: Send + 'static>(
        &self,
        id: &SessionId,
        turns: Turns,
        read: impl FnOnce(&Recording) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        let asked = Timestamp::now();
        let (agent, directory) = (self.names.agent_of(id), self.flush(id).await?);
        let reading = move |budget: &Budget| read(&Recording::open(&directory)?.within(budget.clone()));
        let read = match turns {
            Turns::Page => self.work.page(agent.as_deref(), reading).await?,
            Turns::Search(time) => self.work.short(agent.as_deref(), time, reading).await?,
            Turns::Stream => self.work.in_turn(agent.as_deref(), Some(SEARCH_TIME), reading).await?,
        };
        match read {
            Ok(read) => Ok(read),
            Err(error) => Err(self.refused(id, asked, error).await),
        }
    }

    /// A recording that cannot be read, or a session that was deleted since `asked`, even if its name is used again.
    async fn refused(&self, id: &SessionId, asked: Timestamp, error: ReadError) -> OpError {
        let is_same = match self.store.load(id).await {
            Ok(found) => found.is_some_and(|state| state.meta.created_at < asked),
            Err(_) => true,
        };
        let is_there = self.deleted(id).is_some() || (self.names.contains(id) && is_same);
        if is_there { unreadable(id, error) } else { not_found(id) }
    }
}

/// A recording that cannot be read, as callers see it.
pub(crate) fn unreadable(id: &SessionId, error: ReadError) -> OpError {
    match error {
        ReadError::SearchSpent { seq } => {
            OpError::Record(RecordError::SearchSpent { limit: SEARCH_TIME.as_secs(), next: SearchNext::After(seq) })
        }
        error => OpError::Record(RecordError::Unreadable { session_id: id.to_string(), reason: error.to_string() }),
    }
}
