//! A person takes over a session: who may run commands meanwhile, and what the agent is told afterwards.

use super::held_notice;
use super::journal::Journal;
use super::message::ReleaseHold;
use super::phase::Phase;
use super::queue::{Queue, Submitted};
use crate::ops::{HeldBy, HoldView, IfBusy, OpError, ReleasedHold, RunCommand, RunError, TakeHold};
use serde_json::json;
use shellkeep_session::hold::{SESSION_HELD, SESSION_RELEASED};
use shellkeep_session::{Author, Event, SessionHold, SessionState, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// Letters of a hash in a record: enough that nobody guesses an id, and short enough not to look like a secret.
const HASH_LETTERS: usize = 16;
/// When the end of a hold is recorded again that could not be.
const RETRY_END: Duration = Duration::from_secs(1);

/// The hold in force.
fn in_force(state: &SessionState) -> Option<&SessionHold> {
    state.hold.as_deref().filter(|hold| hold.until > Timestamp::now())
}

fn hash(hold_id: &str) -> String {
    blake3::hash(hold_id.as_bytes()).to_hex()[..HASH_LETTERS].to_owned()
}

fn refusal(journal: &Journal, hold: &SessionHold) -> OpError {
    let HeldBy { holder, reason, until } = HeldBy::from(hold);
    RunError::Held { session_id: journal.id().to_string(), holder, reason, until }.into()
}

/// Takes a hold, or extends the caller's.
pub(super) async fn take(
    journal: &mut Journal,
    queue: &mut Queue,
    phase: &Phase,
    request: TakeHold,
) -> Result<HoldView, OpError> {
    end_expired(journal, queue);
    let TakeHold { holder, reason, ttl, hold_id } = request;
    let session_id = journal.id().clone();
    let hold_id = match (in_force(journal.state()), hold_id) {
        (Some(hold), Some(id)) if hold.hold == hash(&id) => id,
        (Some(hold), _) => return Err(refusal(journal, hold)),
        (None, Some(_)) => return Err(RunError::HoldOver { session_id: session_id.to_string() }.into()),
        (None, None) => uuid::Uuid::new_v4().to_string(),
    };
    let until = Timestamp::now() + ttl;
    let mut data = json!({"hold": hash(&hold_id), "holder": holder, "until": until});
    if let Some(reason) = &reason {
        data["reason"] = reason.as_str().into();
    }
    note(journal, SESSION_HELD, data)?;
    journal.settle().await?;
    let running =
        phase.run().map(|run| (run.running.cell.start.run_id.clone(), run.running.cell.start.command.clone()));
    let by = HeldBy { holder, reason, until };
    Ok(HoldView { session_id, hold_id, by, waiting: queue.held_back(), running })
}

/// Ends a hold. Without an id it ends whoever holds it.
pub(super) async fn release(
    journal: &mut Journal,
    queue: &mut Queue,
    request: ReleaseHold,
) -> Result<ReleasedHold, OpError> {
    end_expired(journal, queue);
    let session_id = journal.id().clone();
    let Some(hold) = in_force(journal.state()) else {
        return Ok(ReleasedHold { session_id, released: false, notice: None });
    };
    if request.hold_id.is_some_and(|id| hash(&id) != hold.hold) {
        return Err(refusal(journal, hold));
    }
    let notice = held_notice::in_words(hold, &request.files);
    let because = if request.is_holder { "released" } else { "ended_by_host" };
    end(journal, queue, because, notice.as_deref())?;
    journal.settle().await?;
    Ok(ReleasedHold { session_id, released: true, notice })
}

/// Ends a hold whose time is over.
pub(super) fn end_expired(journal: &mut Journal, queue: &mut Queue) {
    let Some(hold) = journal.state().hold.as_deref().filter(|hold| hold.until <= Timestamp::now()) else {
        return;
    };
    let notice = held_notice::in_words(hold, &[]);
    if let Err(error) = end(journal, queue, "expired", notice.as_deref()) {
        tracing::warn!(session = %journal.id(), %error, "the end of a hold could not be recorded");
    }
}

fn end(journal: &mut Journal, queue: &mut Queue, because: &str, notice: Option<&str>) -> Result<(), OpError> {
    let holder = journal.state().hold.as_ref().map(|hold| hold.holder.clone());
    let mut data = json!({"holder": holder, "because": because});
    if let Some(notice) = notice {
        data["notice"] = notice.into();
    }
    note(journal, SESSION_RELEASED, data)?;
    queue.bring_back();
    Ok(())
}

fn note(journal: &mut Journal, event_type: &str, data: serde_json::Value) -> Result<(), OpError> {
    let event = Event::Noted { event_type: event_type.to_owned(), data, author: Author::runtime(None) };
    let offered = journal.offer(event);
    offered.map(|_| ()).map_err(|error| OpError::not_stored(&error))
}

/// When the hold ends that commands wait for.
pub(super) fn ends_at(journal: &Journal, queue: &Queue) -> Option<Instant> {
    let hold = journal.state().hold.as_deref().filter(|_| queue.held_back() > 0)?;
    // If it is over, its end could not be recorded.
    let left = Duration::try_from(hold.until.duration_since(Timestamp::now())).ok().filter(|left| !left.is_zero());
    let left = left.unwrap_or(RETRY_END);
    Some(Instant::now() + left)
}

/// Whether a caller may act: nobody holds the session, or the caller does.
pub(super) fn may_act(journal: &mut Journal, queue: &mut Queue, hold_id: Option<&str>) -> Result<(), OpError> {
    end_expired(journal, queue);
    match (in_force(journal.state()), hold_id) {
        (None, None) => Ok(()),
        (Some(hold), Some(id)) if hold.hold == hash(id) => Ok(()),
        (Some(hold), _) => Err(refusal(journal, hold)),
        (None, Some(_)) => Err(RunError::HoldOver { session_id: journal.id().to_string() }.into()),
    }
}

/// What becomes of a command whose turn it is.
pub(super) enum MayRun {
    /// It may run.
    Now,
    /// It waits for the end of a hold.
    Later,
    Refused(OpError),
}

/// Whether a command may run while somebody may hold the session.
pub(super) fn may_run(journal: &mut Journal, queue: &mut Queue, command: &RunCommand) -> MayRun {
    let can_wait = command.hold.is_none() && command.if_busy == IfBusy::Wait && !queue.is_full();
    match may_act(journal, queue, command.hold.as_deref()) {
        Ok(()) => MayRun::Now,
        Err(_) if can_wait => MayRun::Later,
        Err(refusal) => MayRun::Refused(refusal),
    }
}

/// Refuses the commands that waited too long for the end of a hold.
pub(super) fn refuse(journal: &Journal, expired: Vec<Submitted>) {
    let Some(hold) = journal.state().hold.as_deref() else { return };
    for submitted in expired {
        submitted.reply.refuse(refusal(journal, hold));
    }
}
