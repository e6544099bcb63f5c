//! What a caller's keys started in a session, so that a retry never runs twice. A lookup costs the same however long the
//! session's history is.

use crate::backend::Backend;
use crate::error::ReadError;
use crate::requests::Lookup;
use crate::store::{Store, When};
use shellkeep_session::{SessionId, StoredResume, StoredRun};

/// The keys of one session.
#[derive(Debug)]
pub struct RequestIndex<'a> {
    store: &'a Store,
    session_id: &'a SessionId,
}

impl<'a> RequestIndex<'a> {
    /// The keys of this session.
    pub fn of(store: &'a Store, session_id: &'a SessionId) -> Self {
        Self { store, session_id }
    }

    /// The run that a key started. Waits for nothing to be written.
    pub async fn run(&self, request_id: &str) -> Result<Option<StoredRun>, ReadError> {
        let found = self
            .store
            .shared()
            .map(|shared| &shared.requests_waiting)
            .map_or(Lookup::Unknown, |waiting| waiting.find(self.session_id, request_id));
        let (about, request_id) = (self.session_id.clone(), request_id.to_owned());
        let question = move |backend: &mut dyn Backend| backend.run_by_request(&about, &request_id);
        match found {
            Lookup::Here(run) => Ok(Some(*run)),
            Lookup::InBackend => self.store.put(When::Now, question).await,
            Lookup::Unknown => self.store.ask_about(self.session_id, question).await,
        }
    }

    /// The keys of the session's runs, in no order; `None` if there are more than `most`. Waits for nothing to be written.
    pub async fn run_keys(&self, most: usize) -> Result<Option<Vec<String>>, ReadError> {
        // First those that the backend may lack: what it gets meanwhile is in both.
        let waiting = self
            .store
            .shared()
            .map(|shared| &shared.requests_waiting)
            .and_then(|waiting| waiting.ids_of(self.session_id));
        let about = self.session_id.clone();
        let question = move |backend: &mut dyn Backend| backend.request_ids(&about, most + 1);
        let (mut keys, rest) = match waiting {
            Some(waiting) => (waiting, self.store.put(When::Now, question).await?),
            None => (Vec::new(), self.store.ask_about(self.session_id, question).await?),
        };
        keys.extend(rest);
        Ok((keys.len() <= most).then_some(keys))
    }

    /// The last message to the session's agent that was sent with a key.
    pub async fn resume(&self, request_id: &str) -> Result<Option<StoredResume>, ReadError> {
        let (about, request_id) = (self.session_id.clone(), request_id.to_owned());
        self.store.ask_about(self.session_id, move |backend| backend.resume_by_request(&about, &request_id)).await
    }
}
