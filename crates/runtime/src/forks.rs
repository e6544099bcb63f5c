//! The first records of a fork.

use crate::actor::{KvTask, Message};
use crate::context::SessionContext;
use crate::names::not_found;
use crate::ops::{OpError, SessionView};
use crate::pending::Removal;
use crate::stored::asleep;
use shellkeep_session::{Event, Record, SessionId, SessionState, Timestamp};
use shellkeep_store::AppendError;
use std::sync::Arc;

/// Appends the first records of a fork; from then on it is a session.
pub(crate) async fn begin(
    ctx: &SessionContext,
    id: &SessionId,
    agent: Option<&str>,
    events: Vec<Event>,
) -> Result<SessionView, OpError> {
    let Some(cluster) = &ctx.cluster else { return append(ctx, id, agent, events).await };
    // A session of this name may have been removed: that says nothing of the fork.
    let made_alone = cluster.diverged().made_alone();
    made_alone.note(id).await;
    let begun = append(ctx, id, agent, events).await;
    if begun.is_err() {
        made_alone.forget(id).await;
    }
    begun
}

async fn append(
    ctx: &SessionContext,
    id: &SessionId,
    agent: Option<&str>,
    events: Vec<Event>,
) -> Result<SessionView, OpError> {
    let mut state: Option<SessionState> = None;
    for (event, seq) in events.into_iter().zip(1..) {
        let record = Record { session_id: id.clone(), seq, at: Timestamp::now(), event };
        match ctx.append(&record) {
            Ok(()) | Err(AppendError::Retrying { .. }) => {}
            Err(error) if seq == 1 => return Err(OpError::not_stored(&error)),
            Err(error) => {
                // An incomplete session must not exist.
                let _ = ctx.remover.destroy_unread(id, Removal::Purge).await;
                return Err(OpError::not_stored(&error));
            }
        }
        ctx.counts.event(&record.event);
        match &mut state {
            None => state = SessionState::create(&record).ok(),
            Some(state) => drop(state.apply(&record)),
        }
    }
    ctx.names.add(id, agent.map(Arc::from));
    let state = state.ok_or_else(|| not_found(id))?;
    if ctx.cluster.is_some() {
        // It is claimed when it wakes, and its records are shared then.
        ctx.registry.ask(id, Message::View).await?;
        if let Err(error) = ctx.registry.ask(id, |answer| Message::Kv(Box::new(KvTask::Share { answer }))).await {
            tracing::warn!(session = %id, %error, "the keyed store of a fork is not copied for other nodes");
        }
    }
    let _ = ctx.settle(id, state.seq).await;
    Ok(asleep(state, &ctx.sandboxes))
}
