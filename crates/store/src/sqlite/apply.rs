//! Applying a batch: each session's records are folded in memory, then each changed row is written once.

use super::last::LastRun;
use super::origin;
use super::row::{Pending, SessionRow, execute, failed, int, json};
use super::runs::{self, Ended};
use super::schema;
use super::sums::{BODY, HEAD, LAST, RESUME};
use crate::backend::{
    BackendError, Entry, Known, Mark, RecordAction, begin, carried_runs, started_run, step, unknown_state,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use shellkeep_session::{
    ByteString, Event, Record, ResumeMark, SessionId, SessionState, ShellState, StoredResume, StoredRun,
};
use std::collections::{BTreeMap, HashMap};

/// Kind of a row of `shell_values` that holds a variable.
pub(super) const VARIABLE: &str = "variable";

/// Kind of a row of `shell_values` that holds a function.
pub(super) const FUNCTION: &str = "function";

/// The value of a variable or function that the first shell has and the session has not. No JSON is empty.
pub(super) const GONE: &str = "";

/// Sessions remembered between batches. An entry is small, since it has neither variables nor functions; beyond this
/// number all are forgotten and read again when they are needed.
const LIVE_SESSIONS: usize = 4096;

type Result<T> = std::result::Result<T, BackendError>;

/// A session while it is being written.
pub(super) struct Live {
    /// Everything but variables and functions, which are only in their rows.
    state: SessionState,
    damaged: Option<String>,
    /// Whether its row is unreadable; then only the damage is written, so that a person can inspect it.
    unreadable: bool,
    /// Whether its row must be written.
    changed: bool,
    /// Its first shell as JSON, if it began in this batch.
    origin: Option<String>,
    /// Whether a record of this batch replaced what it was made with: on another node, its workspace is elsewhere.
    meta_changed: bool,
    /// Whether the rows hold only what differs from the first shell.
    based: bool,
    /// Whether `entries` replaces all variables and functions.
    replace_entries: bool,
    /// Variables and functions to write as JSON, or to delete.
    entries: BTreeMap<(&'static str, ByteString), Option<String>>,
    /// Its last run, as much of it as a search needs.
    last: Option<LastRun>,
    /// Runs that began in this batch.
    runs: BTreeMap<u64, StoredRun>,
    /// Runs whose starts may be unknown, of a state that a record of this batch carries.
    carried: Vec<StoredRun>,
    /// Results of runs that began before this batch, as JSON.
    results: Vec<Ended>,
    /// Messages of this batch as JSON, by their number.
    messages: BTreeMap<u64, String>,
    /// Messages to its agent that were sent with a key in this batch.
    resumes: Vec<StoredResume>,
    /// Keys of such messages whose work ended in this batch, and the numbers of the records that say so.
    ended_resumes: Vec<(String, u64)>,
    /// The agent's state is not kept in memory between batches.
    agent_state: AgentStateChange,
}

/// What a batch does to the stored state of the agent.
enum AgentStateChange {
    None,
    Removed,
    /// As JSON.
    Saved(String),
}

/// Applies the entries and the mark atomically. Returns whether a session was deleted.
pub(super) fn apply(
    db: &mut Connection,
    live: &mut HashMap<SessionId, Live>,
    entries: &[Entry],
    mark: Mark,
) -> Result<bool> {
    let transaction = db.transaction().map_err(failed)?;
    let mut deleted = false;
    for entry in entries {
        match entry {
            Entry::Record(record) => deleted |= take_record(&transaction, live, record)?,
            Entry::Damaged { session_id, reason } => damage(&transaction, live, session_id, reason.clone())?,
        }
    }
    for (session_id, session) in live.iter_mut().filter(|(_, session)| session.changed) {
        session.write(&transaction, session_id)?;
    }
    let sql = "INSERT INTO meta (key, value) VALUES ('applied', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1";
    execute(&transaction, sql, params![schema::sealed(mark)?])?;
    transaction.commit().map_err(failed)?;
    if live.len() > LIVE_SESSIONS {
        live.clear();
    }
    Ok(deleted)
}

/// Applies one record; returns whether it deleted its session.
fn take_record(db: &Connection, live: &mut HashMap<SessionId, Live>, record: &Record) -> Result<bool> {
    let session_id = &record.session_id;
    let session = find(db, live, session_id)?;
    let known = session.as_ref().map(|live| Known { seq: live.state.seq, damaged: live.damaged.is_some() });
    match (step(known, record), session) {
        (RecordAction::Skip, _) => {}
        (RecordAction::Damage { reason }, _) => damage(db, live, session_id, reason)?,
        (RecordAction::Destroy, _) => {
            live.remove(session_id);
            delete(db, session_id)?;
            return Ok(true);
        }
        (RecordAction::Create, _) => match Live::create(record)? {
            Ok(session) => drop(live.insert(session_id.clone(), session)),
            Err(reason) => damage(db, live, session_id, reason)?,
        },
        (RecordAction::Apply, Some(session)) => session.apply(record)?,
        // Only an existing session can continue.
        (RecordAction::Apply, None) => {}
    }
    Ok(false)
}

fn find<'a>(
    db: &Connection,
    live: &'a mut HashMap<SessionId, Live>,
    session_id: &SessionId,
) -> Result<Option<&'a mut Live>> {
    if !live.contains_key(session_id) {
        let sql = format!(
            "SELECT last_active_at, cwd, generation, seq, pending, rest, damaged, NULL, based, {} AND {} AND {}, \
             last_run, last, failed FROM sessions WHERE id = ?1",
            HEAD.holds(),
            BODY.holds(),
            LAST.holds()
        );
        let mut statement = db.prepare_cached(&sql).map_err(failed)?;
        let read = |row: &Row<'_>| Ok((SessionRow::read(row)?, LastRun::read(row, 10)));
        let row = statement.query_row([session_id.as_str()], read).optional().map_err(failed)?;
        if let Some((row, last)) = row {
            live.insert(session_id.clone(), Live { last, ..Live::from_row(session_id, row) });
        }
    }
    Ok(live.get_mut(session_id))
}

fn damage(db: &Connection, live: &mut HashMap<SessionId, Live>, session_id: &SessionId, reason: String) -> Result<()> {
    if find(db, live, session_id)?.is_none() {
        live.insert(session_id.clone(), Live::begin(unknown_state(session_id), &ShellState::default())?);
    }
    if let Some(session) = live.get_mut(session_id) {
        session.damaged.get_or_insert(reason);
        session.changed = true;
    }
    Ok(())
}

fn delete(db: &Connection, session_id: &SessionId) -> Result<()> {
    for sql in [
        "DELETE FROM sessions WHERE id = ?1",
        "DELETE FROM origins WHERE session = ?1",
        "DELETE FROM shell_values WHERE session = ?1",
        "DELETE FROM runs WHERE session = ?1",
        "DELETE FROM messages WHERE session = ?1",
        "DELETE FROM resumes WHERE session = ?1",
        "DELETE FROM agent_states WHERE session = ?1",
    ] {
        execute(db, sql, params![session_id.as_str()])?;
    }
    Ok(())
}

impl Live {
    fn new(state: SessionState) -> Self {
        Self {
            state,
            damaged: None,
            unreadable: false,
            changed: false,
            origin: None,
            meta_changed: false,
            based: false,
            replace_entries: false,
            entries: BTreeMap::new(),
            last: None,
            runs: BTreeMap::new(),
            carried: Vec::new(),
            results: Vec::new(),
            messages: BTreeMap::new(),
            resumes: Vec::new(),
            ended_resumes: Vec::new(),
            agent_state: AgentStateChange::None,
        }
    }

    /// The session that a record creates, or why it cannot be.
    fn create(record: &Record) -> Result<std::result::Result<Self, String>> {
        let Event::SessionCreated { meta, shell } = &record.event else {
            return match begin(record) {
                Ok((state, first_shell)) => {
                    let mut live = Self::begin(state, &first_shell)?;
                    live.move_out()?;
                    live.carry(record);
                    Ok(Ok(live))
                }
                Err(error) => Ok(Err(error.to_string())),
            };
        };
        // Copying variables and functions would be most of the work, and the rows do not need them.
        let event = Event::SessionCreated { meta: meta.clone(), shell: Box::new(origin::without_entries(shell)) };
        let bare = Record { session_id: record.session_id.clone(), seq: record.seq, at: record.at, event };
        match SessionState::create(&bare) {
            Ok(state) => Self::begin(state, shell).map(Ok),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// A session without rows. Nothing differs from its first shell yet.
    fn begin(state: SessionState, first_shell: &ShellState) -> Result<Self> {
        Ok(Self { origin: Some(json(first_shell)?), based: true, changed: true, ..Self::new(state) })
    }

    /// A row that cannot be read sets its session aside; the batch continues.
    fn from_row(session_id: &SessionId, row: SessionRow) -> Self {
        let unknown = unknown_state(session_id);
        match row.state(unknown.meta.clone()) {
            Ok(state) => Self { damaged: row.damaged, based: row.based, ..Self::new(state) },
            Err(error) => {
                let damaged = Some(row.damaged.unwrap_or_else(|| error.to_string()));
                Self { damaged, unreadable: true, changed: true, ..Self::new(SessionState { seq: row.seq, ..unknown }) }
            }
        }
    }

    fn apply(&mut self, record: &Record) -> Result<()> {
        self.changed = true;
        if let Err(error) = self.state.apply(record) {
            self.damaged = Some(error.to_string());
            return Ok(());
        }
        self.carry(record);
        if let Some(run) = started_run(record) {
            self.last = Some(LastRun::started(&run));
            self.runs.insert(run.seq, run);
        }
        match ResumeMark::of(&record.event) {
            Some(ResumeMark::Begun { request_id }) => {
                let request_id = request_id.to_owned();
                self.resumes.push(StoredResume { request_id, seq: record.seq, ended_seq: None });
            }
            Some(ResumeMark::Ended { request_id }) => self.ended_resumes.push((request_id.to_owned(), record.seq)),
            None => {}
        }
        match &record.event {
            Event::RunFinished { run_id, result, delta } => {
                if let Some(last) = &mut self.last {
                    last.ended(run_id, result);
                }
                match self.runs.values_mut().rev().find(|run| run.run_id == *run_id) {
                    Some(run) => {
                        run.result = Some((**result).clone());
                        run.ended_seq = Some(record.seq);
                    }
                    None => {
                        let (run_id, seq) = (run_id.clone(), record.seq);
                        self.results.push(Ended { run_id, seq, result: json(result)? });
                    }
                }
                for (name, variable) in &delta.variables {
                    let value = variable.as_ref().map(json).transpose()?;
                    self.entries.insert((VARIABLE, name.clone()), value);
                }
                for (name, function) in &delta.functions {
                    let value = function.as_ref().map(json).transpose()?;
                    self.entries.insert((FUNCTION, name.clone()), value);
                }
                self.state.shell.variables.clear();
                self.state.shell.functions.clear();
                Ok(())
            }
            Event::Restarted { .. } => self.replace_all(),
            Event::Scrubbed { .. } | Event::Rewound { .. } => {
                self.replace_all()?;
                self.move_out()
            }
            Event::RecordsLost { .. } | Event::Owned { state: Some(_), .. } => {
                self.meta_changed = true;
                self.replace_all()?;
                self.move_out()
            }
            Event::AgentStateSaved { .. } => self.move_out(),
            Event::MessageAdded { message, .. } => {
                self.messages.insert(message.seq_id, json(message)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps the runs of a record with a state, for those whose starts are not known.
    fn carry(&mut self, record: &Record) {
        for run in carried_runs(record) {
            if self.last.as_ref().is_none_or(|last| last.is_before(&run)) {
                self.last = Some(LastRun::started(&run));
            }
            self.carried.push(run);
        }
    }

    /// Moves the agent's state to the row to be written.
    fn move_out(&mut self) -> Result<()> {
        self.agent_state = match self.state.agent_state.take() {
            Some(state) => AgentStateChange::Saved(json(&state)?),
            None => AgentStateChange::Removed,
        };
        self.state.shell.variables.clear();
        self.state.shell.functions.clear();
        Ok(())
    }

    /// Moves all variables and functions of the state to the rows to be written, whatever the first shell had.
    fn replace_all(&mut self) -> Result<()> {
        self.replace_entries = true;
        self.based = false;
        self.entries.clear();
        for (name, variable) in std::mem::take(&mut self.state.shell.variables) {
            self.entries.insert((VARIABLE, name), Some(json(&variable)?));
        }
        for (name, function) in std::mem::take(&mut self.state.shell.functions) {
            self.entries.insert((FUNCTION, name), Some(json(&function)?));
        }
        Ok(())
    }

    fn write(&mut self, db: &Connection, session_id: &SessionId) -> Result<()> {
        let id = session_id.as_str();
        self.changed = false;
        if self.unreadable {
            return execute(db, "UPDATE sessions SET damaged = ?2 WHERE id = ?1", params![id, self.damaged]);
        }
        // A session that begins in this batch has no rows yet, and gets all of them below.
        if std::mem::take(&mut self.meta_changed) && self.origin.is_none() {
            origin::change_meta(db, id, &self.state.meta)?;
        }
        self.write_row(db, id)?;
        if std::mem::take(&mut self.replace_entries) {
            execute(db, "DELETE FROM shell_values WHERE session = ?1", params![id])?;
        }
        self.write_entries(db, session_id)?;
        for run in std::mem::take(&mut self.runs).into_values() {
            runs::insert(db, id, run)?;
        }
        for run in std::mem::take(&mut self.carried) {
            runs::insert_unknown(db, id, run)?;
        }
        for ended in std::mem::take(&mut self.results) {
            ended.write(db, id)?;
        }
        for (seq_id, message) in std::mem::take(&mut self.messages) {
            let sql = "INSERT OR REPLACE INTO messages (session, seq_id, message, sum) \
                       VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))";
            execute(db, sql, params![id, int(seq_id), message])?;
        }
        self.write_resumes(db, id)?;
        match std::mem::replace(&mut self.agent_state, AgentStateChange::None) {
            AgentStateChange::Saved(state) => {
                let sql = "INSERT OR REPLACE INTO agent_states (session, state, sum) VALUES (?1, ?2, row_sum(?1, ?2))";
                execute(db, sql, params![id, state])
            }
            AgentStateChange::Removed => execute(db, "DELETE FROM agent_states WHERE session = ?1", params![id]),
            AgentStateChange::None => Ok(()),
        }
    }

    fn write_resumes(&mut self, db: &Connection, id: &str) -> Result<()> {
        for StoredResume { request_id, seq, .. } in std::mem::take(&mut self.resumes) {
            let sql = "INSERT OR REPLACE INTO resumes (session, seq, request_id) VALUES (?1, ?2, ?3)";
            execute(db, sql, params![id, int(seq), request_id])?;
            execute(db, &RESUME.renew("session = ?1 AND seq = ?2"), params![id, int(seq)])?;
        }
        for (request_id, ended) in std::mem::take(&mut self.ended_resumes) {
            let last = "session = ?1 AND seq = \
                        (SELECT max(seq) FROM resumes WHERE session = ?1 AND request_id = ?2 AND seq < ?3)";
            let sql = format!("UPDATE resumes SET ended_seq = ?3 WHERE {last}");
            execute(db, &sql, params![id, request_id, int(ended)])?;
            execute(db, &RESUME.renew(last), params![id, request_id, int(ended)])?;
        }
        Ok(())
    }

    fn write_entries(&mut self, db: &Connection, session_id: &SessionId) -> Result<()> {
        let entries = std::mem::take(&mut self.entries);
        // A removed entry needs a row if the first shell had it, and none otherwise.
        let any_gone = self.based && entries.values().any(Option::is_none);
        let first = if any_gone { origin::first_shell(db, session_id)? } else { None }.unwrap_or_default();
        for ((kind, name), value) in entries {
            let is_in_first = match kind {
                VARIABLE => first.variables.contains_key(&name),
                _ => first.functions.contains_key(&name),
            };
            let (id, name) = (session_id.as_str(), name.as_bytes());
            match value.or_else(|| is_in_first.then(|| GONE.to_owned())) {
                Some(value) => execute(
                    db,
                    "INSERT INTO shell_values (session, kind, name, value, sum) \
                     VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4)) \
                     ON CONFLICT (session, kind, name) DO UPDATE SET value = excluded.value, sum = excluded.sum",
                    params![id, kind, name, value],
                )?,
                None => execute(
                    db,
                    "DELETE FROM shell_values WHERE session = ?1 AND kind = ?2 AND name = ?3",
                    params![id, kind, name],
                )?,
            }
        }
        Ok(())
    }

    fn write_row(&mut self, db: &Connection, id: &str) -> Result<()> {
        let state = &mut self.state;
        let pending = Pending {
            active_runs: std::mem::take(&mut state.active_runs),
            processes: std::mem::take(&mut state.processes),
            unkept: std::mem::take(&mut state.unkept),
            services: std::mem::take(&mut state.services),
            ended_at: state.ended_at,
            sandbox: state.sandbox,
            pending_notices: std::mem::take(&mut state.pending_notices),
            agent_versions: state.agent_versions,
            messages: state.messages,
            agent_step: state.agent_step,
            files: state.files.take(),
            kv: state.kv,
            claims: std::mem::take(&mut state.claims),
            hold: state.hold.take(),
        };
        let later = json(&pending)?;
        state.active_runs = pending.active_runs;
        state.processes = pending.processes;
        state.unkept = pending.unkept;
        state.services = pending.services;
        state.pending_notices = pending.pending_notices;
        state.files = pending.files;
        state.claims = pending.claims;
        state.hold = pending.hold;
        let (at, cwd, rest) = (state.last_active_at.to_string(), state.shell.cwd.as_bytes(), json(&state.shell)?);
        let (generation, seq, unrest) = (int(state.generation), int(state.seq), !state.is_at_rest());
        let (damaged, based) = (&self.damaged, self.based);
        let (run, words, failed) = self.last.as_ref().map(LastRun::columns).unwrap_or_default();
        let Some(first_shell) = self.origin.take() else {
            let sql = "UPDATE sessions SET last_active_at = ?2, cwd = ?3, generation = ?4, seq = ?5, pending = ?6, \
                       rest = ?7, damaged = ?8, unrest = ?9, based = ?10, last_run = ?11, last = ?12, failed = ?13, \
                       head_sum = row_sum(?1, agent, ?2, ?3, ?4, ?5, ?8), \
                       body_sum = row_sum(?1, ?5, ?6, ?7, ?9, ?10), \
                       last_sum = row_sum(?1, ?11, ?12, ?13) WHERE id = ?1";
            let values = params![id, at, cwd, generation, seq, later, rest, damaged, unrest, based, run, words, failed];
            return execute(db, sql, values);
        };
        origin::insert(db, id, &state.meta, &first_shell)?;
        let sql = "INSERT OR REPLACE INTO sessions \
                   (id, last_active_at, cwd, generation, seq, pending, rest, damaged, unrest, based, last_run, last, \
                   failed, agent, head_sum, body_sum, last_sum) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
                   row_sum(?1, ?14, ?2, ?3, ?4, ?5, ?8), row_sum(?1, ?5, ?6, ?7, ?9, ?10), \
                   row_sum(?1, ?11, ?12, ?13))";
        let agent = &state.meta.agent;
        let values =
            params![id, at, cwd, generation, seq, later, rest, damaged, unrest, based, run, words, failed, agent];
        execute(db, sql, values)
    }
}
