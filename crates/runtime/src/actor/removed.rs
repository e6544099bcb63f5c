//! A workspace that was removed: a rewind creates it again, and an undo brings back what was in it.

use super::checkpoint::save_as;
use super::files::files_failed;
use super::session::Session;
use crate::checkpoints::{self, Wanted};
use crate::ops::{CheckpointView, DEFAULT_TOOL, Moment, OpError};
use crate::user_path::apart;
use shellkeep_record::steps::{ChangedBy, UnsavedRun};
use shellkeep_session::{Cause, RewindStep};
use shellkeep_workspace::remade::Remade;
use std::io;

/// A workspace that was removed and is there again, without files.
pub(super) struct Removed {
    remade: Remade,
    /// The run that seems to have removed it; none if that was done outside the session.
    by: Option<UnsavedRun>,
}

impl Removed {
    /// Creates the session's workspace again if it is not there. Without files in it, it is gone again when this is
    /// dropped.
    pub(super) async fn restore(session: &Session) -> Result<Option<Self>, OpError> {
        let workspace = checkpoints::path(&session.journal.state().meta.workspace).to_owned();
        let remade = apart(move || Remade::workspace(&workspace).map_err(|error| error.to_string())).await;
        let remade = remade.map_err(|reason| {
            files_failed(&session.journal, "have no directory, which could not be created", &io::Error::other(reason))
        })?;
        let Some(remade) = remade else { return Ok(None) };
        let by = session.ctx.history.last_unsaved_run(session.id()).await?;
        Ok(Some(Self { remade, by }))
    }

    /// Where an undo goes: before the run that removed the workspace. If none did, the files come back, and that is no
    /// step of undo, because no change of the session was undone.
    pub(super) fn undo(&self, session: &Session) -> (Moment, Option<ChangedBy>, Option<RewindStep>) {
        match &self.by {
            Some(UnsavedRun { run_id, ended }) => {
                let before = run_id.seq().unwrap_or(*ended).saturating_sub(1);
                (Moment::Seq(before), Some(ChangedBy::Run(run_id.clone())), Some(RewindStep::Undo))
            }
            None => (Moment::Seq(session.journal.state().seq), None, None),
        }
    }

    /// Records that the files were removed, as the change of the run that did it. Returns the checkpoint if one was
    /// taken.
    pub(super) async fn save(&self, session: &mut Session) -> Result<Option<CheckpointView>, OpError> {
        let wanted = match &self.by {
            Some(UnsavedRun { run_id, ended }) => {
                let cause = Cause::Tool { run_id: run_id.clone(), tool_name: DEFAULT_TOOL.to_owned() };
                Wanted::for_other(cause, *ended)
            }
            None => Wanted::for_other(Cause::Outside, session.journal.state().seq + 1),
        };
        save_as(session, wanted).await
    }

    /// The directory stays, also if it is empty.
    pub(super) fn keep(self) {
        self.remade.keep();
    }
}
