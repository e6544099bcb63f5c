//! What is begun and would leave a session in between if the daemon died now: a rewind, a fork. It is written down before,
//! and at the next start it is ended one way or the other.

use crate::checkpoints::Checkpoints;
use serde_json::{Value, json};
use shellkeep_session::{ByteString, Event, Record, SessionId, SessionState, Timestamp};
use shellkeep_store::Store;
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::{Workspaces, copy, restore};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "pending";
/// What the names of notes begin with.
const CHANGE: &str = "change";
const FORK: &str = "fork";

/// The record that follows a change of files, as it is written down before.
pub(crate) fn note(seq: u64, event: &Event) -> Vec<u8> {
    // What a record holds can be written as JSON.
    serde_json::to_vec(&json!({"seq": seq, "event": serde_json::to_value(event).unwrap_or_default()}))
        .unwrap_or_default()
}

/// Completes a change of files that was begun, and takes down what it was. Whether there was one.
pub(crate) fn complete(
    workspace: &Path,
    home: &Path,
    seq: u64,
    faults: &Faults,
    take_down: impl FnOnce(Event) -> Result<(), String>,
) -> Result<bool, String> {
    let recovered = restore::recover(workspace, home, faults).map_err(|error| error.to_string())?;
    let Some((note, applied)) = recovered else { return Ok(false) };
    let note: Value = serde_json::from_slice(&note).unwrap_or_default();
    // With another number, what happened was taken down before the daemon died.
    if note["seq"].as_u64() == Some(seq)
        && let Ok(event) = serde_json::from_value(note["event"].clone())
    {
        take_down(event)?;
    }
    applied.finish().map_err(|error| error.to_string())?;
    Ok(true)
}

/// A note of something that is begun. Without [`Pending::done`] it stays for the next start.
pub(crate) struct Pending {
    path: PathBuf,
}

impl Pending {
    /// The files of a session are about to change.
    pub(crate) fn change(data_dir: &Path, id: &SessionId) -> io::Result<Self> {
        Self::write(data_dir, id, CHANGE)
    }

    /// A session is about to be made as a copy.
    pub(crate) fn fork(data_dir: &Path, id: &SessionId) -> io::Result<Self> {
        Self::write(data_dir, id, FORK)
    }

    fn write(data_dir: &Path, id: &SessionId, what: &str) -> io::Result<Self> {
        let directory = data_dir.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{what}.{id}"));
        fs::write(&path, "")?;
        Ok(Self { path })
    }

    /// It is done, or undone.
    pub(crate) fn done(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What has to be known to end what was begun.
pub(crate) struct Settler<'a> {
    /// The data directory.
    pub data_dir: &'a Path,
    /// The store.
    pub store: &'a Store,
    /// Where files are kept.
    pub checkpoints: &'a Checkpoints,
    /// The sessions' own directories.
    pub workspaces: &'a Workspaces,
}

impl Settler<'_> {
    /// Ends everything that an earlier daemon had begun.
    pub(crate) async fn settle(&self) {
        for entry in fs::read_dir(self.data_dir.join(DIRECTORY)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let named = name.to_str().and_then(|name| name.split_once('.'));
            let Some((what, id)) = named.and_then(|(what, id)| Some((what, SessionId::parse(id).ok()?))) else {
                continue;
            };
            match self.settle_one(&id, what == FORK).await {
                Ok(()) => drop(fs::remove_file(entry.path())),
                Err(reason) => tracing::error!(session = %id, reason, "what was begun could not be ended"),
            }
        }
    }

    async fn settle_one(&self, id: &SessionId, is_fork: bool) -> Result<(), String> {
        let state = self.store.load(id).await.map_err(|error| error.to_string())?;
        match state {
            None if is_fork => {
                tracing::warn!(session = %id, "a fork was not completed; its files are removed");
                self.remove(id);
                Ok(())
            }
            Some(state) if !is_fork => self.complete(id, &state),
            _ => Ok(()),
        }
    }

    fn complete(&self, id: &SessionId, state: &SessionState) -> Result<(), String> {
        let workspace = crate::checkpoints::path(&state.meta.workspace);
        let take_down = |event| {
            let record = Record { session_id: id.clone(), seq: state.seq + 1, at: Timestamp::now(), event };
            self.store.append(&record).map_err(|error| error.to_string())
        };
        let home = self.checkpoints.home(id);
        if complete(workspace, &home, state.seq, self.checkpoints.faults(), take_down)? {
            tracing::warn!(session = %id, "a change of files that the last daemon had begun was completed");
        }
        Ok(())
    }

    fn remove(&self, id: &SessionId) {
        let workspace: ByteString = self.workspaces.of(id);
        let removed = self.workspaces.remove(&workspace);
        if let Some(workspaces) = crate::checkpoints::path(&workspace).parent() {
            // A copy that was not complete has another name.
            let _ = copy::remove_unfinished(workspaces);
        }
        let _ = fs::remove_dir_all(self.checkpoints.home(id));
        let _ = fs::remove_dir_all(self.data_dir.join("outputs").join(id.as_str()));
        if let Err(error) = removed {
            tracing::warn!(session = %id, %error, "cannot be removed");
        }
    }
}
