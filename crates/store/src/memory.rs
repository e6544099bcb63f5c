//! Sessions in memory: for tests and for hosts that store nothing.

use crate::backend::{
    Backend, BackendError, Entry, Known, Mark, RecordAction, SessionSummary, begin, carried_runs, listed_run,
    started_run, step, unknown_state,
};
use crate::mask;
use shellkeep_record::Masker;
use shellkeep_redact::Redactor;
use shellkeep_session::{
    Event, Message, Record, ResumeMark, RunId, RunKey, SessionId, SessionState, ShellState, StoredResume, StoredRun,
};
use std::collections::{BTreeMap, HashMap};

struct Session {
    state: SessionState,
    first_shell: ShellState,
    runs: BTreeMap<u64, StoredRun>,
    /// Numbers of runs by their callers' keys.
    keys: HashMap<String, u64>,
    messages: BTreeMap<u64, Message>,
    /// Messages to its agent that were sent with a key, by the key.
    resumes: HashMap<String, StoredResume>,
    damaged: Option<String>,
}

/// A backend whose data ends with the process. The map is ordered, as lists are.
#[derive(Default)]
pub(crate) struct MemoryBackend {
    sessions: BTreeMap<SessionId, Session>,
    applied: Mark,
}

impl MemoryBackend {
    /// Takes over one record.
    pub(crate) fn take_record(&mut self, record: &Record) {
        let known = self.sessions.get(&record.session_id);
        let known = known.map(|session| Known { seq: session.state.seq, damaged: session.damaged.is_some() });
        match step(known, record) {
            RecordAction::Skip => {}
            RecordAction::Destroy => {
                self.sessions.remove(&record.session_id);
            }
            RecordAction::Damage { reason } => self.damage(&record.session_id, reason),
            RecordAction::Create => match begin(record) {
                Ok((state, first_shell)) => {
                    let mut session = Session::begin(state, first_shell);
                    session.carry(record);
                    self.sessions.insert(record.session_id.clone(), session);
                }
                Err(error) => self.damage(&record.session_id, error.to_string()),
            },
            RecordAction::Apply => {
                if let Some(session) = self.sessions.get_mut(&record.session_id)
                    && let Err(error) = session.apply(record)
                {
                    session.damaged = Some(error.to_string());
                }
            }
        }
    }

    fn damage(&mut self, session_id: &SessionId, reason: String) {
        let unknown = || Session::begin(unknown_state(session_id), ShellState::default());
        self.sessions.entry(session_id.clone()).or_insert_with(unknown).damaged.get_or_insert(reason);
    }

    fn healthy(&self, session_id: &SessionId) -> Result<Option<&Session>, BackendError> {
        match self.sessions.get(session_id) {
            Some(Session { damaged: Some(reason), .. }) => Err(BackendError::Damaged { reason: reason.clone() }),
            session => Ok(session),
        }
    }
}

impl Session {
    fn begin(state: SessionState, first_shell: ShellState) -> Self {
        let (runs, keys, messages) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        Self { state, first_shell, runs, keys, messages, resumes: HashMap::new(), damaged: None }
    }

    fn apply(&mut self, record: &Record) -> Result<(), shellkeep_session::fold::ApplyError> {
        self.state.apply(record)?;
        self.carry(record);
        if let Some(run) = started_run(record) {
            self.keys.extend(run.request_id.clone().map(|key| (key, run.seq)));
            self.runs.insert(run.seq, run);
        }
        if let Event::RunFinished { run_id, result, .. } = &record.event
            && let Some(run) = find_mut(&mut self.runs, run_id)
        {
            run.result = Some((**result).clone());
            run.ended_seq = Some(record.seq);
        }
        if let Event::MessageAdded { message, .. } = &record.event {
            self.messages.insert(message.seq_id, (**message).clone());
        }
        match ResumeMark::of(&record.event) {
            Some(ResumeMark::Begun { request_id }) => {
                let resume = StoredResume { request_id: request_id.to_owned(), seq: record.seq, ended_seq: None };
                self.resumes.insert(request_id.to_owned(), resume);
            }
            Some(ResumeMark::Ended { request_id }) => {
                self.resumes.entry(request_id.to_owned()).and_modify(|resume| resume.ended_seq = Some(record.seq));
            }
            None => {}
        }
        Ok(())
    }

    /// Keeps the runs of a record with a state whose starts are not known.
    fn carry(&mut self, record: &Record) {
        for run in carried_runs(record) {
            if self.runs.contains_key(&run.seq) {
                continue;
            }
            if let Some(key) = &run.request_id {
                let last = self.keys.entry(key.clone()).or_insert(run.seq);
                *last = run.seq.max(*last);
            }
            self.runs.insert(run.seq, run);
        }
    }
}

/// A run is named after its record; only one with a name from elsewhere is searched for.
fn find_mut<'a>(runs: &'a mut BTreeMap<u64, StoredRun>, run_id: &RunId) -> Option<&'a mut StoredRun> {
    let seq = run_id.seq().filter(|seq| runs.get(seq).is_some_and(|run| run.run_id == *run_id));
    match seq {
        Some(seq) => runs.get_mut(&seq),
        None => runs.values_mut().rev().find(|run| run.run_id == *run_id),
    }
}

impl Backend for MemoryBackend {
    fn id(&self) -> &str {
        "memory"
    }

    fn applied(&self) -> Mark {
        self.applied
    }

    fn apply(&mut self, entries: &[Entry], mark: Mark) -> Result<(), BackendError> {
        for entry in entries {
            match entry {
                Entry::Record(record) => self.take_record(record),
                Entry::Damaged { session_id, reason } => self.damage(session_id, reason.clone()),
            }
        }
        self.applied = mark;
        Ok(())
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Option<SessionState>, BackendError> {
        Ok(self.healthy(session_id)?.map(|session| session.state.clone()))
    }

    fn last_seq(&mut self, session_id: &SessionId) -> Result<Option<u64>, BackendError> {
        Ok(self.sessions.get(session_id).map(|session| session.state.seq))
    }

    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let wanted = |session: &&Session| agent.is_none() || session.state.meta.agent.as_deref() == agent;
        let sessions = self.sessions.range::<SessionId, _>((from, Unbounded)).map(|(_, session)| session);
        let summaries = sessions.filter(wanted).take(limit).map(|session| SessionSummary {
            meta: session.state.meta.clone(),
            last_active_at: session.state.last_active_at,
            cwd: session.state.shell.cwd.clone(),
            generation: session.state.generation,
            seq: session.state.seq,
            sandbox: session.state.sandbox,
            hold: session.state.hold.clone(),
            damaged: session.damaged.clone(),
        });
        Ok(summaries.collect())
    }

    fn run(&mut self, session_id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, BackendError> {
        let session = self.healthy(session_id)?;
        Ok(session.and_then(|session| session.runs.values().rev().find(|run| run.run_id == *run_id)).cloned())
    }

    fn runs(&mut self, session_id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, BackendError> {
        let session = self.healthy(session_id)?;
        let runs = session.into_iter().flat_map(|session| session.runs.range(..before).rev());
        Ok(runs.take(limit).map(|(_, run)| listed_run(run.clone())).collect())
    }

    fn run_keys(&mut self, before: Option<&RunKey>, limit: usize) -> Result<Vec<RunKey>, BackendError> {
        let key = |id: &SessionId, run: &StoredRun| RunKey {
            started_at: run.started_at,
            session_id: id.clone(),
            seq: run.seq,
        };
        let keys = self.sessions.iter().flat_map(|(id, session)| {
            let older = session.runs.values().rev().map(move |run| key(id, run));
            older.filter(|key| before.is_none_or(|before| key < before)).take(limit)
        });
        let mut keys: Vec<RunKey> = keys.collect();
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.truncate(limit);
        Ok(keys)
    }

    fn run_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredRun>, BackendError> {
        let found = |session: &Session| session.runs.get(session.keys.get(request_id)?).cloned();
        // What was scrubbed has another key by now.
        let is_it = |run: &StoredRun| run.request_id.as_deref() == Some(request_id);
        Ok(self.healthy(session_id)?.and_then(found).filter(is_it))
    }

    fn request_ids(&mut self, session_id: &SessionId, limit: usize) -> Result<Vec<String>, BackendError> {
        let session = self.healthy(session_id)?;
        Ok(session.into_iter().flat_map(|session| session.keys.keys()).take(limit).cloned().collect())
    }

    fn resume_by_request(
        &mut self,
        session_id: &SessionId,
        request_id: &str,
    ) -> Result<Option<StoredResume>, BackendError> {
        Ok(self.healthy(session_id)?.and_then(|session| session.resumes.get(request_id).cloned()))
    }

    fn first_shell(&mut self, session_id: &SessionId) -> Result<Option<ShellState>, BackendError> {
        Ok(self.healthy(session_id)?.map(|session| session.first_shell.clone()))
    }

    fn messages(&mut self, session_id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, BackendError> {
        let session = self.healthy(session_id)?;
        let messages = session.into_iter().flat_map(|session| session.messages.range(after.saturating_add(1)..));
        Ok(messages.take(limit).map(|(_, message)| message.clone()).collect())
    }

    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<(), BackendError> {
        let Some(session) = self.sessions.get_mut(session_id) else { return Ok(()) };
        let masker = Masker::of_values(redactor.clone());
        session.state = mask::masked_state(&session.state, redactor)?;
        session.first_shell = mask::shell(&session.first_shell, &masker)?;
        for run in session.runs.values_mut() {
            *run = mask::run(run, &masker)?;
        }
        session.resumes.retain(|request_id, _| !mask::is_in_name(request_id.as_bytes(), &masker));
        for message in session.messages.values_mut() {
            masker.mask_value(&mut message.content);
        }
        Ok(())
    }

    fn unfinished(&mut self) -> Result<Vec<SessionId>, BackendError> {
        let unfinished = |session: &Session| session.damaged.is_none() && !session.state.is_at_rest();
        Ok(self.sessions.iter().filter(|(_, session)| unfinished(session)).map(|(id, _)| id.clone()).collect())
    }
}
