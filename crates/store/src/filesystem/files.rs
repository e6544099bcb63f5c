//! The files of one session, and how a file is read and replaced.

use super::formats::{Counts, MetaFile, StateFile};
use super::json::{failed, read, write};
use super::requests::{REQUESTS, RunIndex};
use crate::backend::{BackendError, SessionSummary, unknown_state};
use shellkeep_session::{FORMAT_VERSION, Message, RunId, SessionId, SessionState, ShellState, StoredRun};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The directory of the messages to its agent that were sent with a key.
pub(super) const RESUMES: &str = "resumes";

type Result<T> = std::result::Result<T, BackendError>;

/// What `state.json` and `meta.json` say.
pub(super) struct Saved {
    pub(super) state: SessionState,
    pub(super) counts: Counts,
    /// Why the session is set aside, if it is.
    pub(super) damaged: Option<String>,
}

/// The files of one session.
pub(super) struct SessionFiles {
    pub(super) directory: PathBuf,
    /// Whether a file without a checksum is damaged.
    pub(super) sealed: bool,
}

impl SessionFiles {
    /// The files in a directory, which need not exist.
    pub(super) fn new(directory: PathBuf, sealed: bool) -> Self {
        Self { directory, sealed }
    }

    /// Makes the directory.
    pub(super) fn make(&self) -> Result<()> {
        let runs = self.directory.join("runs");
        if runs.is_dir() {
            return Ok(());
        }
        // A session that has no runs yet has an index of all of them.
        for directory in [self.directory.join(REQUESTS), runs] {
            fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        }
        Ok(())
    }

    /// Deletes everything but the recorder's files. Without `state.json` there is no session, so it is deleted first.
    pub(super) fn remove(&self) -> Result<()> {
        let path = |name: &str| self.directory.join(name);
        for gone in [
            fs::remove_file(path("state.json")),
            fs::remove_file(path("meta.json")),
            fs::remove_file(path("first_shell.json")),
            fs::remove_dir_all(path("runs")),
            fs::remove_dir_all(path("messages")),
            fs::remove_dir_all(path(REQUESTS)),
            fs::remove_dir_all(path(RESUMES)),
        ] {
            match gone {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&self.directory, &error)),
                _ => {}
            }
        }
        for name in ["state.tmp", "meta.tmp", "first_shell.tmp"] {
            // An attempt that failed may have left one.
            let _ = fs::remove_file(path(name));
        }
        // The recorder may have files in it.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }

    /// Writes what never changes.
    pub(super) fn write_origin(&self, first_shell: &ShellState) -> Result<()> {
        write(&self.directory.join("first_shell.json"), first_shell)
    }

    /// Writes one message; whether there was none with its number.
    pub(super) fn write_message(&self, message: &Message) -> Result<bool> {
        let directory = self.directory.join("messages");
        fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        let path = self.message_path(message.seq_id);
        let is_new = !path.exists();
        write(&path, message).map(|()| is_new)
    }

    /// The messages after one, up to the last.
    pub(super) fn messages(&self, after: u64, last: u64, limit: usize) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        for seq_id in after.saturating_add(1)..=last {
            if messages.len() >= limit {
                break;
            }
            // One that could not be written is missing.
            messages.extend(read::<Message>(&self.message_path(seq_id), self.sealed)?);
        }
        Ok(messages)
    }

    /// Writes `meta.json`, then `state.json`. A session that is set aside keeps its state, if it has one.
    pub(super) fn write_state(&self, state: &SessionState, counts: Counts, damaged: Option<&str>) -> Result<()> {
        let path = self.directory.join("state.json");
        if damaged.is_some() && path.exists() {
            let meta = match self.meta() {
                Ok(meta) => meta.unwrap_or_else(|| MetaFile::new(state, None)),
                // It reports the damage as it is.
                Err(BackendError::Damaged { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            let meta = MetaFile { damaged: damaged.map(str::to_owned), ..meta };
            return write(&self.directory.join("meta.json"), &meta);
        }
        write(&self.directory.join("meta.json"), &MetaFile::new(state, damaged))?;
        write(&path, &StateFile::new(state, counts))
    }

    /// Writes one run.
    pub(super) fn write_run(&self, run: &StoredRun) -> Result<()> {
        write(&self.run_path(&run.run_id), run)?;
        self.run_index().add(run)
    }

    /// Which run each key started.
    pub(super) fn run_index(&self) -> RunIndex<'_> {
        RunIndex { directory: &self.directory, sealed: self.sealed }
    }

    /// Reads `meta.json`.
    pub(super) fn meta(&self) -> Result<Option<MetaFile>> {
        let meta: Option<MetaFile> = read(&self.directory.join("meta.json"), self.sealed)?;
        match meta {
            Some(meta) if meta.format > FORMAT_VERSION => Err(newer(meta.format)),
            meta => Ok(meta),
        }
    }

    /// The session as it was saved. One whose files cannot be read is set aside.
    pub(super) fn open(&self, session_id: &SessionId) -> Result<Option<Saved>> {
        match self.read_state() {
            Err(BackendError::Damaged { reason }) => {
                let (state, counts) = (unknown_state(session_id), Counts::default());
                Ok(Some(Saved { state, counts, damaged: Some(reason) }))
            }
            read => read,
        }
    }

    /// Whether all files of runs and messages are there.
    pub(super) fn check_counts(&self, counts: Counts) -> Result<()> {
        for (name, written) in [("runs", counts.runs), ("messages", counts.messages)] {
            let found = if written == 0 { 0 } else { self.count(name)? };
            if found < written {
                let reason = format!("{} of the {written} files in its {name} directory are missing", written - found);
                return Err(BackendError::Damaged { reason });
            }
        }
        Ok(())
    }

    fn count(&self, name: &str) -> Result<u64> {
        let directory = self.directory.join(name);
        let is_json = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "json");
        match fs::read_dir(&directory) {
            Ok(entries) => Ok(entries.flatten().filter(is_json).count() as u64),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(failed(&directory, &error)),
        }
    }

    fn read_state(&self) -> Result<Option<Saved>> {
        let Some(state) = read::<StateFile>(&self.directory.join("state.json"), self.sealed)? else {
            return Ok(None);
        };
        if state.format > FORMAT_VERSION {
            return Err(newer(state.format));
        }
        let Some(meta) = self.meta()? else {
            return Err(BackendError::Damaged { reason: "its meta.json is missing".to_owned() });
        };
        let damaged = meta.damaged.clone();
        let counts = state.files_written;
        Ok(Some(Saved { state: state.into_state(meta.into_meta()), counts, damaged }))
    }

    /// A row of a list. If the session cannot be read, it says so.
    pub(super) fn summary(&self, session_id: &SessionId) -> Result<Option<SessionSummary>> {
        let unknown = |reason: &str| MetaFile::new(&unknown_state(session_id), Some(reason));
        let meta = if self.directory.join("state.json").exists() {
            match self.meta() {
                Ok(Some(meta)) => meta,
                Ok(None) => unknown("its meta.json is missing"),
                Err(BackendError::Damaged { reason }) => unknown(&reason),
                Err(error) => return Err(error),
            }
        } else if self.has_remains() {
            unknown(&without_state().to_string())
        } else {
            return Ok(None);
        };
        Ok(Some(SessionSummary {
            last_active_at: meta.last_active_time,
            cwd: meta.cwd.clone(),
            generation: meta.generation,
            seq: meta.seq,
            // A file that an older program wrote says only how far it was confined at first.
            sandbox: meta.confined.max(meta.sandbox),
            hold: meta.hold.clone(),
            damaged: meta.damaged.clone(),
            meta: meta.into_meta(),
        }))
    }

    /// Whether a session has files although it has no state.
    pub(super) fn has_remains(&self) -> bool {
        ["meta.json", "first_shell.json", "runs"].iter().any(|name| self.directory.join(name).exists())
    }

    /// One run.
    pub(super) fn run(&self, run_id: &RunId) -> Result<Option<StoredRun>> {
        read(&self.run_path(run_id), self.sealed)
    }

    /// Reads `first_shell.json`.
    pub(super) fn first_shell(&self) -> Result<Option<ShellState>> {
        match read(&self.directory.join("first_shell.json"), self.sealed)? {
            None if self.sealed => Err(BackendError::Damaged { reason: "its first_shell.json is missing".to_owned() }),
            first_shell => Ok(first_shell),
        }
    }

    fn message_path(&self, seq_id: u64) -> PathBuf {
        self.directory.join("messages").join(format!("{seq_id}.json"))
    }

    pub(super) fn run_path(&self, run_id: &RunId) -> PathBuf {
        self.directory.join("runs").join(format!("{run_id}.json"))
    }
}

/// The reason for a session whose state is missing.
pub(super) fn without_state() -> BackendError {
    BackendError::Damaged { reason: "its state.json is missing".to_owned() }
}

fn newer(found: u32) -> BackendError {
    BackendError::Damaged { reason: format!("its files have format {found}, newer than {FORMAT_VERSION}") }
}
