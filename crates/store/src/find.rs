//! Finds sessions, in an order, from a place on. One search looks at a bounded number of sessions, so that it does not hold
//! up the thread that serves all readers; the caller continues where it ended.

use crate::backend::{Backend, BackendError, Found, SessionSummary};
use crate::error::ReadError;
use crate::store::{Store, When};
use crate::walk::{Candidate, SessionOrder, Walk};
use shellkeep_session::{SessionId, SessionPlace, StoredRun};

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

impl SessionFilter {
    /// Keeps sessions with all words of a text, and those that failed if `failed`.
    pub fn new(text: &str, failed: bool) -> Self {
        Self { words: text.split_whitespace().map(str::to_lowercase).collect(), failed }
    }

    /// Whether it keeps every session.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.failed
    }

    /// Whether it keeps a session.
    pub fn keeps(&self, candidate: &Candidate<'_>) -> bool {
        if self.failed && !candidate.failed {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let Candidate { id, agent, cwd, command, .. } = candidate;
        // No word has a line break in it.
        let text = format!("{id}\n{}\n{cwd}", agent.unwrap_or_default()).to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()) || command.contains(word.as_str()))
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

/// The last command of each of these sessions, if it had one. All are read with one request, so there should not be many.
pub async fn last_runs(store: &Store, ids: Vec<SessionId>) -> Result<Vec<Option<StoredRun>>, ReadError> {
    let about = ids.clone();
    // One that is gone by now has none.
    let last = |backend: &mut dyn Backend, id: &SessionId| backend.runs(id, u64::MAX, 1).unwrap_or_default().pop();
    let read = move |backend: &mut dyn Backend| Ok(ids.iter().map(|id| last(backend, id)).collect());
    store.put(When::After(Some(about)), read).await
}

/// Looks for sessions.
fn search(backend: &mut dyn Backend, find: &Find) -> Result<Found, BackendError> {
    let Find { agent, filter, order, after, limit } = find;
    let (agent, after) = (agent.as_deref(), after.as_ref());
    if !filter.is_empty() {
        let keeps = |candidate: &Candidate<'_>| filter.keeps(candidate);
        return backend.search(&Walk { agent, order: *order, after, limit: *limit, keeps: &keeps });
    }
    let most = limit.saturating_add(1);
    let mut sessions = match order {
        SessionOrder::Id => backend.list(agent, after.map(|after| &after.session_id), most)?,
        SessionOrder::Active => backend.recent(agent, after, most)?,
    };
    let has_more = sessions.len() > *limit;
    sessions.truncate(*limit);
    let place = |last: &SessionSummary| order.place(&last.meta.session_id, last.last_active_at);
    let next = sessions.last().filter(|_| has_more).map(place);
    Ok(Found { sessions, next })
}
