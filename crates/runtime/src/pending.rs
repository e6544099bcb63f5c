//! Operations that would leave a session half changed if the daemon died now: rewind, fork, deletion. Each is noted
//! first, and the next start completes or reverts it.

use crate::checkpoints::Checkpoints;
use shellkeep_session::{ByteString, Event, Record, SessionId, SessionMeta, SessionState, Timestamp};
use shellkeep_store::deleted::{self, DeletedSession};
use shellkeep_store::pending::{Begun, LeftOver, left_over};
pub(crate) use shellkeep_store::{Deletion, Pending};
use shellkeep_store::{FileChange, ReadError, Store, keyed};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::{Workspaces, copy, remove_all, restore};
use std::fs;
use std::path::Path;

/// Completes a change of files that was started, and records it. Returns whether there was one.
pub(crate) fn complete(
    workspace: &Path,
    home: &Path,
    seq: u64,
    faults: &Faults,
    take_down: impl FnOnce(Event) -> Result<(), String>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let Some((note, applied)) = restore::recover(workspace, home, faults)? else { return Ok(false) };
    let change = FileChange::decode(note)?;
    if let Some(change) = change.filter(|change| change.seq == seq) {
        take_down(change.event)?;
    }
    applied.finish()?;
    Ok(true)
}

/// What happens to a session's recording when the session is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is kept.
    Purge,
    /// The recording is kept until the host's retention ends.
    Keep {
        /// The id of the agent's token that asks.
        by: String,
    },
}

/// The deletion of a session whose last record is `seq`.
pub(crate) fn deletion(meta: &SessionMeta, seq: u64, removal: Removal) -> Deletion {
    let kept = match removal {
        Removal::Purge => None,
        // The last line of an unreadable session is unknown.
        Removal::Keep { by } => DeletedSession::new(meta, if seq == u64::MAX { 0 } else { seq }, Some(by)),
    };
    Deletion::new(meta, kept)
}

/// Keeps the recording if required and removes the rest. Can be repeated after a crash.
pub(crate) fn remove_files(deletion: &Deletion, data_dir: &Path, workspaces: &Workspaces, checkpoints: &Path) {
    let outputs = data_dir.join("outputs").join(deletion.id.as_str());
    if let Some(kept) = &deletion.kept
        && let Err(error) = deleted::keep(data_dir, kept, &outputs)
    {
        tracing::error!(session = %deletion.id, %error, "cannot keep the outputs of a deleted session");
    }
    if let Err(error) = workspaces.remove(&deletion.workspace) {
        tracing::warn!(workspace = %deletion.workspace.to_text(), %error, "cannot be removed");
    }
    // Most sessions have no output that needed a file.
    let _ = fs::remove_dir_all(outputs);
    let _ = fs::remove_dir_all(data_dir.join("services").join(deletion.id.as_str()));
    let _ = remove_all(&data_dir.join("homes").join(deletion.id.as_str()));
    let _ = fs::remove_dir_all(checkpoints);
    let _ = fs::remove_dir_all(keyed::directory(data_dir, deletion.id.as_str()));
}

/// A deletion that an earlier daemon had started.
pub(crate) struct Unfinished {
    pub(crate) deletion: Deletion,
    pub(crate) note: Pending,
    /// Whether it was recorded: somebody may have been told that the session is deleted.
    pub(crate) was_recorded: bool,
}

/// What is needed to complete unfinished operations.
pub(crate) struct Settler<'a> {
    pub data_dir: &'a Path,
    pub store: &'a Store,
    /// Where checkpoints are.
    pub checkpoints: &'a Checkpoints,
    /// The sessions' own directories.
    pub workspaces: &'a Workspaces,
}

impl Settler<'_> {
    /// Completes everything that an earlier daemon had started, and returns the deletions with files left: those are
    /// removed when nothing of the earlier daemon is running.
    pub(crate) async fn settle(&self) -> Vec<Unfinished> {
        let mut unfinished = Vec::new();
        for LeftOver { id, begun, note } in left_over(self.data_dir) {
            let settled = match begun {
                Begun::Change => self.complete_change(&id).await,
                Begun::Fork => self.complete_fork(&id).await,
                Begun::Deletion(Ok(None)) => Ok(()),
                Begun::Deletion(Err(error)) => Err(format!("the note of a deletion: {error}")),
                Begun::Deletion(Ok(Some(deletion))) => match self.settle_deletion(&deletion).await {
                    Ok(Some(was_recorded)) => {
                        unfinished.push(Unfinished { deletion: *deletion, note, was_recorded });
                        continue;
                    }
                    settled => settled.map(drop),
                },
            };
            match settled {
                Ok(()) => note.done(),
                Err(reason) => tracing::error!(session = %id, reason, "cannot complete an unfinished operation"),
            }
        }
        unfinished
    }

    /// Records the end of a session that was being deleted, and returns whether that was done already. `None` if no files are left
    /// to remove, because the name belongs to another session now.
    async fn settle_deletion(&self, deletion: &Deletion) -> Result<Option<bool>, String> {
        let seq = match self.store.load(&deletion.id).await {
            Ok(None) => return Ok(Some(true)),
            Ok(Some(state)) if state.meta.created_at == deletion.created_at => state.seq + 1,
            Ok(Some(_)) => return Ok(None),
            Err(ReadError::Damaged { .. }) => u64::MAX,
            Err(error) => return Err(error.to_string()),
        };
        let (session_id, at) = (deletion.id.clone(), Timestamp::now());
        let record = Record { session_id, seq, at, event: deletion.event() };
        self.store.append(&record).map_err(|error| error.to_string())?;
        Ok(Some(false))
    }

    /// Removes the files of sessions that were being removed. The notes stay for the caller.
    pub(crate) async fn finish_deletions(&self, unfinished: &[Unfinished]) {
        for Unfinished { deletion, .. } in unfinished {
            if let Err(error) = self.store.flush_about(&deletion.id).await {
                tracing::warn!(session = %deletion.id, %error, "its recording may be behind");
            }
            remove_files(deletion, self.data_dir, self.workspaces, &self.checkpoints.home(&deletion.id));
            tracing::warn!(session = %deletion.id, "completed a deletion that the last daemon had started");
        }
    }

    async fn complete_fork(&self, id: &SessionId) -> Result<(), String> {
        if self.store.load(id).await.map_err(|error| error.to_string())?.is_none() {
            tracing::warn!(session = %id, "a fork was not completed; its files are removed");
            self.remove(id);
        }
        Ok(())
    }

    async fn complete_change(&self, id: &SessionId) -> Result<(), String> {
        match self.store.load(id).await.map_err(|error| error.to_string())? {
            Some(state) => self.complete(id, &state),
            None => Ok(()),
        }
    }

    fn complete(&self, id: &SessionId, state: &SessionState) -> Result<(), String> {
        let workspace = state.meta.workspace.as_path();
        if self.store.home().yields_to().is_some() && !workspace.starts_with(self.data_dir) {
            return Err("the files belong to the original of this copied data directory".to_owned());
        }
        let take_down = |event| {
            let record = Record { session_id: id.clone(), seq: state.seq + 1, at: Timestamp::now(), event };
            self.store.append(&record).map_err(|error| error.to_string())
        };
        let home = self.checkpoints.home(id);
        if complete(workspace, &home, state.seq, self.checkpoints.faults(), take_down)
            .map_err(|error| error.to_string())?
        {
            tracing::warn!(session = %id, "completed a change of files that the last daemon had started");
        }
        Ok(())
    }

    fn remove(&self, id: &SessionId) {
        let workspace: ByteString = self.workspaces.of(id);
        let removed = self.workspaces.remove(&workspace);
        if let Some(workspaces) = workspace.as_path().parent() {
            // An incomplete copy has another name.
            let _ = copy::remove_unfinished(workspaces);
        }
        let _ = fs::remove_dir_all(self.checkpoints.home(id));
        let _ = fs::remove_dir_all(shellkeep_store::keyed::directory(self.data_dir, id.as_str()));
        let _ = fs::remove_dir_all(self.data_dir.join("outputs").join(id.as_str()));
        if let Err(error) = removed {
            tracing::warn!(session = %id, %error, "cannot be removed");
        }
    }
}
