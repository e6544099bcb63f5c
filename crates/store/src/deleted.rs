//! Sessions that their agents deleted. The session and its files are gone for the agent; its recording and outputs stay
//! in a separate directory until the host's retention ends or the host deletes them.
//!
//! ```text
//! deleted/NAME/recording/    the recording, as it was, with a last line that says who removed the session
//! deleted/NAME/outputs/      the outputs and agent states that lines name
//! deleted/NAME/deleted.json  who and when, for lists
//! ```

use crate::recordings::DELETED;
use crate::sealed::{self, Survives};
use serde::{Deserialize, Serialize};
use shellkeep_record::DELETED_RECORDING;
use shellkeep_session::{SessionId, SessionMeta, Timestamp};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The metadata of a deleted session.
const NOTE: &str = "deleted.json";
/// Its outputs.
const OUTPUTS: &str = "outputs";
/// The part between a session's name and the time in the name of a kept recording.
const MARK: &str = ".deleted.";
/// Longest part of a session's name in that name, so that both fit into an id.
const MOST_NAME: usize = 100;

/// A session that its agent deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedSession {
    /// The name under which it is kept.
    pub kept_as: SessionId,
    /// The name it had.
    pub session_id: SessionId,
    /// The agent that it belonged to.
    pub agent: Option<String>,
    /// The id of the token that deleted it.
    pub by: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// Number of the last line of its recording.
    pub seq: u64,
}

impl DeletedSession {
    /// A session that is deleted now.
    pub fn new(meta: &SessionMeta, seq: u64, by: Option<String>) -> Option<Self> {
        let deleted_at = Timestamp::now();
        let session_id = meta.session_id.clone();
        let name: &str = &session_id.as_str()[..session_id.as_str().len().min(MOST_NAME)];
        let kept_as = SessionId::parse(&format!("{name}{MARK}{}", deleted_at.as_microsecond())).ok()?;
        let (agent, created_at) = (meta.agent.clone(), meta.created_at);
        Some(Self { kept_as, session_id, agent, by, created_at, deleted_at, seq })
    }
}

/// Whether this is a name of a deleted session. No new session gets such a name, so that none can shadow a deleted one.
pub fn is_name(id: &SessionId) -> bool {
    let time = id.as_str().rsplit_once(MARK).map(|(_, time)| time);
    time.is_some_and(|time| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The directory of a deleted session.
fn home(data_dir: &Path, kept_as: &SessionId) -> PathBuf {
    data_dir.join(DELETED).join(kept_as.as_str())
}

/// Where the recording of a deleted session is.
pub fn recording(data_dir: &Path, kept_as: &SessionId) -> PathBuf {
    home(data_dir, kept_as).join(DELETED_RECORDING)
}

/// Where its outputs are.
pub fn outputs(data_dir: &Path, kept_as: &SessionId) -> PathBuf {
    home(data_dir, kept_as).join(OUTPUTS)
}

/// Keeps the outputs of a session that is deleted, and notes who deleted it. Can be repeated after a crash.
pub fn keep(data_dir: &Path, deleted: &DeletedSession, from: &Path) -> io::Result<()> {
    let home = home(data_dir, &deleted.kept_as);
    fs::create_dir_all(&home)?;
    match fs::rename(from, home.join(OUTPUTS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // What a command wrote after that belongs to no run.
        Err(_) if home.join(OUTPUTS).exists() => fs::remove_dir_all(from)?,
        moved => moved?,
    }
    sealed::write(&home.join(NOTE), deleted, Survives::Crash)
}

/// A deleted session by the name under which it is kept.
pub fn find(data_dir: &Path, kept_as: &SessionId) -> Option<DeletedSession> {
    if !is_name(kept_as) {
        return None;
    }
    sealed::read(&home(data_dir, kept_as).join(NOTE)).unwrap_or_else(|error| {
        tracing::warn!(session = %kept_as, %error, "the note of a deleted session cannot be read");
        None
    })
}

/// All deleted sessions, by name.
pub fn list(data_dir: &Path) -> Vec<DeletedSession> {
    let entries = fs::read_dir(data_dir.join(DELETED)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| SessionId::parse(entry.file_name().to_str()?).ok());
    let mut all: Vec<DeletedSession> = names.filter_map(|name| find(data_dir, &name)).collect();
    all.sort_by(|one, other| one.kept_as.cmp(&other.kept_as));
    all
}

/// Deletes everything that is kept of a deleted session.
pub fn purge(data_dir: &Path, kept_as: &SessionId) -> io::Result<()> {
    let (home, note) = (home(data_dir, kept_as), home(data_dir, kept_as).join(NOTE));
    fs::metadata(&note)?;
    // The note last: with it, what a crash leaves is found and deleted by the next try.
    for part in [DELETED_RECORDING, OUTPUTS] {
        match fs::remove_dir_all(home.join(part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_file(note)?;
    fs::remove_dir_all(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> SessionMeta {
        SessionMeta { agent: Some("ann".to_owned()), ..SessionMeta::of_name(SessionId::parse(name).unwrap()) }
    }

    #[test]
    fn a_removed_session_is_kept_found_and_removed_for_good() {
        let data = tempfile::tempdir().unwrap();
        let outputs = data.path().join("outputs/s");
        fs::create_dir_all(&outputs).unwrap();
        fs::write(outputs.join("r2.stdout"), "long").unwrap();
        let deleted = DeletedSession::new(&meta("s"), 7, Some("tok".to_owned())).unwrap();
        // A crash may make it come again.
        keep(data.path(), &deleted, &outputs).unwrap();
        keep(data.path(), &deleted, &outputs).unwrap();
        assert!(!outputs.exists());
        let kept = super::outputs(data.path(), &deleted.kept_as).join("r2.stdout");
        assert_eq!(fs::read_to_string(kept).unwrap(), "long");
        assert_eq!(find(data.path(), &deleted.kept_as), Some(deleted.clone()));
        assert_eq!(list(data.path()), std::slice::from_ref(&deleted));
        assert_eq!(find(data.path(), &deleted.session_id), None);
        // A crash came before the end of a first try.
        fs::remove_dir_all(super::outputs(data.path(), &deleted.kept_as)).unwrap();
        purge(data.path(), &deleted.kept_as).unwrap();
        assert!(!home(data.path(), &deleted.kept_as).exists());
        assert!(list(data.path()).is_empty() && purge(data.path(), &deleted.kept_as).is_err());
    }

    #[test]
    fn names_of_removed_sessions_are_their_own() {
        let long = DeletedSession::new(&meta(&"x".repeat(128)), 7, None).unwrap();
        assert!(is_name(&long.kept_as) && long.kept_as.as_str().len() <= 128);
        for name in ["s", "s.deleted.", "s.deleted.1a", "deleted.1"] {
            assert!(!is_name(&SessionId::parse(name).unwrap()), "{name}");
        }
    }
}
