//! A workspace that was removed: a rewind creates it again, and an undo brings back what was in it.

use super::checkpoint::save_as;
use super::files::{Files, files_failed};
use super::journal::Journal;
use crate::checkpoints::{self, Wanted};
use crate::context::SessionContext;
use crate::ops::{CheckpointView, DEFAULT_TOOL, OpError};
use crate::user_path::apart;
use shellkeep_record::steps::UnsavedRun;
use shellkeep_session::Cause;
use shellkeep_workspace::remade::Remade;
use std::io;

/// A workspace that was removed and is there again, without files.
pub(super) struct Removed {
    remade: Remade,
    /// The run that seems to have removed it; none if that was done outside the session.
    pub(super) by: Option<UnsavedRun>,
}

impl Removed {
    /// Creates the session's workspace again if it is not there. Without files in it, it is gone again when this is
    /// dropped.
    pub(super) async fn restore(ctx: &SessionContext, journal: &Journal) -> Result<Option<Self>, OpError> {
        let workspace = checkpoints::path(&journal.state().meta.workspace).to_owned();
        let remade = apart(move || Remade::workspace(&workspace).map_err(|error| error.to_string())).await;
        let remade = remade.map_err(|reason| {
            files_failed(journal, "have no directory, which could not be created", &io::Error::other(reason))
        })?;
        let Some(remade) = remade else { return Ok(None) };
        let by = ctx.history.last_unsaved_run(journal.id()).await?;
        Ok(Some(Self { remade, by }))
    }

    /// Records that the files were removed, as the change of the run that did it. Returns the checkpoint if one was
    /// taken.
    pub(super) async fn save(
        &self,
        files: &mut Files,
        journal: &mut Journal,
    ) -> Result<Option<CheckpointView>, OpError> {
        let wanted = match &self.by {
            Some(UnsavedRun { run_id, ended }) => {
                let cause = Cause::Tool { run_id: run_id.clone(), tool_name: DEFAULT_TOOL.to_owned() };
                Wanted::for_other(cause, *ended)
            }
            None => Wanted::for_other(Cause::Outside, journal.state().seq + 1),
        };
        save_as(files, journal, wanted).await
    }

    /// The directory stays, also if it is empty.
    pub(super) fn keep(self) {
        self.remade.keep();
    }
}
