//! Deletes a session's name and files, after its task has killed what it ran. A deletion is noted first, so that the
//! next start completes it before the name can be used again.

use crate::checkpoints::Checkpoints;
use crate::cluster::{Cluster, TakenOut};
use crate::data_dir::DataDir;
use crate::disk::Disk;
use crate::live_runs::LiveRuns;
use crate::names::Names;
use crate::ops::OpError;
use crate::pending::{self, Deletion, Pending, Removal};
use crate::secrets::Secrets;
use crate::tasks;
use crate::thinning::Thinning;
use shellkeep_session::{Record, SessionId, SessionMeta, Timestamp};
use shellkeep_store::{AppendError, Store};
use shellkeep_store::{Survives, deleted};
use shellkeep_workspace::Workspaces;
use std::sync::Arc;
use std::time::Duration;

/// Deletes sessions.
pub(crate) struct Remover {
    pub(crate) store: Store,
    pub(crate) data_dir: Arc<DataDir>,
    pub(crate) workspaces: Workspaces,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) names: Arc<Names>,
    pub(crate) runs: Arc<LiveRuns>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) thinning: Arc<Thinning>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) cluster: Option<Arc<Cluster>>,
}

impl Remover {
    /// Notes that a session is being deleted. Otherwise a crash would leave its files to the next session of that name.
    pub(crate) fn begin(&self, deletion: &Deletion) -> Option<Pending> {
        let survives = if self.store.survives_power() { Survives::Power } else { Survives::Crash };
        let noted = tasks::in_place(|| Pending::deletion(self.data_dir.root(), deletion, survives));
        noted.inspect_err(|error| tracing::warn!(session = %deletion.id, %error, "cannot note a deletion")).ok()
    }

    /// Removes a session where nodes share a store, before anything of it is removed here. Fails if this node may not: then nothing
    /// is removed, and the note is gone.
    pub(crate) async fn take_out(
        &self,
        deletion: &Deletion,
        note: Option<Pending>,
    ) -> Result<(Option<Pending>, Option<TakenOut>), OpError> {
        let Some(cluster) = &self.cluster else { return Ok((note, None)) };
        match cluster.removals().take_out(deletion).await {
            Ok(taken_out) => Ok((note, Some(taken_out))),
            Err(error) => {
                note.into_iter().for_each(Pending::done);
                Err(error)
            }
        }
    }

    /// Deletes a session's name and files, after its end is recorded.
    pub(crate) async fn finish(&self, deletion: Deletion, note: Option<Pending>, taken_out: Option<TakenOut>) {
        let removals = self.cluster.as_ref().map(|cluster| cluster.removals());
        if let (Some(removals), Some(TakenOut::Now)) = (removals, taken_out) {
            removals.remove_files(&deletion).await;
        }
        self.remove_here(&deletion).await;
        match (removals, taken_out) {
            (Some(removals), Some(taken_out)) => removals.finish(&deletion, note, taken_out),
            _ => note.into_iter().for_each(Pending::done),
        }
        // Last: a new session of this name must not find anything of the old one.
        self.names.remove(&deletion.id);
        // It may have been measured while its files were removed.
        self.disk.drop_usage(&deletion.id);
        // Until now a follower that looked could find the session.
        self.store.followers().changed(&deletion.id);
    }

    async fn remove_here(&self, deletion: &Deletion) {
        let id = &deletion.id;
        // What ran in the background was killed; its end will not be reported.
        self.runs.forget_detached(id);
        self.disk.forget(id);
        self.thinning.forget(id);
        self.secrets.forget(id);
        if deletion.kept.is_some() {
            // Until then lines may be written for which outputs are looked at.
            let _ = self.store.flush_about(id).await;
        }
        let (data_dir, workspaces) = (self.data_dir.root().to_owned(), self.workspaces.clone());
        let (checkpoints, deletion) = (self.checkpoints.home(id), deletion.clone());
        let removal = tasks::blocking(move || {
            pending::remove_files(&deletion, &data_dir, &workspaces, &checkpoints);
        });
        let _ = removal.await;
    }

    /// An unreadable session can still be deleted.
    pub(crate) async fn destroy_unread(&self, id: &SessionId, removal: Removal) -> Result<(), OpError> {
        let agent = self.names.agent_of(id);
        let meta = SessionMeta {
            agent: agent.as_deref().map(str::to_owned),
            workspace: self.workspaces.of(id),
            ..SessionMeta::of_name(id.clone())
        };
        // A number beyond all others, because the last one is unknown.
        let deletion = pending::deletion(&meta, u64::MAX, removal);
        let note = self.begin(&deletion);
        let (note, taken_out) = self.take_out(&deletion, note).await?;
        let record = Record { session_id: id.clone(), seq: u64::MAX, at: Timestamp::now(), event: deletion.event() };
        match self.store.append(&record) {
            // Kept in memory until it can be written; deleting the files may make room for it.
            Ok(()) | Err(AppendError::Retrying { .. }) => {}
            // The shared store was told, which cannot be undone, and until this is finished nobody can use the name. What is
            // left in the store of this node is no longer anybody's session.
            Err(error) if taken_out.is_some() => {
                tracing::error!(session = %id, %error, "the end of a deleted session is not recorded on this node");
            }
            Err(error) => {
                note.into_iter().for_each(Pending::done);
                return Err(OpError::not_stored(&error));
            }
        }
        self.finish(deletion, note, taken_out).await;
        Ok(())
    }

    /// Deletes the recordings of deleted sessions whose retention has ended.
    pub(crate) fn purge_expired(&self, now: Timestamp, keep: Duration) {
        let data_dir = self.data_dir.root();
        for session in deleted::list(data_dir) {
            let age = Duration::try_from(now.duration_since(session.deleted_at)).unwrap_or_default();
            if age < keep {
                continue;
            }
            match deleted::purge(data_dir, &session.kept_as) {
                Ok(()) => tracing::info!(recording = %session.kept_as, "the recording of a deleted session has \
                    expired"),
                Err(error) => tracing::warn!(recording = %session.kept_as, %error, "could not be removed"),
            }
        }
    }

    /// Deletes the files of a fork that could not be completed.
    pub(crate) async fn forget_fork(&self, id: &SessionId) {
        let workspace = self.workspaces.of(id);
        self.remove_here(&Deletion::of_files(id, workspace)).await;
        self.names.remove(id);
    }
}
