//! An agent's first token, where agents have users of their own. What the agent's sessions ran before runs as root, and the
//! token's holder could use that: type into it, or change a file that it runs. So nothing of it may continue. The agent's
//! sessions are confined before that is checked, so that nothing is started as root meanwhile.

use super::parts::Parts;
use crate::actor::{Message, RestReason};
use crate::ops::{NewBearer, NewToken, OpError, SessionError};
use crate::token_holders::Expected;
use shellkeep_session::{Sandbox, SessionId};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a session may take to end its idle shell. One that takes longer is busy.
const REST_LIMIT: Duration = Duration::from_secs(10);

/// Before a token is created here. Idle shells end; anything else that runs is an error. What is returned is dropped when the
/// token is there.
pub(super) async fn prepare(parts: &Parts, request: &NewToken) -> Result<Option<Expected>, OpError> {
    let NewBearer::Agent { agent, .. } = &request.bearer else { return Ok(None) };
    let Some(expected) = expect(parts, agent) else { return Ok(None) };
    let sessions = parts.ctx.names.of_agent(agent);
    let busy = |id: &SessionId| Err(SessionError::SandboxBusy { session_id: id.to_string() }.into());
    // Before a shell is taken from any of them for nothing.
    if let Some(id) = sessions.iter().find(|id| runs_something(parts, id)) {
        return busy(id);
    }
    for id in &sessions {
        if !rests(parts, id).await {
            return busy(id);
        }
    }
    Ok(Some(expected))
}

fn expect(parts: &Parts, agent: &str) -> Option<Expected> {
    let has_users = parts.ctx.sandboxes.has_user(Sandbox::User);
    has_users.then(|| parts.identities.holders().expect(agent)).flatten()
}

/// Ends the idle shell of a session, with what it left running; false if something else runs.
async fn rests(parts: &Parts, id: &SessionId) -> bool {
    let (answer, waiting) = oneshot::channel();
    parts.ctx.registry.tell_awake(id, Message::Evict { why: RestReason::Idle, answer }).await;
    // One that sleeps has no shell. What it was starting is in the lists by now, and what it starts next is confined.
    let rested = tokio::time::timeout(REST_LIMIT, waiting).await.map(|answered| answered.unwrap_or(true));
    rested.unwrap_or(false) && !runs_something(parts, id)
}

/// Whether a session has services, commands or an agent that run, or are being started.
fn runs_something(parts: &Parts, id: &SessionId) -> bool {
    let has_services = !parts.ctx.services.list(|seen| seen.session_id == *id).is_empty();
    has_services || !parts.ctx.runs.keys(|other, _| other == id).is_empty() || parts.agents.is_taken(id)
}
