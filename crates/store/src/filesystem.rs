//! Sessions as directories that a person can read: `sessions/{session_id}/` with `meta.json`, `state.json`,
//! `first_shell.json`, `runs/{run_id}.json`, `requests/{request_id}`, `resumes/{request_id}.json` and
//! `messages/{seq_id}.json`. The recorder's files are there too.
//!
//! Each file is replaced atomically. `state.json` is written last and carries the number of the last record, so a crash
//! between two files leaves an older number, and the journal's records are applied again over what is there.

mod files;
mod formats;
mod json;
mod requests;
mod resumes;
mod runs;
mod scrub;

use crate::backend::{
    Backend, BackendError, Entry, Known, Mark, RecordAction, SessionSummary, begin, carried_runs, fresh_id, listed_run,
    started_run, step,
};
use crate::error::{Durability, OpenError};
use crate::lock;
use files::{Saved, SessionFiles};
use formats::{AppliedFile, Counts, MetaFile};
use resumes::{Resumes, StoredResumes};
use shellkeep_redact::Redactor;
use shellkeep_session::{
    Event, FORMAT_VERSION, Message, Record, RunId, RunKey, SessionId, SessionState, ShellState, StoredResume, StoredRun,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Sessions whose state is kept in memory between batches; beyond this number all are read again when needed.
const LIVE_SESSIONS: usize = 1024;

type Result<T> = std::result::Result<T, BackendError>;

/// A session while it is being written.
struct Live {
    state: SessionState,
    counts: Counts,
    damaged: Option<String>,
    changed: bool,
    first_shell: Option<ShellState>,
    runs: BTreeMap<RunId, StoredRun>,
    messages: Vec<Message>,
    resumes: Resumes,
}

/// A backend in a directory.
pub(crate) struct FilesystemBackend {
    directory: PathBuf,
    durability: Durability,
    applied: AppliedFile,
    live: HashMap<SessionId, Live>,
    _lock: File,
}

impl FilesystemBackend {
    /// Opens or makes the directory.
    pub(crate) fn open(directory: &Path, durability: Durability) -> std::result::Result<Self, OpenError> {
        let not_writable = |error: std::io::Error| OpenError::not_writable(directory, &error);
        lock::private_directory(&directory.join("sessions")).map_err(not_writable)?;
        let lock = lock::take(&directory.join("store.lock"))?;
        let path = directory.join("applied.json");
        let corrupt = |reason: String| OpenError::Corrupt { path: path.clone(), reason };
        // An empty one was rejected before, unless the host accepts the loss.
        let is_empty = fs::metadata(&path).is_ok_and(|file| file.len() == 0);
        let left = if is_empty { Ok(None) } else { json::read::<AppliedFile>(&path, false) };
        let left = left.map_err(|error| corrupt(error.to_string()))?;
        let applied = match left {
            Some(left) if left.format > FORMAT_VERSION => {
                return Err(OpenError::NewerFormat { place: path, found: left.format, ours: FORMAT_VERSION });
            }
            // From here on everything is written in our format, whatever the store started with.
            Some(left) => AppliedFile { format: FORMAT_VERSION, ..left },
            None => {
                let id = fresh_id().map_err(not_writable)?;
                AppliedFile { format: FORMAT_VERSION, id, mark: Mark::default(), sealed: true }
            }
        };
        json::write(&path, &applied)
            .map_err(|error| OpenError::NotWritable { path: path.clone(), reason: error.to_string() })?;
        Ok(Self { directory: directory.to_owned(), durability, applied, live: HashMap::new(), _lock: lock })
    }

    fn files(&self, session_id: &SessionId) -> SessionFiles {
        SessionFiles::new(self.directory.join("sessions").join(session_id.as_str()), self.applied.sealed)
    }

    fn take_record(&mut self, record: &Record) -> Result<()> {
        let session_id = &record.session_id;
        let files = self.files(session_id);
        let session = self.find(session_id)?;
        let known = session.as_ref().map(|live| Known { seq: live.state.seq, damaged: live.damaged.is_some() });
        match (step(known, record), session) {
            // An interrupted deletion may have left files.
            (RecordAction::Skip, None) if record.event.destroys() => files.remove(),
            (RecordAction::Skip, _) => Ok(()),
            (RecordAction::Damage { reason }, _) => self.damage(session_id, reason),
            (RecordAction::Destroy, _) => {
                self.live.remove(session_id);
                files.remove()
            }
            (RecordAction::Create, _) => match begin(record) {
                Ok((state, first_shell)) => {
                    // An interrupted creation or deletion may have left files.
                    files.remove()?;
                    let mut session = Live::begin(state, first_shell);
                    session.carry(record, &files);
                    self.live.insert(session_id.clone(), session);
                    Ok(())
                }
                Err(error) => self.damage(session_id, error.to_string()),
            },
            (RecordAction::Apply, Some(session)) => session.apply(record, &files),
            // Only an existing session can continue.
            (RecordAction::Apply, None) => Ok(()),
        }
    }

    fn find(&mut self, session_id: &SessionId) -> Result<Option<&mut Live>> {
        if !self.live.contains_key(session_id)
            && let Some(Saved { state, counts, damaged }) = self.files(session_id).open(session_id)?
        {
            // Newly found damage is written to `meta.json`, which lists read.
            let changed = damaged.is_some();
            self.live.insert(session_id.clone(), Live { damaged, changed, counts, ..Live::new(state) });
        }
        Ok(self.live.get_mut(session_id))
    }

    /// Sets a session aside. Only `meta.json` is changed, so that a person can inspect the damage.
    fn damage(&mut self, session_id: &SessionId, reason: String) -> Result<()> {
        let unknown = Live::begin(crate::backend::unknown_state(session_id), ShellState::default());
        if self.find(session_id)?.is_none() {
            self.live.insert(session_id.clone(), unknown);
        }
        if let Some(session) = self.live.get_mut(session_id) {
            session.damaged.get_or_insert(reason);
            session.changed = true;
        }
        Ok(())
    }

    fn write(&mut self, entries: &[Entry], mark: Mark) -> Result<()> {
        for entry in entries {
            match entry {
                Entry::Record(record) => self.take_record(record)?,
                Entry::Damaged { session_id, reason } => self.damage(session_id, reason.clone())?,
            }
        }
        let root = self.directory.join("sessions");
        for (session_id, session) in self.live.iter_mut().filter(|(_, session)| session.changed) {
            session.write(&SessionFiles::new(root.join(session_id.as_str()), self.applied.sealed))?;
        }
        if self.durability == Durability::Power {
            // The mark must not reach the disk before the data that it covers.
            let directory = File::open(&self.directory).map_err(|error| json::failed(&self.directory, &error))?;
            rustix::fs::syncfs(&directory).map_err(|error| json::failed(&self.directory, &error.into()))?;
        }
        self.applied.mark = mark;
        let file = self.directory.join("applied.json");
        json::write(&file, &self.applied)?;
        if self.durability == Durability::Power {
            // The segments that it covers are removed next.
            json::sync(&file)?;
        }
        Ok(())
    }

    /// Ids of all sessions, ascending.
    fn ids(&self) -> Result<Vec<SessionId>> {
        let root = self.directory.join("sessions");
        let entries = fs::read_dir(&root).map_err(|error| json::failed(&root, &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ids: Vec<_> = names.filter_map(|name| SessionId::parse(&name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Rejects a session that was set aside; returns whether it exists.
    fn healthy(&self, session_id: &SessionId) -> Result<bool> {
        match self.files(session_id).summary(session_id)? {
            Some(SessionSummary { damaged: Some(reason), .. }) => Err(BackendError::Damaged { reason }),
            summary => Ok(summary.is_some()),
        }
    }
}

impl Live {
    fn new(state: SessionState) -> Self {
        let (runs, messages, resumes) = (BTreeMap::new(), Vec::new(), Resumes::default());
        let counts = Counts::default();
        Self { state, counts, damaged: None, changed: false, first_shell: None, runs, messages, resumes }
    }

    fn begin(state: SessionState, first_shell: ShellState) -> Self {
        Self { first_shell: Some(first_shell), changed: true, ..Self::new(state) }
    }

    fn apply(&mut self, record: &Record, files: &SessionFiles) -> Result<()> {
        self.changed = true;
        if let Err(error) = self.state.apply(record) {
            self.damaged = Some(error.to_string());
            return Ok(());
        }
        self.carry(record, files);
        if let Some(run) = started_run(record) {
            self.counts.runs += 1;
            self.runs.insert(run.run_id.clone(), run);
        }
        if let Event::MessageAdded { message, .. } = &record.event {
            self.messages.push((**message).clone());
        }
        self.resumes.apply(record, &StoredResumes::of(files));
        if let Event::RunFinished { run_id, result, .. } = &record.event {
            if !self.runs.contains_key(run_id)
                && let Ok(Some(run)) = files.run(run_id)
            {
                self.runs.insert(run_id.clone(), run);
            }
            if let Some(run) = self.runs.get_mut(run_id) {
                run.result = Some((**result).clone());
                run.ended_seq = Some(record.seq);
            }
        }
        Ok(())
    }

    /// Keeps the runs of a record with a state whose starts are not known.
    fn carry(&mut self, record: &Record, files: &SessionFiles) {
        for run in carried_runs(record) {
            if self.runs.contains_key(&run.run_id) || files.run_path(&run.run_id).exists() {
                continue;
            }
            self.counts.runs += 1;
            self.runs.insert(run.run_id.clone(), run);
        }
    }

    fn write(&mut self, files: &SessionFiles) -> Result<()> {
        files.make()?;
        if let Some(first_shell) = &self.first_shell {
            files.write_origin(first_shell)?;
        }
        for run in self.runs.values() {
            files.write_run(run)?;
        }
        for message in &self.messages {
            self.counts.messages += u64::from(files.write_message(message)?);
        }
        self.resumes.write(&StoredResumes::of(files))?;
        files.write_state(&self.state, self.counts, self.damaged.as_deref())?;
        self.first_shell = None;
        self.runs.clear();
        self.messages.clear();
        self.changed = false;
        Ok(())
    }
}

impl Backend for FilesystemBackend {
    fn id(&self) -> &str {
        &self.applied.id
    }

    fn applied(&self) -> Mark {
        self.applied.mark
    }

    fn apply(&mut self, entries: &[Entry], mark: Mark) -> Result<()> {
        let before = self.applied.mark;
        let applied = self.write(entries, mark);
        if applied.is_err() {
            self.applied.mark = before;
        }
        if applied.is_err() || self.live.len() > LIVE_SESSIONS {
            // After an error only the files show how far it went.
            self.live.clear();
        }
        applied
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Option<SessionState>> {
        // A person may have edited the files; reads use the files, not the cache.
        match self.files(session_id).open(session_id)? {
            Some(Saved { damaged: Some(reason), .. }) => Err(BackendError::Damaged { reason }),
            Some(Saved { state, counts, .. }) => self.files(session_id).check_counts(counts).map(|()| Some(state)),
            None if self.files(session_id).has_remains() => Err(files::without_state()),
            None => Ok(None),
        }
    }

    fn last_seq(&mut self, session_id: &SessionId) -> Result<Option<u64>> {
        Ok(self.files(session_id).summary(session_id)?.map(|summary| summary.seq))
    }

    fn list(&mut self, agent: Option<&str>, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionSummary>> {
        let ids = self.ids()?;
        let from = after.map_or(0, |after| ids.partition_point(|id| id <= after));
        let mut summaries = Vec::new();
        for session_id in &ids[from..] {
            if summaries.len() >= limit {
                break;
            }
            let summary = self.files(session_id).summary(session_id)?;
            let wanted = |summary: &SessionSummary| agent.is_none() || summary.meta.agent.as_deref() == agent;
            summaries.extend(summary.filter(wanted));
        }
        Ok(summaries)
    }

    fn run(&mut self, session_id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>> {
        if self.healthy(session_id)? { self.files(session_id).run(run_id) } else { Ok(None) }
    }

    fn runs(&mut self, session_id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>> {
        let runs =
            if self.healthy(session_id)? { runs::newest(&self.files(session_id), before, limit)? } else { Vec::new() };
        Ok(runs.into_iter().map(listed_run).collect())
    }

    fn run_keys(&mut self, before: Option<&RunKey>, limit: usize) -> Result<Vec<RunKey>> {
        let sessions = self.ids()?.into_iter().map(|id| (self.files(&id), id));
        runs::newest_of_all(sessions, before, limit)
    }

    fn run_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredRun>> {
        let files = self.files(session_id);
        if self.healthy(session_id)? { files.run_index().find(request_id) } else { Ok(None) }
    }

    fn request_ids(&mut self, session_id: &SessionId, limit: usize) -> Result<Vec<String>> {
        let files = self.files(session_id);
        if self.healthy(session_id)? { files.run_index().keys(limit) } else { Ok(Vec::new()) }
    }

    fn resume_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredResume>> {
        if self.healthy(session_id)? { StoredResumes::of(&self.files(session_id)).find(request_id) } else { Ok(None) }
    }

    fn first_shell(&mut self, session_id: &SessionId) -> Result<Option<ShellState>> {
        if self.healthy(session_id)? { self.files(session_id).first_shell() } else { Ok(None) }
    }

    fn messages(&mut self, session_id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>> {
        match self.load(session_id)? {
            Some(state) => self.files(session_id).messages(after, state.messages, limit),
            None => Ok(Vec::new()),
        }
    }

    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<()> {
        self.live.remove(session_id);
        self.files(session_id).scrub(redactor)
    }

    fn unfinished(&mut self) -> Result<Vec<SessionId>> {
        let mut unfinished = Vec::new();
        for session_id in self.ids()? {
            let meta = self.files(&session_id).meta();
            if let Ok(Some(MetaFile { damaged: None, unrest: true, .. })) = meta {
                unfinished.push(session_id);
            }
        }
        Ok(unfinished)
    }
}
