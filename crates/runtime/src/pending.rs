//! What is begun and would leave a session in between if the daemon died now: a rewind, a fork, a removal. It is written down before,
//! and at the next start it is ended one way or the other.

use crate::checkpoints::Checkpoints;
use crate::deleted::{self, DeletedSession};
use serde_json::{Value, json};
use shellkeep_session::{ByteString, Event, Record, SessionId, SessionMeta, SessionState, Timestamp};
use shellkeep_store::sum::{self, Unsealed};
use shellkeep_store::{ReadError, Store};
use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::{Workspaces, copy, restore};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "pending";
/// What the names of notes begin with.
const CHANGE: &str = "change";
const FORK: &str = "fork";
const DELETE: &str = "delete";

/// The record that follows a change of files, as it is written down before.
pub(crate) fn note(seq: u64, event: &Event) -> Vec<u8> {
    // What a record holds can be written as JSON.
    let note = json!({"seq": seq, "event": serde_json::to_value(event).unwrap_or_default()});
    sum::seal(serde_json::to_vec(&note).unwrap_or_default())
}

/// Completes a change of files that was begun, and takes down what it was. Whether there was one.
pub(crate) fn complete(
    workspace: &Path,
    home: &Path,
    seq: u64,
    faults: &Faults,
    take_down: impl FnOnce(Event) -> Result<(), String>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let Some((note, applied)) = restore::recover(workspace, home, faults)? else { return Ok(false) };
    let note = read_note(note)?;
    // With another number, what happened was taken down before the daemon died.
    if note["seq"].as_u64() == Some(seq)
        && let Ok(event) = serde_json::from_value(note["event"].clone())
    {
        take_down(event)?;
    }
    applied.finish()?;
    Ok(true)
}

/// What a note says; nothing if it was not written to its end. One that was changed since is not followed.
fn read_note(note: Vec<u8>) -> Result<Value, String> {
    match sum::unseal(note) {
        Unsealed::Checked(bytes) | Unsealed::Without(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Unsealed::Broken => Err(format!("the note of what was begun: {}", sum::MISMATCH)),
    }
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

    /// A session is about to be removed. With `power` the note survives a loss of power.
    pub(crate) fn deletion(data_dir: &Path, deletion: &Deletion, power: bool) -> io::Result<Self> {
        let pending = Self::place(data_dir, &deletion.id, DELETE)?;
        let mut file = fs::File::create(&pending.path)?;
        file.write_all(&sum::seal(deletion.to_json().to_string().into_bytes()))?;
        if power {
            file.sync_all()?;
            fs::File::open(data_dir.join(DIRECTORY))?.sync_all()?;
        }
        Ok(pending)
    }

    fn write(data_dir: &Path, id: &SessionId, what: &str) -> io::Result<Self> {
        let pending = Self::place(data_dir, id, what)?;
        fs::write(&pending.path, "")?;
        Ok(pending)
    }

    fn place(data_dir: &Path, id: &SessionId, what: &str) -> io::Result<Self> {
        let directory = data_dir.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        Ok(Self { path: directory.join(format!("{what}.{id}")) })
    }

    /// It is done, or undone.
    pub(crate) fn done(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What becomes of a session's trail when the session is removed.
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

/// The removal of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deletion {
    /// Which.
    pub id: SessionId,
    /// When it was made: another session of the same name is not meant.
    created_at: Timestamp,
    /// Its files.
    workspace: ByteString,
    /// What is kept of it, if something is.
    pub kept: Option<DeletedSession>,
}

impl Deletion {
    /// A removal of a session whose end is record `seq`.
    pub(crate) fn new(meta: &SessionMeta, seq: u64, removal: Removal) -> Self {
        let kept = match removal {
            Removal::Purge => None,
            // Of a session that cannot be read it is not known which line is the last.
            Removal::Keep { by } => DeletedSession::new(meta, if seq == u64::MAX { 0 } else { seq }, Some(by)),
        };
        let (id, created_at, workspace) = (meta.session_id.clone(), meta.created_at, meta.workspace.clone());
        Self { id, created_at, workspace, kept }
    }

    /// A removal of files that no session has.
    pub(crate) fn of_files(id: &SessionId, workspace: ByteString) -> Self {
        Self { id: id.clone(), created_at: Timestamp::UNIX_EPOCH, workspace, kept: None }
    }

    /// What is recorded of it.
    pub(crate) fn event(&self) -> Event {
        match &self.kept {
            None => Event::SessionDestroyed,
            Some(kept) => Event::SessionDeleted { by: kept.by.clone(), kept_as: kept.kept_as.clone() },
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "session_id": self.id.as_str(),
            "created_at": self.created_at.to_string(),
            "workspace": serde_json::to_value(&self.workspace).unwrap_or_default(),
            "kept": self.kept.as_ref().map(DeletedSession::to_json),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            id: SessionId::parse(value["session_id"].as_str()?).ok()?,
            created_at: value["created_at"].as_str()?.parse().ok()?,
            workspace: serde_json::from_value(value["workspace"].clone()).ok()?,
            kept: DeletedSession::from_json(&value["kept"]),
        })
    }

    /// Keeps what is to be kept and removes the rest. May be called again after a crash.
    pub(crate) fn remove_files(&self, data_dir: &Path, workspaces: &Workspaces, checkpoints: &Path) {
        let outputs = data_dir.join("outputs").join(self.id.as_str());
        if let Some(kept) = &self.kept
            && let Err(error) = deleted::keep(data_dir, kept, &outputs)
        {
            tracing::error!(session = %self.id, %error, "the outputs of a removed session could not be kept");
        }
        if let Err(error) = workspaces.remove(&self.workspace) {
            tracing::warn!(workspace = %self.workspace.to_text(), %error, "cannot be removed");
        }
        // Most sessions have no output that needed a file.
        let _ = fs::remove_dir_all(outputs);
        let _ = fs::remove_dir_all(data_dir.join("services").join(self.id.as_str()));
        let _ = fs::remove_dir_all(checkpoints);
    }
}

/// A removal that an earlier daemon had begun.
pub(crate) struct Unfinished {
    deletion: Deletion,
    note: PathBuf,
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
    /// Ends everything that an earlier daemon had begun, and gives the removals of which files are left: they go when
    /// nothing of the earlier daemon runs any more.
    pub(crate) async fn settle(&self) -> Vec<Unfinished> {
        let mut unfinished = Vec::new();
        for entry in fs::read_dir(self.data_dir.join(DIRECTORY)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let named = name.to_str().and_then(|name| name.split_once('.'));
            let Some((what, id)) = named.and_then(|(what, id)| Some((what, SessionId::parse(id).ok()?))) else {
                continue;
            };
            if what == DELETE {
                match self.settle_deletion(&entry.path()).await {
                    Ok(Some(deletion)) => unfinished.push(Unfinished { deletion, note: entry.path() }),
                    Ok(None) => drop(fs::remove_file(entry.path())),
                    Err(reason) => tracing::error!(session = %id, reason, "a removal could not be finished"),
                }
                continue;
            }
            match self.settle_one(&id, what == FORK).await {
                Ok(()) => drop(fs::remove_file(entry.path())),
                Err(reason) => tracing::error!(session = %id, reason, "what was begun could not be ended"),
            }
        }
        unfinished
    }

    /// Records the end of a session that was being removed, if that was not done. None if it is another session by now, or
    /// if the note was not written to its end: then nothing had been done.
    async fn settle_deletion(&self, note: &Path) -> Result<Option<Deletion>, String> {
        let note = fs::read(note).map_err(|error| error.to_string())?;
        let note = read_note(note)?;
        let Some(deletion) = Deletion::from_json(&note) else { return Ok(None) };
        let seq = match self.store.load(&deletion.id).await {
            Ok(None) => return Ok(Some(deletion)),
            Ok(Some(state)) if state.meta.created_at == deletion.created_at => state.seq + 1,
            Ok(Some(_)) => return Ok(None),
            Err(ReadError::Damaged { .. }) => u64::MAX,
            Err(error) => return Err(error.to_string()),
        };
        let (session_id, at) = (deletion.id.clone(), Timestamp::now());
        let record = Record { session_id, seq, at, event: deletion.event() };
        self.store.append(&record).map_err(|error| error.to_string())?;
        Ok(Some(deletion))
    }

    /// Removes the files of sessions that were being removed.
    pub(crate) async fn finish_deletions(&self, unfinished: Vec<Unfinished>) {
        for Unfinished { deletion, note } in unfinished {
            if let Err(error) = self.store.flush_about(&deletion.id).await {
                tracing::warn!(session = %deletion.id, %error, "its recording may be behind");
            }
            deletion.remove_files(self.data_dir, self.workspaces, &self.checkpoints.home(&deletion.id));
            let _ = fs::remove_file(note);
            tracing::warn!(session = %deletion.id, "a removal that the last daemon had begun was finished");
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
        if self.store.home().yields_to().is_some() && !workspace.starts_with(self.data_dir) {
            return Err("the files are the original's, of which this data directory is a copy".to_owned());
        }
        let take_down = |event| {
            let record = Record { session_id: id.clone(), seq: state.seq + 1, at: Timestamp::now(), event };
            self.store.append(&record).map_err(|error| error.to_string())
        };
        let home = self.checkpoints.home(id);
        if complete(workspace, &home, state.seq, self.checkpoints.faults(), take_down)
            .map_err(|error| error.to_string())?
        {
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
