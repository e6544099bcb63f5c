//! Sessions that were just created and not woken since. Every change of a session wakes it, so their state is known, and the first
//! command of a session need not ask the store for it.

use crate::sync::lock;
use shellkeep_session::{Record, SessionId, SessionState, size};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// Most sessions that are remembered: most are used at once, if at all.
const MOST: usize = 256;

/// The largest state that is remembered, of its variables and functions and of its `config`: callers choose both, and all of
/// them together are to take a few megabytes at most.
const LARGEST: usize = 16 * 1024;

/// The states of new sessions.
#[derive(Default)]
pub(crate) struct Newborn(Mutex<States>);

#[derive(Default)]
struct States {
    states: HashMap<SessionId, SessionState>,
    /// Oldest first; also those that were taken.
    order: VecDeque<SessionId>,
}

impl Newborn {
    /// A session was created by this record. Its name must not be known to others before.
    pub(crate) fn add(&self, record: &Record) {
        let Ok(state) = SessionState::create(record) else { return };
        if size::of_shell(&state.shell) + state.meta.agent_config.to_string().len() > LARGEST {
            return;
        }
        let States { states, order } = &mut *lock(&self.0);
        order.push_back(record.session_id.clone());
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
        {
            states.remove(&oldest);
        }
        states.insert(record.session_id.clone(), state);
    }

    /// The state of a session that is woken now.
    pub(crate) fn take(&self, id: &SessionId) -> Option<SessionState> {
        lock(&self.0).states.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Event, SessionMeta, ShellState, Timestamp};

    fn created(name: &str) -> Record {
        let session_id = SessionId::parse(name).unwrap();
        let meta = Box::new(SessionMeta::of_name(session_id.clone()));
        let event = Event::SessionCreated { meta, shell: Box::new(ShellState::default()) };
        Record { session_id, seq: 1, at: Timestamp::now(), event }
    }

    #[test]
    fn a_large_state_is_left_to_the_store() {
        let (newborn, mut large) = (Newborn::default(), created("large"));
        if let Event::SessionCreated { meta, .. } = &mut large.event {
            meta.agent_config = "x".repeat(LARGEST).into();
        }
        newborn.add(&large);
        assert_eq!(newborn.take(&large.session_id), None);
    }

    #[test]
    fn a_state_is_given_once_and_only_the_latest_are_kept() {
        let (newborn, first) = (Newborn::default(), created("first"));
        newborn.add(&first);
        assert_eq!(newborn.take(&first.session_id), SessionState::create(&first).ok());
        assert_eq!(newborn.take(&first.session_id), None);
        let names: Vec<SessionId> = (0..=MOST).map(|number| SessionId::parse(&format!("s{number}")).unwrap()).collect();
        for name in &names {
            newborn.add(&created(name.as_str()));
        }
        assert_eq!(newborn.take(&names[0]), None);
        assert!(names[1..].iter().all(|name| newborn.take(name).is_some()));
        assert_eq!(lock(&newborn.0).order.len(), MOST);
    }
}
