//! Copies of sessions that other nodes removed, and what else is left here under a name. Nothing of it may reach the next session
//! of that name, which may be another agent's.

use super::arrive::kept;
use super::own::Own;
use crate::checkpoints::Checkpoints;
use crate::ops::OpError;
use crate::pending::{self, Deletion, Pending};
use crate::tasks;
use shellkeep_session::{Record, SessionId, SessionState, Timestamp};
use shellkeep_store::{Store, Survives};
use shellkeep_workspace::Workspaces;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deletes what this node has of sessions that are gone.
pub(crate) struct Copies {
    store: Store,
    workspaces: Workspaces,
    checkpoints: Arc<Checkpoints>,
    data_dir: PathBuf,
}

impl Copies {
    pub(super) fn new(own: &Own, data_dir: &Path) -> Self {
        let Own { store, workspaces, checkpoints, .. } = own;
        let (store, workspaces, checkpoints) = (store.clone(), workspaces.clone(), Arc::clone(checkpoints));
        Self { store, workspaces, checkpoints, data_dir: data_dir.to_owned() }
    }

    /// Deletes a copy, which sleeps, with its recording and its files. A crash in between is completed by the next start.
    pub(crate) async fn remove(&self, state: &SessionState) -> Result<(), OpError> {
        let (id, deletion) = (&state.meta.session_id, Deletion::new(&state.meta, None));
        let survives = if self.store.survives_power() { Survives::Power } else { Survives::Crash };
        let note = Pending::deletion(&self.data_dir, &deletion, survives);
        let note = note.inspect_err(|error| tracing::warn!(session = %id, %error, "cannot note a deletion")).ok();
        let (session_id, seq, at) = (id.clone(), state.seq + 1, Timestamp::now());
        let ended = kept(self.store.append(&Record { session_id, seq, at, event: deletion.event() }));
        if ended.is_ok() {
            // The name is used again at once; what follows must not be taken for the old session's.
            let _ = self.store.flush_about(id).await;
            self.remove_files(deletion).await;
            tracing::info!(session = %id, "the copy of a session that another node removed is deleted");
        }
        note.into_iter().for_each(Pending::done);
        ended
    }

    /// Deletes files that belong to no session, under the name of a new one.
    pub(crate) async fn clear(&self, id: &SessionId) {
        self.remove_files(Deletion::of_files(id, self.workspaces.of(id))).await;
    }

    async fn remove_files(&self, deletion: Deletion) {
        let (data_dir, workspaces) = (self.data_dir.clone(), self.workspaces.clone());
        let checkpoints = self.checkpoints.home(&deletion.id);
        let removal = tasks::blocking(move || {
            pending::remove_files(&deletion, &data_dir, &workspaces, &checkpoints);
        });
        let _ = removal.await;
    }
}
