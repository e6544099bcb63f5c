//! Which node answered for a session lately. A request about the session goes there without a question to the shared store; a
//! node that does not have the session any more says so, and only then is the store asked.

use crate::sync::lock;
use shellkeep_runtime::{ClusterNode, LEASE, Scope};
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an answer counts. Less than what is left of a node's lease when it answers, so that after a node vanished no request
/// goes to it that another node would already answer.
const FRESH: Duration = LEASE.checked_div(2).expect("two is not zero");

/// Most sessions that are remembered.
const MOST: usize = 10_000;

/// The nodes that answered for sessions.
#[derive(Default)]
pub(crate) struct Located(Mutex<HashMap<Asked, Answered>>);

/// A session as a caller named it: an agent's own may have the name of another that it cannot see.
#[derive(PartialEq, Eq, Hash)]
struct Asked {
    agent: Option<String>,
    session: SessionId,
}

struct Answered {
    node: ClusterNode,
    at: Instant,
}

impl Asked {
    fn new(scope: &Scope, session: &SessionId) -> Self {
        Self { agent: scope.agent().map(str::to_owned), session: session.clone() }
    }
}

impl Located {
    /// The node that answered for a session lately.
    pub(crate) fn node(&self, scope: &Scope, session: &SessionId) -> Option<ClusterNode> {
        let known = lock(&self.0);
        let answered = known.get(&Asked::new(scope, session)).filter(|answered| answered.at.elapsed() < FRESH)?;
        Some(answered.node.clone())
    }

    /// A node has answered for a session.
    pub(crate) fn put(&self, scope: &Scope, session: &SessionId, node: &ClusterNode) {
        let mut known = lock(&self.0);
        if known.len() >= MOST {
            known.retain(|_, answered| answered.at.elapsed() < FRESH);
        }
        if known.len() < MOST {
            known.insert(Asked::new(scope, session), Answered { node: node.clone(), at: Instant::now() });
        }
    }

    /// A node did not answer for a session.
    pub(crate) fn forget(&self, scope: &Scope, session: &SessionId) {
        lock(&self.0).remove(&Asked::new(scope, session));
    }
}
