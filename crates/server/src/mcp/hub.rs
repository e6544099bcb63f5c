//! What all MCP clients of a door share, and the caller of a request.

use super::names::Names;
use crate::auth::Scoped;
use crate::refusal::Refusal;
use crate::sync::lock;
use axum::http::request::Parts;
use shellkeep_runtime::Engine;
use shellkeep_session::{RunId, SessionId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// What all MCP clients of a daemon share.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    pub(super) names: Names,
    pub(super) told: Told,
    pub(super) seen: Seen,
}

/// Runs whose notices a model has read, so that it gets them once.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<HashSet<Heard>>>);

/// An agent's run; the host has no name.
type Heard = (Option<String>, SessionId, RunId);

/// How many runs are remembered. Only those with notices are, and those are rare; beyond this, some notices are shown
/// twice.
const MAX_TOLD: usize = 4096;

impl Told {
    /// Whether the notices of an agent's run have not been shown yet. Marks them as shown.
    pub(super) fn first_time(&self, agent: Option<&str>, session: &SessionId, run_id: &RunId) -> bool {
        let mut told = lock(&self.0);
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        told.insert((agent.map(str::to_owned), session.clone(), run_id.clone()))
    }
}

/// How much of its runs' outputs a model has been shown, so that it can wait for more.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<HashMap<Heard, [u64; 2]>>>);

impl Seen {
    /// Bytes of stdout and stderr when a model last read a run.
    pub(super) fn of(&self, agent: Option<&str>, session: &SessionId, run_id: &RunId) -> [u64; 2] {
        let seen = lock(&self.0);
        seen.get(&(agent.map(str::to_owned), session.clone(), run_id.clone())).copied().unwrap_or_default()
    }

    /// A model has read a run.
    pub(super) fn note(&self, agent: Option<&str>, session: &SessionId, run_id: &RunId, bytes: [u64; 2]) {
        let mut seen = lock(&self.0);
        if seen.len() >= MAX_TOLD {
            seen.clear();
        }
        seen.insert((agent.map(str::to_owned), session.clone(), run_id.clone()), bytes);
    }
}

/// The engine with the caller's rights, which authentication has put into the request.
pub(super) fn engine_of(request: &Parts) -> Result<Engine, Refusal> {
    let found = request.extensions.get::<Scoped>().map(|Scoped(engine)| engine.clone());
    found.ok_or_else(|| Refusal::internal("an MCP request bypassed authentication"))
}
