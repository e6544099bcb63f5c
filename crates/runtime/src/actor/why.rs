//! Whether a command runs now, and why not: another one does, or the node has no room.

use super::phase::{Phase, Wait};
use super::queue::{Submitted, Waiting};
use super::session::Session;
use crate::admission::{self, Ticket};
use crate::context::SessionContext;
use crate::ops::{IfBusy, OpError, RunError, WhileBusy};
use shellkeep_session::{RunId, SessionState};

/// What that which cannot run now would have to wait for.
pub(super) fn why_waiting(session: &Session, asked: WhileBusy) -> OpError {
    match (session.phase.run(), session.phase.wait()) {
        (Some(run), _) => session.busy(&run.running.cell, asked),
        (None, Wait::Permit { waiter, .. }) => waiter.overloaded(),
        (None, _) => session.ctx.shells.why_none(),
    }
}

/// Why what waits does not start in time.
pub(super) struct TooLate {
    command: OpError,
    other: OpError,
}

impl TooLate {
    pub(super) fn of(session: &Session) -> Self {
        let [command, other] = [WhileBusy::Waited, WhileBusy::Other].map(|asked| why_waiting(session, asked));
        Self { command, other }
    }

    pub(super) fn refuse(&self, waiting: Waiting) {
        let error = if matches!(waiting, Waiting::Run(_)) { &self.command } else { &self.other };
        waiting.refuse(error.clone());
    }
}

/// Asks for a ticket; `None` if the command must wait for it.
pub(super) fn admit(
    session: &mut Session,
    submitted: &Submitted,
    ticket: Option<Ticket>,
) -> Result<Option<Ticket>, OpError> {
    if ticket.is_some() {
        return Ok(ticket);
    }
    let Session { ctx, slot, phase, .. } = session;
    if submitted.command.if_busy == IfBusy::Reject {
        return ctx.admission.ask_now(&slot.agent).map(Some);
    }
    match ctx.admission.ask(&slot.agent, submitted.expires)? {
        admission::Asked::Granted(ticket) => Ok(Some(ticket)),
        admission::Asked::Waits(waiter) => {
            phase.set_wait(Wait::Permit { waiter, retry_pending: phase.wait().retry_pending() });
            Ok(None)
        }
    }
}

/// Why a command did not run in time. If it had waited for a shell before it waited for its permit, the node was short of
/// shells first.
pub(super) fn not_in_time(ctx: &SessionContext, phase: &Phase, error: OpError) -> OpError {
    let waited_for_shell = phase.wait().retry_pending();
    match error {
        OpError::Run(RunError::Overloaded { .. }) if waited_for_shell => ctx.shells.why_none(),
        error => error,
    }
}

/// The run that has not ended and was asked for with this key.
pub(super) fn run_of(state: &SessionState, request_id: Option<&str>) -> Option<RunId> {
    let request_id = request_id?;
    let mut active = state.active_runs.iter();
    active.find(|(_, run)| run.request_id.as_deref() == Some(request_id)).map(|(run_id, _)| run_id.clone())
}
