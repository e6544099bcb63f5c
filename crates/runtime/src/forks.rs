//! The first records of a fork.

use crate::actor::{KvTask, Message};
use crate::cluster::ClaimedName;
use crate::context::SessionContext;
use crate::names::not_found;
use crate::ops::{OpError, SessionView};
use crate::pending::Removal;
use crate::stored::asleep;
use shellkeep_session::{Event, Notice, Record, SessionId, SessionState, Timestamp};
use shellkeep_store::AppendError;
use std::sync::Arc;

/// A fork, and what to say if only this node has it.
pub(crate) struct Begun {
    pub(crate) session: SessionView,
    pub(crate) notice: Option<Notice>,
}

/// Appends the first records of a fork, whose name is claimed if nodes share a store; from then on it is a session. Its name is
/// given back if it does not become one.
pub(crate) async fn begin(
    ctx: &SessionContext,
    id: &SessionId,
    agent: Option<&str>,
    mut events: Vec<Event>,
    name: Option<ClaimedName>,
) -> Result<Begun, OpError> {
    if let Some(name) = &name {
        events.insert(1, name.owned());
    }
    let (state, records) = append(ctx, id, events).await?;
    let claim = name.as_ref().map(|name| name.claim().clone());
    let is_unconfirmed = name.as_ref().is_some_and(ClaimedName::is_unconfirmed);
    // Before anybody can wake it, who would find the shared store without its records.
    name.into_iter().for_each(|name| name.send(&state, &records));
    ctx.names.add(id, agent.map(Arc::from));
    if is_unconfirmed {
        // The store may have come back before there was a session to claim again; waking it claims it.
        drop(ctx.registry.ask(id, Message::View).await);
    }
    if claim.is_some() {
        ctx.share_files(&state);
        if !state.kv.is_unused() {
            share_keys(ctx, id).await;
        }
    }
    let settled = ctx.settle(id, state.seq).await;
    if let Some(claim) = &claim {
        ctx.registry.left_asleep(id, Some(claim)).await;
    }
    Ok(Begun { session: asleep(state, &ctx.sandboxes), notice: settled? })
}

/// Keeps the first records of a fork on this node: all of them, before another node has one.
async fn append(
    ctx: &SessionContext,
    id: &SessionId,
    events: Vec<Event>,
) -> Result<(SessionState, Vec<Record>), OpError> {
    let (mut state, mut records): (Option<SessionState>, Vec<Record>) = (None, Vec::new());
    for (event, seq) in events.into_iter().zip(1..) {
        let record = Record { session_id: id.clone(), seq, at: Timestamp::now(), event };
        match ctx.store.append(&record) {
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
        records.push(record);
    }
    Ok((state.ok_or_else(|| not_found(id))?, records))
}

/// Copies the keyed store of a fork to where other nodes read it, which is the fork's own task's to do.
async fn share_keys(ctx: &SessionContext, id: &SessionId) {
    if let Err(error) = ctx.registry.ask(id, |answer| Message::Kv(Box::new(KvTask::Share { answer }))).await {
        tracing::warn!(session = %id, %error, "the keyed store of a fork is not copied for other nodes");
    }
}
