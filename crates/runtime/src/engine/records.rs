//! Records: what agents' frameworks post and save, and the recordings of sessions: read, followed, exported, verified
//! and scrubbed. Files are read on blocking threads, after the store has written the session's records.

mod export;
mod follow;
mod forks;
pub(super) mod full;
mod leaving;
pub(super) mod summaries;

use crate::tasks;
pub use export::ExportStream;
pub use follow::EventStream;
use follow::filter;

use super::access::{Access, Permitted};
use super::handle::Engine;
use super::parts::Parts;
use super::past::Past;
use crate::actor::{KvTask, Message};
use crate::ops::*;
use crate::recordings::unreadable;
use crate::validate::records as validate;
use shellkeep_record::{Budget, CONFIG_SNAPSHOT, Checks, Filter, Line, Recording, SignatureChecks, beside, past};
use shellkeep_session::{AgentState, KvTold, OutOfReach, SessionId};

/// Operations on what is recorded of a session, and on its agent's conversation and state.
pub struct RecordOps<'a> {
    access: &'a Access,
}

impl Engine {
    /// Operations on what is recorded of a session, and on its agent's conversation and state.
    pub fn records(&self) -> RecordOps<'_> {
        RecordOps::new(&self.access)
    }
}

impl<'a> RecordOps<'a> {
    /// With the rights of `access`.
    pub(crate) fn new(access: &'a Access) -> Self {
        Self { access }
    }
}

impl RecordOps<'_> {
    /// Records what an agent's framework posts: all of it, or none.
    pub fn post_events<'a>(
        &'a self,
        id: &'a SessionId,
        events: Vec<NewEvent>,
    ) -> BoxFuture<'a, Result<Posted, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("post_events", id.as_str());
            validate::events(&events)?;
            parts.check_disk(&id)?;
            let author = self.access.author();
            parts.ctx.registry.ask(&id, |answer| Message::Note { events, author, answer }).await
        })
    }

    /// Reads a recording, a page at a time.
    pub fn events<'a>(&'a self, id: &'a SessionId, query: EventQuery) -> BoxFuture<'a, Result<EventPage, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Past::of(self.access, id).await?.events(query).await;
            };
            let filter = filter(&parts.ctx.secrets, &id, &query).await?;
            let (searched, EventQuery { after, limit, .. }) = (filter.is_selective(), query);
            parts.recordings.page(&id, searched, move |recording| full::page(recording, after, limit, &filter)).await
        })
    }

    /// Reads a recording, each event in one line, a page at a time; of those that went wrong only, if `failed` is set.
    pub fn summaries<'a>(
        &'a self,
        id: &'a SessionId,
        query: EventQuery,
        failed: bool,
    ) -> BoxFuture<'a, Result<SummaryPage, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Past::of(self.access, id).await?.summaries(query, failed).await;
            };
            let filter = filter(&parts.ctx.secrets, &id, &query).await?;
            let (searched, EventQuery { after, limit, .. }) = (failed || filter.is_selective(), query);
            let read = move |recording: &Recording| summaries::page(recording, after, limit, failed, &filter);
            parts.recordings.page(&id, searched, read).await
        })
    }

    /// A recording as a row of bars, at most `buckets` of them.
    pub fn overview<'a>(&'a self, id: &'a SessionId, buckets: u64) -> BoxFuture<'a, Result<Overview, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Past::of(self.access, id).await?.overview(buckets).await;
            };
            parts.recordings.search(&id, move |recording| summaries::overview(recording, buckets)).await
        })
    }

    /// Follows a recording: existing events, then new ones.
    pub fn follow_events<'a>(
        &'a self,
        id: &'a SessionId,
        query: EventQuery,
    ) -> BoxFuture<'a, Result<EventStream, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Err(Past::of(self.access, id).await?.cannot_be_followed());
            };
            EventStream::start(parts, &id, query).await
        })
    }

    /// Exports a recording.
    pub fn export<'a>(
        &'a self,
        id: &'a SessionId,
        format: ExportFormat,
        redact: bool,
    ) -> BoxFuture<'a, Result<ExportStream, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Past::of(self.access, id).await?.export(format, redact).await;
            };
            self.access.audit("export", id.as_str());
            ExportStream::start(parts, &id, format, redact).await
        })
    }

    /// Checks that a recording is as it was written.
    pub fn verify<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Verdict, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over_recorded(id) else {
                return Past::of(self.access, id).await?.verify().await;
            };
            // Read before the recording is flushed, so it cannot be ahead of it.
            let known = match self.access.deleted_session(&id) {
                Some(deleted) => deleted.seq,
                None => parts.ctx.registry.snapshot(&id).await?.seq,
            };
            parts.recordings.seal(&id).await?;
            let (key, public_key) = (parts.recordings.key(&id), parts.ctx.store.public_key());
            let (outputs, session_id) = parts.recordings.recorded_as(&id);
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
            let (agent, directory) = (parts.ctx.names.agent_of(&id), parts.recordings.flush(&id).await?);
            let is_there = self.access.deleted_session(&id).is_none();
            let checking = move |budget: &Budget| {
                let recording = Recording::open(&directory)?.within(budget.clone());
                let verdict = check(&recording)?;
                let told = match is_there && verdict.bad.is_none() {
                    true => Some(shellkeep_record::kv_told(&recording, known)?),
                    false => None,
                };
                Ok::<_, shellkeep_record::ReadError>((verdict, told))
            };
            let checked = parts.work.long(agent.as_deref(), checking).await?;
            let (verdict, told) = checked.map_err(|error| unreadable(&id, error))?;
            match told {
                Some(told) => check_kv(parts, &id, verdict, told).await,
                None => Ok(verdict),
            }
        })
    }

    /// Masks a secret in everything that is stored of a session. Host only.
    pub fn scrub<'a>(&'a self, id: &'a SessionId, secret: Secret) -> BoxFuture<'a, Result<Scrubbed, OpError>> {
        Box::pin(async move {
            self.access.as_host()?;
            validate::secret(&secret)?;
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("scrub", id.as_str());
            let forks = forks::of(parts, &id).await?;
            let mut scrubbed = parts.ctx.registry.ask(&id, |answer| Message::Scrub { secret, answer }).await?;
            if !forks.is_empty() {
                scrubbed.out_of_reach.push(OutOfReach::Forks);
                scrubbed.forks = forks;
            }
            Ok(scrubbed)
        })
    }

    /// What a session started with.
    pub fn config_snapshot<'a>(
        &'a self,
        id: &'a SessionId,
        redact: bool,
    ) -> BoxFuture<'a, Result<serde_json::Value, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over_recorded(id)?;
            let masker = if redact { Some(parts.ctx.secrets.masker(&id).await?) } else { None };
            let path = parts.recordings.flush(&id).await?.join(CONFIG_SNAPSHOT);
            let unreadable =
                |reason: String| OpError::Record(RecordError::Unreadable { session_id: id.to_string(), reason });
            let bytes = tasks::blocking(move || std::fs::read(path)).await?;
            let bytes = bytes.map_err(|error| unreadable(format!("{CONFIG_SNAPSHOT}: {error}")))?;
            let sum = beside::sum(&bytes);
            let is_told = move |recording: &Recording| {
                let first = recording.first()?.and_then(|line| line.proof.files.get(CONFIG_SNAPSHOT).cloned());
                // An old one has no hash; a scrubbed one has a newer hash in a later line.
                Ok(first.is_none_or(|told| told == sum)
                    || recording.told_of(CONFIG_SNAPSHOT)?.is_some_and(|told| told == sum))
            };
            if !parts.recordings.read(&id, is_told).await? {
                return Err(OpError::Record(RecordError::FileChanged {
                    session_id: id.to_string(),
                    file: CONFIG_SNAPSHOT.to_owned(),
                }));
            }
            let mut snapshot = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
            if let Some(masker) = masker {
                masker.mask_value(&mut snapshot);
            }
            Ok(snapshot)
        })
    }

    /// Adds a message to the conversation.
    pub fn add_message<'a>(
        &'a self,
        id: &'a SessionId,
        message: NewMessage,
    ) -> BoxFuture<'a, Result<MessageAdded, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("add_message", id.as_str());
            validate::message(&message)?;
            parts.check_disk(&id)?;
            let author = self.access.author();
            parts.ctx.registry.ask(&id, |answer| Message::AddMessage { message, author, answer }).await
        })
    }

    /// The conversation, a page at a time.
    pub fn messages<'a>(
        &'a self,
        id: &'a SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<MessagePage, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over(id) else {
                return Past::of(self.access, id).await?.messages(after, limit).await;
            };
            let limit = limit.clamp(1, MAX_MESSAGE_PAGE);
            parts.stored.messages(&id, after, limit).await
        })
    }

    /// Saves the agent's state, if the stored version is the one that the caller expects.
    pub fn save_agent_state<'a>(
        &'a self,
        id: &'a SessionId,
        save: SaveAgentState,
    ) -> BoxFuture<'a, Result<AgentStateSaved, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("save_agent_state", id.as_str());
            validate::agent_state(&save)?;
            let author = self.access.author();
            parts.ctx.registry.ask(&id, |answer| Message::SaveAgentState { save, author, answer }).await
        })
    }

    /// The agent's state: the current one, or an earlier one.
    pub fn agent_state<'a>(
        &'a self,
        id: &'a SessionId,
        version: Option<u64>,
    ) -> BoxFuture<'a, Result<AgentStateView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let current = match parts.ctx.registry.ask_awake(&id, Message::AgentState).await {
                Some(state) => state?,
                None => parts.stored.load(&id).await?.agent_state,
            };
            let current = current.map(|state| *state);
            let not_found = || OpError::Record(RecordError::AgentStateNotFound { session_id: id.to_string() });
            let state = match (current, version) {
                (None, None) => return Err(not_found()),
                // The session was rewound to before its first state; earlier versions are still in the recording.
                (None, Some(version)) => earlier_agent_state(parts, &id, version).await?.ok_or_else(not_found)?,
                (Some(current), None) => current,
                (Some(current), Some(version)) if current.version == version => current,
                (Some(current), Some(version)) if version < current.version => {
                    earlier_agent_state(parts, &id, version).await?.ok_or_else(not_found)?
                }
                (Some(_), Some(_)) => return Err(not_found()),
            };
            match parts.ctx.kept_files.agent_state(&id, state).await {
                Err(OpError::Record(RecordError::AgentStateReclaimed { version, .. })) => {
                    // What this node has no line of was saved before the session came here.
                    let saved = saved_agent_state(parts, &id, version).await?.map_or(0, |(seq, _)| seq);
                    let node = parts.ctx.made_on(&id, Some(saved)).await;
                    Err(RecordError::AgentStateReclaimed { version, node }.into())
                }
                read => read,
            }
        })
    }
}

/// An earlier state of a session's agent, from its recording.
async fn earlier_agent_state(parts: &Parts, id: &SessionId, version: u64) -> Result<Option<AgentState>, OpError> {
    Ok(saved_agent_state(parts, id, version).await?.map(|(_, state)| state))
}

/// The same with the number of its line.
async fn saved_agent_state(parts: &Parts, id: &SessionId, version: u64) -> Result<Option<(u64, AgentState)>, OpError> {
    // A rewind saves an earlier state again under a new version.
    let types = vec!["agent_state_saved".to_owned(), "session_rewound".to_owned()];
    let filter = Filter { types, ..Filter::default() };
    let saved = |line: &Line| {
        let data = if line.event_type == "session_rewound" { line.data.get("agent_state")? } else { &line.data };
        Some((line.seq, past::agent_state(data, &line.proof.files)?))
    };
    let find = move |recording: &Recording| {
        let mut after = 0;
        loop {
            let page = recording.page(after, MAX_EVENT_PAGE, &filter)?;
            if let Some(found) = page.lines.iter().filter_map(saved).find(|(_, state)| state.version == version) {
                return Ok(Some(found));
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(None),
            }
        }
    };
    parts.recordings.read(id, find).await
}

/// Compares the keyed store with the verified lines.
async fn check_kv(parts: &Parts, id: &SessionId, mut verdict: Verdict, told: KvTold) -> Result<Verdict, OpError> {
    if told.version() == 0 {
        return Ok(verdict);
    }
    let task = |answer| Message::Kv(Box::new(KvTask::Check { told, answer }));
    let wrong = parts.ctx.registry.ask(id, task).await?;
    if let Some(reason) = wrong.into_iter().next() {
        let file = shellkeep_store::keyed::FILE.to_owned();
        verdict.bad = Some(shellkeep_record::Bad { file, line_number: 0, seq: None, reason });
    }
    Ok(verdict)
}
