//! Which node answered for a session lately. A request about the session goes there without a question to the shared store; a
//! node that does not have the session any more says so, and only then is the store asked.

use crate::sync::lock;
use shellkeep_runtime::{LEASE, NodeEntry, Scope};
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an answer counts. Less than what is left of a node's lease when it answers, so that after a node vanished no request
/// goes to it that another node would already answer.
const FRESH: Duration = LEASE.checked_div(2).expect("two is not zero");

/// Most sessions of one generation.
const MOST: usize = 5_000;

/// The nodes that answered for sessions.
#[derive(Default)]
pub(crate) struct Located(Mutex<Known>);

/// Two generations: when the younger one is full, or as old as an answer may be, the older one is dropped as a whole.
#[derive(Default)]
struct Known {
    younger: HashMap<Asked, Answered>,
    older: HashMap<Asked, Answered>,
    since: Option<Instant>,
}

/// A session as a caller named it: an agent's own may have the name of another that it cannot see.
#[derive(PartialEq, Eq, Hash)]
struct Asked {
    agent: Option<String>,
    session: SessionId,
}

struct Answered {
    node: NodeEntry,
    at: Instant,
}

impl Asked {
    fn new(scope: &Scope, session: &SessionId) -> Self {
        Self { agent: scope.agent().map(str::to_owned), session: session.clone() }
    }
}

impl Located {
    /// The node that answered for a session lately.
    pub(crate) fn node(&self, scope: &Scope, session: &SessionId) -> Option<NodeEntry> {
        lock(&self.0).node(&Asked::new(scope, session), Instant::now()).cloned()
    }

    /// A node has answered for a session.
    pub(crate) fn put(&self, scope: &Scope, session: &SessionId, node: &NodeEntry) {
        lock(&self.0).put(Asked::new(scope, session), node.clone(), Instant::now());
    }

    /// A node did not answer for a session.
    pub(crate) fn forget(&self, scope: &Scope, session: &SessionId) {
        lock(&self.0).forget(&Asked::new(scope, session));
    }
}

impl Known {
    fn node(&self, asked: &Asked, now: Instant) -> Option<&NodeEntry> {
        let answered = self.younger.get(asked).or_else(|| self.older.get(asked))?;
        (now - answered.at < FRESH).then_some(&answered.node)
    }

    fn put(&mut self, asked: Asked, node: NodeEntry, now: Instant) {
        if now - *self.since.get_or_insert(now) >= FRESH || self.younger.len() >= MOST {
            self.older = std::mem::take(&mut self.younger);
            self.since = Some(now);
        }
        self.younger.insert(asked, Answered { node, at: now });
    }

    fn forget(&mut self, asked: &Asked) {
        self.younger.remove(asked);
        self.older.remove(asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(session: &str) -> Asked {
        Asked { agent: None, session: SessionId::parse(session).unwrap() }
    }

    fn node(name: &str) -> NodeEntry {
        NodeEntry { name: name.to_owned(), ..NodeEntry::default() }
    }

    #[test]
    fn an_answer_counts_for_half_a_lease() {
        let (mut known, start) = (Known::default(), Instant::now());
        known.put(asked("a"), node("n1"), start);
        assert_eq!(known.node(&asked("a"), start).unwrap().name, "n1");
        known.put(asked("b"), node("n2"), start + FRESH / 2);
        assert!(known.node(&asked("a"), start + FRESH).is_none());
        assert!(known.node(&asked("b"), start + FRESH).is_some());
    }

    #[test]
    fn the_last_answer_counts_until_it_is_forgotten() {
        let (mut known, start) = (Known::default(), Instant::now());
        known.put(asked("a"), node("n1"), start);
        known.put(asked("a"), node("n2"), start + FRESH);
        assert_eq!(known.node(&asked("a"), start + FRESH).unwrap().name, "n2");
        known.forget(&asked("a"));
        assert!(known.node(&asked("a"), start + FRESH).is_none());
        known.put(asked("a"), node("n3"), start + FRESH);
        let other = Asked { agent: Some("x".to_owned()), ..asked("a") };
        assert!(known.node(&other, start + FRESH).is_none(), "another agent's session of that name");
    }

    #[test]
    fn as_many_are_remembered_as_two_generations_have() {
        let (mut known, now) = (Known::default(), Instant::now());
        for number in 0..3 * MOST {
            known.put(asked(&format!("s{number}")), node("n1"), now);
        }
        assert_eq!(known.younger.len() + known.older.len(), 2 * MOST);
        assert!(known.node(&asked("s0"), now).is_none());
        assert!(known.node(&asked(&format!("s{}", 3 * MOST - 1)), now).is_some());
    }
}
