//! The files of one session, and how a file is read and replaced.

use super::json::{failed, read, write};
use super::requests::{REQUESTS, RunIndex};
use crate::backend::{BackendError, Mark, SessionSummary, unknown_state};
use serde::{Deserialize, Serialize};
use shellkeep_session::{
    ActiveRun, AgentState, ByteString, Claims, FORMAT_VERSION, FilesAt, KvState, LeftProcess, Message, Notice, Origin,
    RunId, Sandbox, Service, ServiceId, SessionHold, SessionId, SessionMeta, SessionState, ShellState, StoredRun,
    Timestamp, Unkept, stored_as_json,
};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The directory of the messages to its agent that were sent with a key.
pub(super) const RESUMES: &str = "resumes";

type Result<T> = std::result::Result<T, BackendError>;

/// How far the journal has been applied: `applied.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AppliedFile {
    /// Version of all files in the directory.
    pub format: u32,
    /// The backend's id.
    pub id: String,
    pub mark: Mark,
    /// Whether every file has a checksum; those of a store that an older program began may have none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
}

/// `meta.json`: what a list shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MetaFile {
    /// Version of the session's files.
    pub format: u32,
    pub session_id: SessionId,
    #[serde(default)]
    pub agent: Option<String>,
    /// The configuration given at creation.
    #[serde(default)]
    pub agent_config: serde_json::Value,
    /// When it began.
    pub create_time: Timestamp,
    /// When the last record was made.
    pub last_active_time: Timestamp,
    /// Where its files are.
    pub workspace: ByteString,
    /// The user that it was named for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The token that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The session that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// How far its processes were confined when it was created.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// The names of the secrets that it is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Its working directory.
    pub cwd: ByteString,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of the last record.
    pub seq: u64,
    /// Whether something of it runs.
    pub unrest: bool,
    /// How far its processes are confined now.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub confined: Sandbox,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<SessionHold>>,
    /// Why it was set aside, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

stored_as_json!(AppliedFile, MetaFile, StateFile);

/// `state.json`: the state without what `meta.json` has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StateFile {
    /// Version of the session's files.
    pub format: u32,
    /// Number of the last record.
    pub seq: u64,
    /// When the last record was made.
    pub last_active_at: Timestamp,
    /// How many shells it has had.
    pub generation: u64,
    /// How far its processes are confined.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub sandbox: Sandbox,
    /// Runs that have started and not ended.
    pub active_runs: BTreeMap<RunId, ActiveRun>,
    /// What finished commands left running.
    #[serde(default)]
    pub processes: Vec<LeftProcess>,
    /// What else only its shell has.
    #[serde(default, skip_serializing_if = "Unkept::is_empty")]
    pub unkept: Unkept,
    /// Its services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<ServiceId, Service>,
    /// When it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Notices for the next result.
    pub pending_notices: Vec<Notice>,
    /// What the agent's framework saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Box<AgentState>>,
    /// The highest version that a state of its agent ever had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_versions: u64,
    /// Number of the last message of the conversation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
    /// Number of the record with which the agent last completed a step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_step: u64,
    /// The checkpoint of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesAt>,
    /// What is known of the keyed store.
    #[serde(default, skip_serializing_if = "KvState::is_unused")]
    pub kv: KvState,
    /// Which nodes have owned it.
    #[serde(default, skip_serializing_if = "Claims::is_empty")]
    pub claims: Claims,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<SessionHold>>,
    /// The minimum number of files of its runs and messages, to detect missing ones.
    #[serde(default, skip_serializing_if = "Counts::is_zero")]
    pub files_written: Counts,
    /// The state of its shell.
    pub shell: ShellState,
}

/// Files of runs and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub runs: u64,
    pub messages: u64,
}

impl Counts {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The files of one session.
pub(super) struct SessionFiles {
    pub(super) directory: PathBuf,
    /// Whether a file without a checksum is damaged.
    pub(super) sealed: bool,
}

impl MetaFile {
    /// The `meta.json` of a state.
    pub(super) fn new(state: &SessionState, damaged: Option<&str>) -> Self {
        Self {
            format: FORMAT_VERSION,
            session_id: state.meta.session_id.clone(),
            agent: state.meta.agent.clone(),
            agent_config: state.meta.agent_config.clone(),
            create_time: state.meta.created_at,
            last_active_time: state.last_active_at,
            workspace: state.meta.workspace.clone(),
            user_id: state.meta.user_id.clone(),
            by: state.meta.by.clone(),
            forked_from: state.meta.forked_from.clone(),
            sandbox: state.meta.sandbox,
            secrets: state.meta.secrets.clone(),
            cwd: state.shell.cwd.clone(),
            generation: state.generation,
            seq: state.seq,
            unrest: !state.is_at_rest(),
            confined: state.sandbox,
            hold: state.hold.clone(),
            damaged: damaged.map(str::to_owned),
        }
    }

    fn into_meta(self) -> SessionMeta {
        SessionMeta {
            session_id: self.session_id,
            agent: self.agent,
            agent_config: self.agent_config,
            created_at: self.create_time,
            workspace: self.workspace,
            user_id: self.user_id,
            by: self.by,
            forked_from: self.forked_from,
            sandbox: self.sandbox,
            secrets: self.secrets,
        }
    }
}

impl StateFile {
    /// The `state.json` of a state.
    pub(super) fn new(state: &SessionState, files_written: Counts) -> Self {
        Self {
            files_written,
            format: FORMAT_VERSION,
            seq: state.seq,
            last_active_at: state.last_active_at,
            generation: state.generation,
            sandbox: state.sandbox,
            active_runs: state.active_runs.clone(),
            processes: state.processes.clone(),
            unkept: state.unkept.clone(),
            services: state.services.clone(),
            ended_at: state.ended_at,
            pending_notices: state.pending_notices.clone(),
            agent_state: state.agent_state.clone(),
            agent_versions: state.agent_versions,
            messages: state.messages,
            agent_step: state.agent_step,
            files: state.files.clone(),
            kv: state.kv,
            claims: state.claims.clone(),
            hold: state.hold.clone(),
            shell: state.shell.clone(),
        }
    }

    fn into_state(self, meta: SessionMeta) -> SessionState {
        SessionState {
            meta,
            seq: self.seq,
            last_active_at: self.last_active_at,
            generation: self.generation,
            sandbox: self.sandbox,
            active_runs: self.active_runs,
            processes: self.processes,
            unkept: self.unkept,
            services: self.services,
            ended_at: self.ended_at,
            pending_notices: self.pending_notices,
            // Versions before 4 did not count; the current state counts.
            agent_versions: self.agent_versions.max(self.agent_state.as_ref().map_or(0, |state| state.version)),
            agent_state: self.agent_state,
            messages: self.messages,
            agent_step: self.agent_step,
            files: self.files,
            kv: self.kv,
            claims: self.claims,
            hold: self.hold,
            shell: self.shell,
        }
    }
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

    /// The state with its counts, and why it is set aside if it is. Files that cannot be read are a reason too.
    pub(super) fn open(&self, session_id: &SessionId) -> Result<Option<(SessionState, Counts, Option<String>)>> {
        match self.read_state() {
            Ok(read) => Ok(read),
            Err(BackendError::Damaged { reason }) => {
                Ok(Some((unknown_state(session_id), Counts::default(), Some(reason))))
            }
            Err(error) => Err(error),
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

    fn read_state(&self) -> Result<Option<(SessionState, Counts, Option<String>)>> {
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
        Ok(Some((state.into_state(meta.into_meta()), counts, damaged)))
    }

    /// A row of a list. If the session cannot be read, it says so.
    pub(super) fn summary(&self, session_id: &SessionId) -> Result<Option<SessionSummary>> {
        if !self.directory.join("state.json").exists() {
            let remains = self.has_remains().then(|| {
                let state = unknown_state(session_id);
                let reason = without_state().to_string();
                SessionSummary {
                    meta: state.meta,
                    last_active_at: state.last_active_at,
                    cwd: state.shell.cwd,
                    generation: 0,
                    seq: 0,
                    sandbox: state.sandbox,
                    hold: None,
                    damaged: Some(reason),
                }
            });
            return Ok(remains);
        }
        let unknown = |reason| MetaFile::new(&unknown_state(session_id), Some(reason));
        let meta = match self.meta() {
            Ok(Some(meta)) => meta,
            Ok(None) => unknown("its meta.json is missing"),
            Err(BackendError::Damaged { reason }) => unknown(&reason),
            Err(error) => return Err(error),
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
