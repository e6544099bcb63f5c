//! The backend trait, and the rules that all backends share: which record is next, old or invalid.

use crate::walk::{Candidate, SessionOrder, Walk};
use serde::{Deserialize, Serialize};
use shellkeep_redact::Redactor;
use shellkeep_session::fold::ApplyError;
use shellkeep_session::relocate::Relocation;
use shellkeep_session::{
    ActiveRun, ByteString, Event, Message, Record, RunId, RunKey, Sandbox, SessionHold, SessionId, SessionMeta,
    SessionPlace, SessionState, ShellState, StoredResume, StoredRun, Timestamp,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Sessions that one search looks at if it reads the last command of each of them.
const MOST_READ: usize = 1000;

/// A position in the journal: everything before it has been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the segment.
    pub segment: u64,
    /// Byte in the segment.
    pub offset: u64,
}

/// What the journal holds, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A fact.
    Record(Record),
    /// An unreadable line of a known session.
    Damaged {
        /// Whose line it was.
        session_id: SessionId,
        /// What is wrong with it.
        reason: String,
    },
}

impl Entry {
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Record(record) => &record.session_id,
            Self::Damaged { session_id, .. } => session_id,
        }
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// At most as many as were asked for. There may be fewer although the list goes on.
    pub sessions: Vec<SessionSummary>,
    /// Behind the last session that was looked at, if there are more.
    pub next: Option<SessionPlace>,
}

/// A session as a list shows it, without its shell.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// What it was made with. Of a damaged session only the id may be known.
    pub meta: SessionMeta,
    /// When the last record was made.
    pub last_active_at: Timestamp,
    /// Its working directory.
    pub cwd: ByteString,
    /// How many shells it has had.
    pub generation: u64,
    /// Number of the last record.
    pub seq: u64,
    /// How far its processes are confined.
    pub sandbox: Sandbox,
    /// The last hold that was not released; its time may be over.
    pub hold: Option<Box<SessionHold>>,
    /// Why it cannot be loaded, if it cannot.
    pub damaged: Option<String>,
}

impl SessionSummary {
    /// Sets its paths to where the data directory is now.
    pub(crate) fn relocate(&mut self, relocation: &Relocation) {
        relocation.meta(&mut self.meta);
        relocation.path(&mut self.cwd);
    }
}

/// The agent of a session. Agents have many sessions, so their names are shared.
pub type Name = (SessionId, Option<Arc<str>>);

/// Why a backend failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// This one session cannot be read; others can.
    #[error("{reason}")]
    Damaged { reason: String },
    /// The backend is temporarily unavailable.
    #[error("{reason}")]
    Failed { reason: String },
}

/// Stores sessions. Only the writer thread calls it, so it may block and needs no locks.
pub trait Backend: Send {
    /// The id of this backend's data, so that a journal is never applied to other data.
    fn id(&self) -> &str;

    /// How far the journal has been applied.
    fn applied(&self) -> Mark;

    /// Applies entries in order and stores the mark. Atomic, or at least safe to repeat: entries that are already
    /// applied are skipped. After an error the same entries are passed again.
    fn apply(&mut self, entries: &[Entry], mark: Mark) -> Result<(), BackendError>;

    /// A session's state.
    fn load(&mut self, session_id: &SessionId) -> Result<Option<SessionState>, BackendError>;

    /// The number of a session's last record, also of a damaged one.
    fn last_seq(&mut self, session_id: &SessionId) -> Result<Option<u64>, BackendError>;

    /// Sessions ordered by id, those of one agent or all, from the first id greater than `after`.
    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError>;

    /// The same with the most recently active session first, from the one behind `after`. A place without a time is that of its
    /// session now; if there is none, before all others.
    fn recent(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError> {
        let mut all = self.list(agent, None, usize::MAX)?;
        all.sort_by(|one, other| {
            let by_time = other.last_active_at.cmp(&one.last_active_at);
            by_time.then_with(|| one.meta.session_id.cmp(&other.meta.session_id))
        });
        let place = |one: &SessionSummary| SessionPlace::active(one.meta.session_id.clone(), one.last_active_at);
        let after = after.and_then(|after| match after.last_active_at {
            Some(_) => Some(after.clone()),
            None => all.iter().find(|one| one.meta.session_id == after.session_id).map(place),
        });
        if let Some(after) = after {
            all.retain(|one| place(one).order() > after.order());
        }
        all.truncate(limit);
        Ok(all)
    }

    /// Looks through sessions and returns those that are kept. It looks at a bounded number. Of a damaged session the last
    /// command is not looked at.
    fn search(&mut self, walk: &Walk<'_>) -> Result<Found, BackendError> {
        let listed = match walk.order {
            SessionOrder::Id => self.list(walk.agent, walk.after.map(|after| &after.session_id), MOST_READ)?,
            SessionOrder::Active => self.recent(walk.agent, walk.after, MOST_READ)?,
        };
        let has_more = listed.len() == MOST_READ;
        let (mut sessions, mut last) = (Vec::new(), None);
        let mut listed = listed.into_iter();
        while sessions.len() < walk.limit
            && let Some(summary) = listed.next()
        {
            let id = &summary.meta.session_id;
            last = Some(walk.order.place(id, summary.last_active_at));
            let runs = self.runs(id, u64::MAX, 1).unwrap_or_default();
            if (walk.keeps)(&Candidate::new(id, summary.meta.agent.as_deref(), &summary.cwd, runs.first())) {
                sessions.push(summary);
            }
        }
        Ok(Found { sessions, next: last.filter(|_| has_more || listed.next().is_some()) })
    }

    /// The names of all sessions and of the agents they belong to, in no order. Called at every start, so it should not
    /// read the sessions themselves.
    fn names(&mut self) -> Result<Vec<Name>, BackendError> {
        let mut agents = Agents::default();
        let all = self.list(None, None, usize::MAX)?;
        Ok(all.into_iter().map(|one| (one.meta.session_id, agents.share(one.meta.agent.as_deref()))).collect())
    }

    /// One run of a session.
    fn run(&mut self, session_id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, BackendError>;

    /// Runs of a session, newest first: at most `limit` that started before the record `before`, without the bytes of
    /// their outputs. It costs the same however long the session's history is.
    fn runs(&mut self, session_id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, BackendError>;

    /// Runs of all sessions, newest first: at most `limit` that come before `before`. It reads no session.
    fn run_keys(&mut self, before: Option<&RunKey>, limit: usize) -> Result<Vec<RunKey>, BackendError>;

    /// The run that a caller's key started.
    fn run_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredRun>, BackendError>;

    /// The keys of at most `limit` of the session's runs, in no order.
    fn request_ids(&mut self, session_id: &SessionId, limit: usize) -> Result<Vec<String>, BackendError>;

    /// The last message to the session's agent that was sent with a caller's key.
    fn resume_by_request(
        &mut self,
        session_id: &SessionId,
        request_id: &str,
    ) -> Result<Option<StoredResume>, BackendError>;

    /// The initial state of the session's shell.
    fn first_shell(&mut self, session_id: &SessionId) -> Result<Option<ShellState>, BackendError>;

    /// Undamaged sessions with a run that has started and not ended, ordered by id.
    fn unfinished(&mut self) -> Result<Vec<SessionId>, BackendError>;

    /// A session's conversation, ordered: at most `limit` messages after the one with the number `after`.
    fn messages(&mut self, session_id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, BackendError>;

    /// Masks what the redactor finds in everything that is stored of a session, so that no file contains it. Safe to
    /// repeat.
    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<(), BackendError>;

    /// Does a small piece of upkeep while there is nothing else to do; whether more is left.
    fn tidy(&mut self) -> Result<bool, BackendError> {
        Ok(false)
    }
}

/// Stores each agent's name once.
#[derive(Default)]
pub(crate) struct Agents(HashSet<Arc<str>>);

impl Agents {
    /// The one copy of a name.
    pub(crate) fn share(&mut self, agent: Option<&str>) -> Option<Arc<str>> {
        let agent = agent?;
        if let Some(known) = self.0.get(agent) {
            return Some(Arc::clone(known));
        }
        let agent: Arc<str> = agent.into();
        self.0.insert(Arc::clone(&agent));
        Some(agent)
    }
}

/// What a backend knows about a session before the next record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Number of the last record.
    pub seq: u64,
    /// Whether it was set aside.
    pub damaged: bool,
}

/// What to do with a record.
#[derive(Debug, PartialEq)]
pub(crate) enum RecordAction {
    /// It is already applied, or its session is set aside.
    Skip,
    /// It creates a session.
    Create,
    /// It follows.
    Apply,
    /// It deletes the session.
    Destroy,
    /// Something before it is missing.
    Damage { reason: String },
}

/// Decides what a record means to a session. Replaying any part of the journal up to its end leads to the same state, even if a session was deleted and recreated in between: a replayed deletion clears the state and the records after it rebuild it.
pub(crate) fn step(known: Option<Known>, record: &Record) -> RecordAction {
    let destroys = record.event.destroys();
    let lost_from = match &record.event {
        Event::RecordsLost { from, .. } => Some(*from),
        _ => None,
    };
    let creates = match &record.event {
        Event::SessionCreated { .. } => record.seq == 1,
        // The session's first records are lost, but the resulting state is not.
        Event::RecordsLost { from, .. } => *from == 1,
        _ => false,
    };
    match known {
        None if destroys => RecordAction::Skip,
        None if creates => RecordAction::Create,
        None => RecordAction::Damage { reason: ApplyError::NotCreated { found: record.seq }.to_string() },
        Some(known) if destroys && (known.damaged || record.seq > known.seq) => RecordAction::Destroy,
        Some(known) if known.damaged || record.seq <= known.seq => RecordAction::Skip,
        Some(known) if record.seq == known.seq + 1 => RecordAction::Apply,
        Some(known) if lost_from.is_some_and(|from| from <= known.seq + 1) => RecordAction::Apply,
        Some(known) => {
            RecordAction::Damage { reason: ApplyError::OutOfOrder { after: known.seq, found: record.seq }.to_string() }
        }
    }
}

/// The state that begins with a record, and the first shell.
pub(crate) fn begin(record: &Record) -> Result<(SessionState, ShellState), ApplyError> {
    match &record.event {
        Event::RecordsLost { state, .. } => {
            let state = SessionState { seq: record.seq, last_active_at: record.at, ..(**state).clone() };
            let first_shell = state.shell.clone();
            Ok((state, first_shell))
        }
        _ => {
            let state = SessionState::create(record)?;
            let first_shell = state.shell.clone();
            Ok((state, first_shell))
        }
    }
}

/// The state of a session of which nothing but the name is known.
pub(crate) fn unknown_state(session_id: &SessionId) -> SessionState {
    SessionState::blank(SessionMeta::of_name(session_id.clone()), Timestamp::UNIX_EPOCH, ShellState::default())
}

/// A new name for a backend's data.
pub(crate) fn fresh_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A run without the bytes of its outputs, as a list has it.
pub(crate) fn listed_run(mut run: StoredRun) -> StoredRun {
    if let Some(result) = &mut run.result {
        for output in [&mut result.stdout, &mut result.stderr] {
            (output.inline, output.tail) = (None, None);
        }
    }
    run
}

/// The run that a record starts, if it starts one.
pub(crate) fn started_run(record: &Record) -> Option<StoredRun> {
    match &record.event {
        Event::RunStarted { run_id, request_id, command, by, .. } => Some(StoredRun {
            run_id: run_id.clone(),
            seq: record.seq,
            request_id: request_id.clone(),
            command: command.clone(),
            started_at: record.at,
            by: by.clone(),
            result: None,
            ended_seq: None,
        }),
        _ => None,
    }
}

/// Whether a record may begin a run, or carry some that have begun.
pub(crate) fn may_begin_runs(event: &Event) -> bool {
    matches!(event, Event::RunStarted { .. } | Event::RecordsLost { .. } | Event::Owned { .. })
}

/// The runs that had begun and not ended in the state that a record carries, if it carries one. The records of their starts
/// may be lost, or on another node, so what is not known of them yet is taken from here: then their ends are found by run
/// and by key. One whose name does not tell the number of its start has no place among the others.
pub(crate) fn carried_runs(record: &Record) -> Vec<StoredRun> {
    let state = match &record.event {
        Event::RecordsLost { state, .. } | Event::Owned { state: Some(state), .. } => state,
        _ => return Vec::new(),
    };
    let carried = |(run_id, run): (&RunId, &ActiveRun)| {
        Some(StoredRun {
            run_id: run_id.clone(),
            seq: run_id.seq()?,
            request_id: run.request_id.clone(),
            command: run.command.clone(),
            started_at: run.started_at,
            by: None,
            result: None,
            ended_seq: None,
        })
    };
    state.active_runs.iter().filter_map(carried).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, event: Event) -> Record {
        let session_id = SessionId::parse("s").unwrap();
        Record { session_id, seq, at: Timestamp::UNIX_EPOCH, event }
    }

    #[test]
    fn a_record_is_old_next_or_wrong() {
        let shell_started = |seq| record(seq, Event::ShellStarted { generation: 1 });
        let known = |seq| Some(Known { seq, damaged: false });
        assert_eq!(step(known(3), &shell_started(3)), RecordAction::Skip);
        assert_eq!(step(known(3), &shell_started(4)), RecordAction::Apply);
        assert!(matches!(step(known(3), &shell_started(5)), RecordAction::Damage { .. }));
        assert!(matches!(step(None, &shell_started(1)), RecordAction::Damage { .. }));
        let lost = |from, seq| {
            let state = Box::new(unknown_state(&SessionId::parse("s").unwrap()));
            record(seq, Event::RecordsLost { from, reason: String::new(), state })
        };
        assert_eq!(step(known(3), &lost(4, 9)), RecordAction::Apply);
        assert_eq!(step(known(9), &lost(4, 9)), RecordAction::Skip);
        assert!(matches!(step(known(3), &lost(5, 9)), RecordAction::Damage { .. }));
        assert_eq!(step(None, &lost(1, 9)), RecordAction::Create);
        assert_eq!(step(None, &record(9, Event::SessionDestroyed)), RecordAction::Skip);
        assert_eq!(step(known(3), &record(9, Event::SessionDestroyed)), RecordAction::Destroy);
        assert_eq!(step(Some(Known { seq: 3, damaged: true }), &shell_started(4)), RecordAction::Skip);
        assert_eq!(
            step(Some(Known { seq: 3, damaged: true }), &record(2, Event::SessionDestroyed)),
            RecordAction::Destroy
        );
    }
}
