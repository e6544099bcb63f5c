//! A file change by a tool that runs no command, even while a command runs. It is recorded as a tool call and saved in
//! a checkpoint: its own if nothing runs, otherwise that of the running command.

use super::message::{Answer, FileChanged};
use super::notes;
use super::session::Session;
use crate::checkpoints::Wanted;
use crate::ops::{OpError, Posted};

/// Answers when a file may be changed: what was there before is saved, so that a rewind can restore it.
pub(super) async fn before(session: &mut Session, answer: Answer<()>) {
    if !session.phase.is_running() {
        session.files.before_change(&session.journal).await;
        session.files.keep_outside(&session.journal);
    }
    session.files.answer_when_kept(answer);
}

/// Records a change, and saves it.
pub(super) async fn after(session: &mut Session, change: FileChanged) -> Result<Posted, OpError> {
    let FileChanged { tool_name, event, author } = change;
    let changed = if session.phase.is_running() {
        None
    } else {
        session.files.before_change(&session.journal).await;
        Some(session.files.before_end(&mut session.journal))
    };
    let posted = notes::post_events(&mut session.journal, vec![event], &author).await;
    if let Some(changed) = changed {
        let wanted = |covers| Wanted::after_change(tool_name, covers);
        session.files.after_end(&mut session.journal, changed, wanted);
    }
    posted
}
