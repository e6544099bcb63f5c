//! Records: what agents' frameworks tell and save, and the recordings of sessions, read, followed, written out, checked
//! and masked for good. Files are read in threads of their own, after the store has written what concerns the session.

mod export;
mod follow;
mod secrets;

pub use export::ExportStream;
pub use follow::EventStream;
pub(super) use secrets::SecretsBook;

use super::scope::Permitted;
use super::{Engine, Inner};
use crate::deleted;
use crate::ops::*;
use crate::owner::Message;
use crate::state_file;
use crate::validate::records as validate;
use crate::work::SEARCH_TIME;
use shellkeep_record::{
    Budget, CONFIG_SNAPSHOT, Checks, Filter, Line, Page, Recording, Search, SessionKey, SignatureChecks, beside, past,
};
use shellkeep_session::{AgentState, Author, Content, SessionId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Takes down what an agent's framework tells: all of it, or none.
    pub async fn post_events(&self, id: &SessionId, events: Vec<NewEvent>) -> Result<Posted, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        self.audit("post_events", id.as_str());
        inner.note(&id, events, self.author()).await
    }

    /// Reads a recording, a page at a time.
    pub async fn events(&self, id: &SessionId, query: EventQuery) -> Result<EventPage, OpError> {
        let Permitted { inner, id } = self.over_recorded(id)?;
        let filter = inner.filter(&id, &query).await?;
        let EventQuery { after, limit, .. } = query;
        inner.search_recording(&id, move |recording| page(recording, after, limit, &filter)).await
    }

    /// Follows a recording: what is there, and then what happens.
    pub async fn follow_events(&self, id: &SessionId, query: EventQuery) -> Result<EventStream, OpError> {
        let Permitted { inner, id } = self.over_recorded(id)?;
        EventStream::start(inner, &id, query).await
    }

    /// Writes a recording out for somebody else.
    pub async fn export(&self, id: &SessionId, format: ExportFormat, redact: bool) -> Result<ExportStream, OpError> {
        let Permitted { inner, id } = self.over_recorded(id)?;
        self.audit("export", id.as_str());
        ExportStream::start(inner, &id, format, redact).await
    }

    /// Checks that a recording is as it was written.
    pub async fn verify(&self, id: &SessionId) -> Result<Verdict, OpError> {
        let Permitted { inner, id } = self.over_recorded(id)?;
        // What is known before it is written cannot be more than what is written.
        let known = self.get(&id).await?.seq;
        inner.seal_recording(&id).await?;
        let (key, public_key) = (inner.recording_key(&id), inner.store.public_key());
        let (outputs, session_id) = inner.recorded_as(&id);
        let check = move |recording: &Recording| {
            let keys = &[public_key];
            let signatures = SignatureChecks { session_id: Some(&session_id), keys, through: Some(known) };
            let checks = Checks {
                key: Some(&key),
                expected: Some(known),
                signatures: Some(signatures),
                outputs: Some(&outputs),
            };
            shellkeep_record::check(recording, &checks)
        };
        let (agent, directory) = (inner.agent_of(&id), inner.flushed_recording(&id).await?);
        let checking = move |budget: &Budget| check(&Recording::open(&directory)?.within(budget.clone()));
        inner.work.long(agent.as_deref(), checking).await?.map_err(|error| unreadable(&id, error))
    }

    /// Masks a secret in everything that is kept of a session. The host's right.
    pub async fn scrub(&self, id: &SessionId, secret: Secret) -> Result<Scrubbed, OpError> {
        self.as_host()?;
        validate::secret(&secret)?;
        let Permitted { inner, id } = self.over(id)?;
        self.audit("scrub", id.as_str());
        inner.ask(&id, |answer| Message::Scrub { secret, answer }).await
    }

    /// What a session began with.
    pub async fn config_snapshot(&self, id: &SessionId, redact: bool) -> Result<serde_json::Value, OpError> {
        let Permitted { inner, id } = self.over_recorded(id)?;
        let masker = if redact { Some(inner.masker(&id).await?) } else { None };
        inner.flush_recording(&id).await?;
        let path = inner.recording_directory(&id).join(CONFIG_SNAPSHOT);
        let unreadable = |reason: String| OpError::RecordingUnreadable { session_id: id.to_string(), reason };
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let bytes = read.map_err(|error| unreadable(error.to_string()))?;
        let bytes = bytes.map_err(|error| unreadable(format!("{CONFIG_SNAPSHOT}: {error}")))?;
        let sum = beside::sum(&bytes);
        let is_told = move |recording: &Recording| {
            let first = recording.first()?.and_then(|line| line.proof.files.get(CONFIG_SNAPSHOT).cloned());
            // One from before there were hashes has none; one that was scrubbed has another later on.
            Ok(first.is_none_or(|told| told == sum)
                || recording.told_of(CONFIG_SNAPSHOT)?.is_some_and(|told| told == sum))
        };
        if !inner.read_recording(&id, is_told).await? {
            return Err(OpError::FileChanged { session_id: id.to_string(), file: CONFIG_SNAPSHOT.to_owned() });
        }
        let mut snapshot = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if let Some(masker) = masker {
            masker.mask_value(&mut snapshot);
        }
        Ok(snapshot)
    }

    /// Adds a message to the conversation.
    pub async fn add_message(&self, id: &SessionId, message: NewMessage) -> Result<MessageAdded, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        self.audit("add_message", id.as_str());
        inner.add_message(&id, message, self.author()).await
    }

    /// The conversation, a page at a time.
    pub async fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<MessagePage, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        let limit = limit.clamp(1, MAX_MESSAGE_PAGE);
        inner.messages(&id, after, limit).await
    }

    /// Saves the agent's state, if it still is the one that the caller knows.
    pub async fn save_agent_state(&self, id: &SessionId, save: SaveAgentState) -> Result<AgentStateSaved, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        self.audit("save_agent_state", id.as_str());
        inner.save_agent_state(&id, save, self.author()).await
    }

    /// The agent's state: the one that is kept, or an earlier one.
    pub async fn agent_state(&self, id: &SessionId, version: Option<u64>) -> Result<AgentStateView, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        let current = inner.current_agent_state(&id).await?;
        let not_found = || OpError::AgentStateNotFound { session_id: id.to_string() };
        let state = match (current, version) {
            (None, None) => return Err(not_found()),
            // A rewind took the session back to before its first state; the earlier ones are still told of.
            (None, Some(version)) => inner.earlier_agent_state(&id, version).await?.ok_or_else(not_found)?,
            (Some(current), None) => current,
            (Some(current), Some(version)) if current.version == version => current,
            (Some(current), Some(version)) if version < current.version => {
                inner.earlier_agent_state(&id, version).await?.ok_or_else(not_found)?
            }
            (Some(_), Some(_)) => return Err(not_found()),
        };
        inner.bytes_of(&id, state).await
    }
}

impl Inner {
    /// Takes down events of a session's agent.
    async fn note(self: &Arc<Self>, id: &SessionId, events: Vec<NewEvent>, author: Author) -> Result<Posted, OpError> {
        validate::events(&events)?;
        self.ask(id, |answer| Message::Note { events, author, answer }).await
    }

    /// Adds a message to a session's conversation.
    pub(crate) async fn add_message(
        self: &Arc<Self>,
        id: &SessionId,
        message: NewMessage,
        author: Author,
    ) -> Result<MessageAdded, OpError> {
        validate::message(&message)?;
        self.ask(id, |answer| Message::AddMessage { message, author, answer }).await
    }

    /// The conversation after a number.
    pub(crate) async fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<MessagePage, OpError> {
        let found = self.store.messages(id, after, limit + 1).await;
        let mut messages = found.map_err(|error| self.read_error(id, error))?;
        let has_more = messages.len() > limit;
        messages.truncate(limit);
        let next = if has_more { messages.last().map(|last| last.seq_id) } else { None };
        Ok(MessagePage { messages, next })
    }

    /// Saves the state of a session's agent.
    pub(crate) async fn save_agent_state(
        self: &Arc<Self>,
        id: &SessionId,
        save: SaveAgentState,
        author: Author,
    ) -> Result<AgentStateSaved, OpError> {
        validate::agent_state(&save)?;
        self.ask(id, |answer| Message::SaveAgentState { save, author, answer }).await
    }

    /// The state of a session's agent that is kept.
    pub(crate) async fn current_agent_state(&self, id: &SessionId) -> Result<Option<AgentState>, OpError> {
        let state = match self.ask_owner(id, Message::AgentState).await {
            Some(state) => state?,
            None => self.load(id).await?.agent_state,
        };
        Ok(state.map(|state| *state))
    }

    /// The bytes of a state.
    pub(crate) async fn bytes_of(
        self: &Arc<Self>,
        id: &SessionId,
        state: AgentState,
    ) -> Result<AgentStateView, OpError> {
        let AgentState { version, media_type, content } = state;
        let (name, length, hash) = match content {
            Content::Inline(bytes) => return Ok(AgentStateView { version, media_type, bytes: bytes.0 }),
            Content::File { name, bytes, hash } => (name, bytes, hash),
        };
        let path = self.output_directory(id).join(&name);
        let read = tokio::task::spawn_blocking(move || {
            let read = state_file::read(&path, length, hash.as_deref());
            (read, path)
        });
        let failed = |reason: String| OpError::StoreUnavailable {
            reason: format!("the agent's state cannot be read: {reason}"),
        };
        let bytes = match read.await.map_err(|error| failed(error.to_string()))? {
            (Ok(bytes), _) => bytes,
            (Err(state_file::ReadError::Gone), _) => return Err(OpError::AgentStateReclaimed { version }),
            (Err(state_file::ReadError::Failed(error)), _) => return Err(failed(error.to_string())),
            // A scrub masks old versions in their files; what it left is the state now.
            (Err(state_file::ReadError::Damaged(_)), path) if self.was_scrubbed(id, &name).await => {
                std::fs::read(path).map_err(|error| failed(error.to_string()))?
            }
            (Err(state_file::ReadError::Damaged(reason)), _) => {
                tracing::error!(session = %id, version, reason, "a state of the agent is damaged");
                return Err(OpError::AgentStateDamaged { version, reason });
            }
        };
        Ok(AgentStateView { version, media_type, bytes })
    }

    /// Whether a scrub masked something in this file of a session.
    async fn was_scrubbed(&self, id: &SessionId, file: &str) -> bool {
        let filter = Filter { types: vec!["scrubbed".to_owned()], ..Filter::default() };
        let file = file.to_owned();
        let names =
            |line: &Line| line.data["files"].as_array().is_some_and(|files| files.contains(&file.clone().into()));
        let mut after = 0;
        loop {
            let (wanted, from) = (filter.clone(), after);
            let page = self.read_recording(id, move |recording| recording.page(from, MAX_EVENT_PAGE, &wanted)).await;
            match page {
                Ok(page) if page.lines.iter().any(names) => return true,
                Ok(Page { next: Some(next), .. }) => after = next,
                _ => return false,
            }
        }
    }

    /// An earlier state of a session's agent, from its recording.
    async fn earlier_agent_state(&self, id: &SessionId, version: u64) -> Result<Option<AgentState>, OpError> {
        // A rewind saves the state of then again, with a version of its own.
        let types = vec!["agent_state_saved".to_owned(), "session_rewound".to_owned()];
        let filter = Filter { types, ..Filter::default() };
        let saved = |line: &Line| match line.event_type.as_str() {
            "session_rewound" => {
                line.data.get("agent_state").and_then(|state| past::agent_state(state, &line.proof.files))
            }
            _ => past::agent_state(&line.data, &line.proof.files),
        };
        let find = move |recording: &Recording| {
            let mut after = 0;
            loop {
                let page = recording.page(after, MAX_EVENT_PAGE, &filter)?;
                if let Some(found) = page.lines.iter().filter_map(saved).find(|state| state.version == version) {
                    return Ok(Some(found));
                }
                match page.next {
                    Some(next) => after = next,
                    None => return Ok(None),
                }
            }
        };
        self.read_recording(id, find).await
    }

    /// Where the recording of a session is, be it there or removed.
    fn recording_directory(&self, id: &SessionId) -> PathBuf {
        match self.deleted_session(id) {
            Some(deleted) => deleted::recording(&self.config.data_dir, &deleted.kept_as),
            None => self.store.recording(id),
        }
    }

    /// What proves the recording of a session. One that was removed keeps the key of the name it had.
    fn recording_key(&self, id: &SessionId) -> SessionKey {
        match self.deleted_session(id) {
            Some(deleted) => self.store.session_key(&deleted.session_id),
            None => self.store.session_key(id),
        }
    }

    /// Where the outputs that lines of a session name are, be it there or removed, and the name it had when they were
    /// signed.
    fn recorded_as(&self, id: &SessionId) -> (PathBuf, SessionId) {
        match self.deleted_session(id) {
            Some(deleted) => (deleted::outputs(&self.config.data_dir, &deleted.kept_as), deleted.session_id),
            None => (self.output_directory(id).to_path_buf(), id.clone()),
        }
    }

    /// Makes the store write what concerns a session, and sign it.
    pub(super) async fn seal_recording(&self, id: &SessionId) -> Result<(), OpError> {
        self.store.seal(id).await.map_err(|error| self.read_error(id, error))
    }

    /// Makes the store write what concerns a session.
    async fn flush_recording(&self, id: &SessionId) -> Result<(), OpError> {
        self.store.flush_about(id).await.map_err(|error| self.read_error(id, error))
    }

    /// Where a session's recording is, with everything that has happened until now in it.
    async fn flushed_recording(&self, id: &SessionId) -> Result<PathBuf, OpError> {
        self.flush_recording(id).await?;
        Ok(self.recording_directory(id))
    }

    /// Reads a session's recording in a thread of its own, with everything that has happened until now in it.
    pub(crate) async fn read_recording<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Recording) -> Result<T, shellkeep_record::ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, None, read).await
    }

    /// The same, for no longer than a search may take.
    pub(super) async fn search_recording<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Recording) -> Result<T, shellkeep_record::ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        self.read_within(id, Some(SEARCH_TIME), read).await
    }

    async fn read_within<T: Send + 'static>(
        &self,
        id: &SessionId,
        time: Option<Duration>,
        read: impl FnOnce(&Recording) -> Result<T, shellkeep_record::ReadError> + Send + 'static,
    ) -> Result<T, OpError> {
        let (agent, directory) = (self.agent_of(id), self.flushed_recording(id).await?);
        let reading = move |budget: &Budget| read(&Recording::open(&directory)?.within(budget.clone()));
        self.work.short(agent.as_deref(), time, reading).await?.map_err(|error| unreadable(id, error))
    }

    /// Which events a query wants.
    async fn filter(&self, id: &SessionId, query: &EventQuery) -> Result<Filter, OpError> {
        let search = query.search.as_deref().map(Search::new).transpose();
        let wrong = |error| OpError::Invalid { detail: format!("search is {error}") };
        let masker = if query.redact { Some(self.masker(id).await?) } else { None };
        Ok(Filter { types: query.types.clone(), search: search.map_err(wrong)?, masker })
    }
}

/// What a caller is told of a recording that cannot be read.
fn unreadable(id: &SessionId, error: shellkeep_record::ReadError) -> OpError {
    match error {
        shellkeep_record::ReadError::SearchSpent { seq } => {
            OpError::SearchSpent { limit: SEARCH_TIME.as_secs(), place: "after", next: seq }
        }
        error => OpError::RecordingUnreadable { session_id: id.to_string(), reason: error.to_string() },
    }
}

/// A page as callers see it.
fn page(
    recording: &Recording,
    after: u64,
    limit: usize,
    filter: &Filter,
) -> Result<EventPage, shellkeep_record::ReadError> {
    let page = recording.page(after, limit.clamp(1, MAX_EVENT_PAGE), filter)?;
    Ok(EventPage { events: page.lines, next: page.next })
}
