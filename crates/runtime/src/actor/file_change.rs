//! A file is changed by a tool that runs no command, beside whatever runs. What it changed is recorded as a tool call and
//! kept in a checkpoint: of its own if nothing runs, else in that of the command that runs.

use super::message::{Answer, FileChanged};
use super::notes;
use super::session::Session;
use crate::checkpoints::Wanted;
use crate::ops::{OpError, Posted};

/// Answers when a file may be changed: what was there before is kept, so that a rewind can bring it back.
pub(super) async fn before(session: &mut Session, answer: Answer<()>) {
    if !session.phase.is_running() {
        session.files.before_change(&session.journal).await;
    }
    session.files.answer_when_kept(answer);
}

/// Records a change, and keeps it.
pub(super) async fn after(session: &mut Session, change: FileChanged) -> Result<Posted, OpError> {
    let FileChanged { tool_name, event, author } = change;
    let changed = if session.phase.is_running() {
        None
    } else {
        session.files.before_change(&session.journal).await;
        Some(session.files.before_end(&session.journal))
    };
    let posted = notes::post_events(session, vec![event], &author).await;
    if let Some(changed) = changed {
        let wanted = |covers| Wanted::after_change(tool_name, covers);
        session.files.after_end(&mut session.journal, changed, wanted);
    }
    posted
}
