//! `pending/`: notes of operations that a crash could leave half done: a change of files, a fork, a deletion. A note is
//! written before the operation and removed after it; the next start completes or undoes what it finds.
//!
//! The name of a note, `KIND.SESSION`, says what was begun. Only a deletion has more to say, in a sealed file. What
//! follows a change of files is beside the staged files, as a [`FileChange`].

use crate::deleted::DeletedSession;
use crate::sealed::{self, Survives};
use serde::{Deserialize, Serialize};
use shellkeep_session::{ByteString, Event, SessionId, SessionMeta, Timestamp};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "pending";
const CHANGE: &str = "change";
const FORK: &str = "fork";
const DELETE: &str = "delete";

/// The record that follows a change of files, written before the change is applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileChange {
    /// The session's number before that record. With another number, the record was appended before the crash.
    pub seq: u64,
    pub event: Event,
}

impl FileChange {
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        sealed::encode(self)
    }

    /// Decodes a note; `None` if it is empty, since no record follows, or was not written to its end.
    pub fn decode(note: Vec<u8>) -> io::Result<Option<Self>> {
        sealed::decode_whole(note)
    }
}

/// A session that is being deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deletion {
    #[serde(rename = "session_id")]
    pub id: SessionId,
    /// When the session was created: another session of the same name is not meant.
    pub created_at: Timestamp,
    pub workspace: ByteString,
    /// What is kept of the session, if anything is.
    #[serde(default)]
    pub kept: Option<DeletedSession>,
}

impl Deletion {
    /// The deletion of a session, and what is kept of it.
    pub fn new(meta: &SessionMeta, kept: Option<DeletedSession>) -> Self {
        let (id, created_at, workspace) = (meta.session_id.clone(), meta.created_at, meta.workspace.clone());
        Self { id, created_at, workspace, kept }
    }

    /// The deletion of files that belong to no session.
    pub fn of_files(id: &SessionId, workspace: ByteString) -> Self {
        Self { id: id.clone(), created_at: Timestamp::UNIX_EPOCH, workspace, kept: None }
    }

    /// Whether it is this session that is deleted. The time of creation of an unreadable session is not known.
    pub fn is_of(&self, meta: &SessionMeta) -> bool {
        self.id == meta.session_id && [meta.created_at, Timestamp::UNIX_EPOCH].contains(&self.created_at)
    }

    /// The session's last event.
    pub fn event(&self) -> Event {
        match &self.kept {
            None => Event::SessionDestroyed,
            Some(kept) => Event::SessionDeleted { by: kept.by.clone(), kept_as: kept.kept_as.clone() },
        }
    }
}

/// A note. Without [`Pending::done`] it stays for the next start.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    path: PathBuf,
}

impl Pending {
    /// The files of a session are about to change.
    pub fn change(data_dir: &Path, id: &SessionId) -> io::Result<Self> {
        Self::create(data_dir, id, CHANGE)
    }

    /// A session is about to be created as a copy.
    pub fn fork(data_dir: &Path, id: &SessionId) -> io::Result<Self> {
        Self::create(data_dir, id, FORK)
    }

    /// A session is about to be deleted.
    pub fn deletion(data_dir: &Path, deletion: &Deletion, survives: Survives) -> io::Result<Self> {
        let pending = Self::place(data_dir, &deletion.id, DELETE)?;
        sealed::write(&pending.path, deletion, survives)?;
        Ok(pending)
    }

    /// The operation is complete, or undone.
    pub fn done(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a note could not be removed; the next start looks again");
        }
    }

    fn create(data_dir: &Path, id: &SessionId, kind: &str) -> io::Result<Self> {
        let pending = Self::place(data_dir, id, kind)?;
        File::create(&pending.path)?;
        Ok(pending)
    }

    fn place(data_dir: &Path, id: &SessionId, kind: &str) -> io::Result<Self> {
        let directory = data_dir.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        Ok(Self { path: directory.join(format!("{kind}.{id}")) })
    }
}

/// An operation that an earlier daemon had started.
#[derive(Debug)]
pub enum Begun {
    Change,
    Fork,
    /// `None` if the note is incomplete: then nothing was deleted.
    Deletion(io::Result<Option<Box<Deletion>>>),
}

/// A note that an earlier daemon left.
#[derive(Debug)]
pub struct LeftOver {
    pub id: SessionId,
    pub begun: Begun,
    pub note: Pending,
}

/// All notes that an earlier daemon left.
pub fn left_over(data_dir: &Path) -> Vec<LeftOver> {
    let entries = fs::read_dir(data_dir.join(DIRECTORY)).into_iter().flatten().flatten();
    entries.filter_map(|entry| left_over_in(entry.path())).collect()
}

fn left_over_in(path: PathBuf) -> Option<LeftOver> {
    let (kind, id) = path.file_name()?.to_str()?.split_once('.')?;
    let id = SessionId::parse(id).ok()?;
    let begun = match kind {
        CHANGE => Begun::Change,
        FORK => Begun::Fork,
        DELETE => Begun::Deletion(fs::read(&path).and_then(sealed::decode_whole)),
        _ => return None,
    };
    Some(LeftOver { id, begun, note: Pending { path } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_until_it_is_done() {
        let home = tempfile::tempdir().unwrap();
        let id = SessionId::parse("a.b").unwrap();
        let deletion = Deletion::of_files(&id, vec![b'/', 0xff].into());
        let notes = [
            Pending::change(home.path(), &id).unwrap(),
            Pending::fork(home.path(), &id).unwrap(),
            Pending::deletion(home.path(), &deletion, Survives::Power).unwrap(),
        ];
        let found = left_over(home.path());
        assert!(found.len() == 3 && found.iter().all(|left| left.id == id), "{found:?}");
        let of_deletion = |left: &LeftOver| match &left.begun {
            Begun::Deletion(Ok(Some(found))) => **found == deletion,
            _ => false,
        };
        assert!(found.iter().any(of_deletion), "{found:?}");
        notes.into_iter().for_each(Pending::done);
        assert!(left_over(home.path()).is_empty());
    }

    #[test]
    fn a_note_that_was_changed_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let deletion = Deletion::of_files(&SessionId::parse("a").unwrap(), "/w".into());
        let note = Pending::deletion(home.path(), &deletion, Survives::Crash).unwrap();
        let text = fs::read_to_string(&note.path).unwrap();
        fs::write(&note.path, text.replace("/w", "/x")).unwrap();
        assert!(matches!(left_over(home.path())[0].begun, Begun::Deletion(Err(_))));
        fs::write(&note.path, &text[..text.len() / 2]).unwrap();
        assert!(matches!(left_over(home.path())[0].begun, Begun::Deletion(Ok(None))));
    }

    #[test]
    fn the_record_after_a_change_of_files_comes_back_or_is_refused() {
        let change = FileChange { seq: 7, event: Event::SessionDestroyed };
        let note = change.encode().unwrap();
        assert_eq!(FileChange::decode(note.clone()).unwrap(), Some(change));
        let changed = String::from_utf8(note).unwrap().replace('7', "8");
        assert!(FileChange::decode(changed.into_bytes()).is_err());
        assert_eq!(FileChange::decode(Vec::new()).unwrap(), None);
    }
}
