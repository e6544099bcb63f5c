//! Finds sessions, in an order, from a place on. One search looks at a bounded number of sessions, so that it does not hold
//! up the thread that serves all readers; the caller continues where it ended.

use crate::backend::{Backend, BackendError, SessionSummary};
use crate::error::ReadError;
use crate::store::{Store, When};
use shellkeep_session::{ByteString, RunStatus, SessionId, SessionPlace, StoredRun, Timestamp};

/// Sessions that one search with a filter looks at. Reading the last command of that many takes some tens of milliseconds.
const MOST_LOOKED_AT: usize = 1000;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionOrder {
    /// By id.
    #[default]
    Id,
    /// The session in which something happened last comes first.
    Active,
}

impl SessionOrder {
    /// The place behind a session.
    pub fn place(self, session_id: &SessionId, last_active_at: Timestamp) -> SessionPlace {
        match self {
            Self::Id => session_id.clone().into(),
            Self::Active => SessionPlace::active(session_id.clone(), last_active_at),
        }
    }
}

/// What a session must have to be listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Each of them is in the id, the agent, the directory or the last command. In lower case.
    words: Vec<String>,
    /// Whether its last command failed.
    failed: bool,
}

/// Sessions to look for.
#[derive(Debug, Clone, Default)]
pub struct Find {
    /// Only this agent's.
    pub agent: Option<String>,
    pub filter: SessionFilter,
    pub order: SessionOrder,
    /// Where the search begins.
    pub after: Option<SessionPlace>,
    /// Most sessions to return, at least 1.
    pub limit: usize,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// At most as many as were asked for. There may be fewer although the list goes on.
    pub sessions: Vec<SessionSummary>,
    /// Behind the last session that was looked at, if there are more.
    pub next: Option<SessionPlace>,
}

impl SessionFilter {
    /// Keeps sessions with all words of a text, and those that failed if `failed`.
    pub fn new(text: &str, failed: bool) -> Self {
        Self { words: text.split_whitespace().map(str::to_lowercase).collect(), failed }
    }

    /// Whether it keeps every session.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.failed
    }

    /// Whether it keeps a session with this last command.
    pub fn keeps(&self, id: &SessionId, agent: Option<&str>, cwd: &ByteString, last: Option<&StoredRun>) -> bool {
        if self.failed && !last.is_some_and(has_failed) {
            return false;
        }
        let command = last.map(|run| run.command.to_text()).unwrap_or_default();
        let text = format!("{id}\n{}\n{}\n{command}", agent.unwrap_or_default(), cwd.to_text()).to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

impl Find {
    /// Looks for the sessions in a store.
    pub async fn search(self, store: &Store) -> Result<Found, ReadError> {
        let mut found = store.put(When::After(None), move |backend| search(backend, &self)).await?;
        let relocation = store.home().relocation();
        found.sessions.iter_mut().for_each(|summary| summary.relocate(relocation));
        Ok(found)
    }
}

/// Whether a command has ended, and not with exit code 0.
fn has_failed(run: &StoredRun) -> bool {
    run.result.as_ref().is_some_and(|result| result.status != RunStatus::Exited || result.exit_code != Some(0))
}

/// Looks for sessions.
fn search(backend: &mut dyn Backend, find: &Find) -> Result<Found, BackendError> {
    let Find { agent, filter, order, after, limit } = find;
    let most = if filter.is_empty() { limit.saturating_add(1) } else { MOST_LOOKED_AT };
    let listed = match order {
        SessionOrder::Id => backend.list(agent.as_deref(), after.as_ref().map(|after| &after.session_id), most)?,
        SessionOrder::Active => backend.recent(agent.as_deref(), after.as_ref(), most)?,
    };
    let has_more = listed.len() == most;
    let (mut sessions, mut last) = (Vec::new(), None);
    let mut listed = listed.into_iter();
    for summary in listed.by_ref() {
        let id = &summary.meta.session_id;
        last = Some(order.place(id, summary.last_active_at));
        // A damaged session has no commands to look at.
        let runs = if filter.is_empty() { Vec::new() } else { backend.runs(id, u64::MAX, 1).unwrap_or_default() };
        if filter.keeps(id, summary.meta.agent.as_deref(), &summary.cwd, runs.first()) {
            sessions.push(summary);
        }
        if sessions.len() == *limit {
            break;
        }
    }
    let next = last.filter(|_| has_more || listed.next().is_some());
    Ok(Found { sessions, next })
}
