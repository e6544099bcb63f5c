//! The data directory itself. If it is a copy, what its sessions use outside of it is the original's until the host says
//! otherwise; if it is gone, everybody is told.

use super::Inner;
use crate::checkpoints::path;
use crate::notices;
use crate::ops::OpError;
use shellkeep_session::{ByteString, Notice, SessionState};
use std::sync::atomic::Ordering;

impl Inner {
    /// Looks whether the data directory is still there; what is wrong if it is not.
    pub(crate) fn look_at_data(&self) -> Option<String> {
        let problem = self.store.home().problem();
        if problem.is_some() && !self.data_gone.swap(true, Ordering::Relaxed) {
            tracing::error!(problem, "nothing new is kept");
        }
        self.data_gone.store(problem.is_some(), Ordering::Relaxed);
        problem
    }

    /// What an answer says if the data directory was gone at the last look.
    pub(crate) fn data_notice(&self) -> Option<Notice> {
        let is_gone = self.data_gone.load(Ordering::Relaxed);
        is_gone.then(|| self.look_at_data()).flatten().map(|problem| notices::data_gone(&problem))
    }

    /// Refuses to work in a directory outside of a copy that a session of the original uses too. `cwd` is where the session
    /// would work, if the caller does not say where.
    pub(crate) fn check_taken(&self, state: &SessionState, cwd: Option<&ByteString>) -> Result<(), OpError> {
        let Some(copy) = self.store.home().yields_to() else { return Ok(()) };
        let is_outside = |place: &&ByteString| !path(place).starts_with(&self.config.data_dir);
        let outside = [Some(&state.meta.workspace), cwd].into_iter().flatten().find(is_outside);
        match outside {
            Some(place) if state.meta.created_at < copy.since => Err(OpError::WorkspaceNotTaken {
                session_id: state.meta.session_id.to_string(),
                path: place.to_text().into_owned(),
                original: copy.path.to_text().into_owned(),
            }),
            _ => Ok(()),
        }
    }
}
