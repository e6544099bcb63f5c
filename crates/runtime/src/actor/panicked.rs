//! A panic in a session's task is a bug, and must stay one: its callers get an error that says so, its commands are `lost`,
//! and the session goes on with its next message.

use super::journal::Journal;
use super::message::Message;
use super::slot::Slot;
use crate::cell::RunEnd;
use crate::context::SessionContext;
use crate::tasks;
use shellkeep_session::plan::{Crash, after_crash};
use shellkeep_session::{Event, SessionId, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The first field of an actor, so that it is dropped before the mailbox and with it the callers' channels.
pub(super) struct OnPanic {
    ctx: Arc<SessionContext>,
    id: SessionId,
    slot: Arc<Slot>,
}

impl OnPanic {
    /// For the task of this session.
    pub(super) fn new(ctx: Arc<SessionContext>, id: SessionId, slot: Arc<Slot>) -> Self {
        Self { ctx, id, slot }
    }
}

impl Drop for OnPanic {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        tracing::error!(session = %self.id, "the task of a session panicked");
        self.slot.has_panicked.store(true, Ordering::Release);
        self.ctx.registry.leave(&self.id, || true);
        // The next task ends the runs of this one, whose watchers would otherwise wait.
        let (ctx, id) = (Arc::clone(&self.ctx), self.id.clone());
        tasks::spawn(async move { ctx.registry.ask(&id, Message::Snapshot).await.map(drop) });
    }
}

/// Ends what the last task of the session left unfinished. Usually there is nothing. A command in the background has a
/// task of its own, and continues.
pub(super) fn end_unfinished(ctx: &SessionContext, journal: &mut Journal) {
    if journal.state().active_runs.values().all(|run| run.detached) {
        return;
    }
    let mut crashed = journal.state().clone();
    crashed.active_runs.retain(|_, run| !run.detached);
    for event in after_crash(&crashed, Crash::Session, Timestamp::now(), |_| true) {
        let ended = match &event {
            Event::RunFinished { run_id, result, .. } => Some((run_id.clone(), result.clone())),
            _ => None,
        };
        journal.record(event);
        let Some((run_id, result)) = ended else { continue };
        if let Some(cell) = ctx.runs.get(journal.id(), &run_id) {
            cell.finish(RunEnd { seq: journal.state().seq, result, unread_input: Vec::new() });
        }
        ctx.runs.remove(journal.id(), run_id);
    }
}
