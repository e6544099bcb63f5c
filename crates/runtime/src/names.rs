//! The names of all sessions and the agent each belongs to, in memory, so that a permission check needs no store.

use crate::ops::{OpError, SessionError};
use crate::recover::Known;
use crate::sync::lock;
use shellkeep_session::SessionId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// The names of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<Indexed>,
    /// Names of forks that are being created.
    forking: Mutex<HashSet<SessionId>>,
}

/// The names, and which of them each agent has. Both have the same copy of a name: there may be very many.
#[derive(Debug, Default)]
struct Indexed {
    owners: HashMap<Arc<SessionId>, Option<Arc<str>>>,
    by_agent: HashMap<Arc<str>, HashSet<Arc<SessionId>>>,
}

impl Indexed {
    fn insert(&mut self, id: SessionId, agent: Option<Arc<str>>) {
        self.remove(&id);
        let id = Arc::new(id);
        if let Some(agent) = &agent {
            self.by_agent.entry(Arc::clone(agent)).or_default().insert(Arc::clone(&id));
        }
        self.owners.insert(id, agent);
    }

    fn remove(&mut self, id: &SessionId) {
        let Some(agent) = self.owners.remove(id).flatten() else { return };
        if let Some(ids) = self.by_agent.get_mut(&agent) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_agent.remove(&agent);
            }
        }
    }

    fn count_of(&self, agent: &str) -> u64 {
        self.by_agent.get(agent).map_or(0, |ids| ids.len() as u64)
    }
}

/// Whether a name was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    New,
    /// It was there.
    Known,
    /// A fork with this name is being created.
    Forking,
    /// Its agent has this many sessions, which is all it may have.
    Full(u64),
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
        let mut indexed = Indexed::default();
        known.into_iter().for_each(|(id, agent)| indexed.insert(id, agent));
        Self { known: Mutex::new(indexed), forking: Mutex::default() }
    }

    /// How many sessions there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.known).owners.len()
    }

    /// Whether there is a session with this name.
    pub(crate) fn contains(&self, id: &SessionId) -> bool {
        lock(&self.known).owners.contains_key(id)
    }

    /// Of two names, which belong to the agent. One lock and two lookups, whatever the answer.
    pub(crate) fn are_of(&self, agent: &str, ids: [Option<&SessionId>; 2]) -> [bool; 2] {
        let known = lock(&self.known);
        let is_own = |id: &SessionId| known.owners.get(id).is_some_and(|owner| owner.as_deref() == Some(agent));
        ids.map(|id| id.is_some_and(is_own))
    }

    /// The agent that a session belongs to.
    pub(crate) fn agent_of(&self, id: &SessionId) -> Option<Arc<str>> {
        lock(&self.known).owners.get(id).cloned().flatten()
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        lock(&self.known).owners.keys().map(|id| SessionId::clone(id)).collect()
    }

    /// An agent's sessions, in no order.
    pub(crate) fn of_agent(&self, agent: &str) -> Vec<SessionId> {
        let known = lock(&self.known);
        known.by_agent.get(agent).into_iter().flatten().map(|id| SessionId::clone(id)).collect()
    }

    /// How many sessions an agent has.
    pub(crate) fn count_of(&self, agent: &str) -> u64 {
        lock(&self.known).count_of(agent)
    }

    /// Adds a name if it is new, its agent has fewer than `most`, and `store` succeeds. All of it is atomic: a caller that
    /// finds the name also finds the session.
    pub(crate) fn add_new<E>(
        &self,
        id: &SessionId,
        agent: Option<Arc<str>>,
        most: u64,
        store: impl FnOnce() -> Result<(), E>,
    ) -> Result<Added, E> {
        let mut known = lock(&self.known);
        if known.owners.contains_key(id) {
            return Ok(Added::Known);
        }
        if self.is_forking(id) {
            return Ok(Added::Forking);
        }
        let count = agent.as_deref().map_or(0, |agent| known.count_of(agent));
        if count >= most {
            return Ok(Added::Full(count));
        }
        store()?;
        known.insert(id.clone(), agent);
        Ok(Added::New)
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
        // Held until it is reserved: nobody may add it in between.
        let known = lock(&self.known);
        let is_new = !known.owners.contains_key(id) && lock(&self.forking).insert(id.clone());
        drop(known);
        is_new.then(|| ReservedName { names: Arc::clone(self), id: id.clone() })
    }
}

/// The answer about a session that does not exist.
pub(crate) fn not_found(id: &SessionId) -> OpError {
    OpError::Session(SessionError::NotFound { session_id: id.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: a name was looked up before its session was created, and a fork could reserve it in between. The new session then
    /// deleted what the fork had.
    #[test]
    fn a_name_that_is_reserved_for_a_fork_is_not_added() {
        let (names, id) = (Arc::new(Names::default()), SessionId::parse("s").unwrap());
        let add = || names.add_new(&id, None, 9, || Ok::<(), ()>(()));
        let reserved = names.reserve(&id);
        assert!(reserved.is_some());
        assert_eq!(add(), Ok(Added::Forking));
        drop(reserved);
        assert_eq!(add(), Ok(Added::New));
        assert!(names.reserve(&id).is_none());
    }

    #[test]
    fn sessions_are_known_by_agent() {
        let names = Names::new(Known::from([(SessionId::parse("old").unwrap(), Some("a".into()))]));
        let add = |id: &str, agent: &str, most| {
            names.add_new(&SessionId::parse(id).unwrap(), Some(agent.into()), most, || Ok::<(), ()>(())).unwrap()
        };
        assert_eq!(add("old", "a", 9), Added::Known);
        assert_eq!(add("s1", "a", 2), Added::New);
        assert_eq!(add("s2", "a", 2), Added::Full(2));
        assert_eq!(add("s2", "b", 2), Added::New);
        names.add(&SessionId::parse("s1").unwrap(), Some("b".into()));
        names.remove(&SessionId::parse("old").unwrap());
        assert_eq!((names.count_of("a"), names.count_of("b")), (0, 2));
        let mut of_b = names.of_agent("b");
        of_b.sort();
        assert_eq!((of_b, names.of_agent("a")), (["s1", "s2"].map(|id| SessionId::parse(id).unwrap()).into(), vec![]));
        assert_eq!(names.count(), 2);
        let failed = names.add_new(&SessionId::parse("s3").unwrap(), Some("a".into()), 9, || Err(()));
        assert_eq!((failed, names.count_of("a")), (Err(()), 0));
    }
}
