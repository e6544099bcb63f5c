//! The checkpoint that a daemon owed when it died.

use super::journal::Journal;
use super::kept_to;
use crate::checkpoints::Wanted;
use crate::context::SessionContext;
use crate::ops::DEFAULT_TOOL;
use shellkeep_record::moment::RunEnd;
use shellkeep_session::Cause;
use shellkeep_workspace::checkpointer::Due;

/// A checkpoint that the previous daemon owed.
pub(super) struct Owed {
    pub(super) wanted: Wanted,
    pub(super) due: Due,
}

/// The checkpoint that the previous daemon owed, if any.
pub(super) async fn owed_by_last_daemon(ctx: &SessionContext, journal: &Journal) -> Option<Owed> {
    if !ctx.checkpoints.config.on {
        return None;
    }
    let id = journal.id();
    let kept_to = kept_to::read(&ctx.checkpoints.home(id))?;
    let (cause, covers, since) = match ctx.history.last_run_after(id, kept_to).await {
        Ok(None) => return None,
        Ok(Some(RunEnd { run_id, seq, at })) => {
            let cause = Cause::Tool { run_id, tool_name: DEFAULT_TOOL.to_owned() };
            (cause, seq, i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX))
        }
        // The last run and its end are unknown, so nothing is certain.
        Err(error) => {
            tracing::warn!(session = %id, %error, "cannot determine which run the files belong to");
            (Cause::Manual, journal.state().seq, 0)
        }
    };
    Some(Owed { wanted: Wanted::for_other(cause, covers), due: Due { since } })
}
