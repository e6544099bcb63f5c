//! The names of all sessions and the agent each belongs to, in memory, so that a permission check needs no store.

use crate::ops::{OpError, SessionError};
use crate::recover::Known;
use crate::sync::lock;
use shellkeep_session::SessionId;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

/// The names of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<Known>,
    /// Names of forks that are being created.
    forking: Mutex<HashSet<SessionId>>,
}

/// A name that is reserved for a fork until this is dropped.
pub(crate) struct ReservedName {
    names: Arc<Names>,
    id: SessionId,
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        lock(&self.names.forking).remove(&self.id);
    }
}

impl Names {
    /// The names that a store knows.
    pub(crate) fn new(known: Known) -> Self {
        Self { known: Mutex::new(known), forking: Mutex::default() }
    }

    /// How many sessions there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.known).len()
    }

    /// Whether there is a session with this name.
    pub(crate) fn contains(&self, id: &SessionId) -> bool {
        lock(&self.known).contains_key(id)
    }

    /// Of two names, which belong to the agent. One lock and two lookups, whatever the answer.
    pub(crate) fn are_of(&self, agent: &str, ids: [Option<&SessionId>; 2]) -> [bool; 2] {
        let known = lock(&self.known);
        let is_own = |id: &SessionId| known.get(id).is_some_and(|owner| owner.as_deref() == Some(agent));
        ids.map(|id| id.is_some_and(is_own))
    }

    /// The agent that a session belongs to.
    pub(crate) fn agent_of(&self, id: &SessionId) -> Option<Arc<str>> {
        lock(&self.known).get(id).cloned().flatten()
    }

    /// An agent's sessions, in no order.
    pub(crate) fn of_agent(&self, agent: &str) -> Vec<SessionId> {
        let known = lock(&self.known);
        known.iter().filter(|(_, owner)| owner.as_deref() == Some(agent)).map(|(id, _)| id.clone()).collect()
    }

    /// Adds a name if it is new and `store` succeeds. Both are atomic: a caller that finds the name also finds the
    /// session. Returns whether it was new.
    pub(crate) fn add_new<E>(
        &self,
        id: &SessionId,
        agent: Option<Arc<str>>,
        store: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        match lock(&self.known).entry(id.clone()) {
            Entry::Occupied(_) => Ok(false),
            Entry::Vacant(entry) => {
                store()?;
                entry.insert(agent);
                Ok(true)
            }
        }
    }

    /// Adds the name of a fork that is complete.
    pub(crate) fn add(&self, id: &SessionId, agent: Option<Arc<str>>) {
        lock(&self.known).insert(id.clone(), agent);
    }

    /// Removes a name.
    pub(crate) fn remove(&self, id: &SessionId) {
        lock(&self.known).remove(id);
    }

    /// Whether a fork with this name is being created.
    pub(crate) fn is_forking(&self, id: &SessionId) -> bool {
        lock(&self.forking).contains(id)
    }

    /// Reserves a name for a fork; `None` if it is taken.
    pub(crate) fn reserve(self: &Arc<Self>, id: &SessionId) -> Option<ReservedName> {
        let is_new = !self.contains(id) && lock(&self.forking).insert(id.clone());
        is_new.then(|| ReservedName { names: Arc::clone(self), id: id.clone() })
    }
}

/// The answer about a session that does not exist.
pub(crate) fn not_found(id: &SessionId) -> OpError {
    OpError::Session(SessionError::NotFound { session_id: id.to_string() })
}
