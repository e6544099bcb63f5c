//! A data directory that is a copy: what its sessions use outside of it is the original's until the host says otherwise.

use super::Inner;
use crate::checkpoints::path;
use crate::ops::OpError;
use shellkeep_session::{ByteString, SessionState};

impl Inner {
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
