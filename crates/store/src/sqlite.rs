//! Sessions in one SQLite file, the embedded default. A record changes only the rows it speaks of: a command that sets
//! one variable writes one variable, however large the rest of the shell is.

mod apply;
mod last;
mod origin;
mod row;
mod runs;
mod schema;
mod scrub;
mod search;
mod space;
mod sums;

use crate::backend::{Agents, Backend, BackendError, Entry, Found, Mark, Name, SessionSummary, listed_run};
use crate::error::{Durability, OpenError};
use crate::lock;
use crate::walk::{Candidate, Walk};
use apply::Live;
use row::{SessionRow, changed, check, damaged, execute, failed, int, parsed, time, uint};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use schema::Opened;
use search::Matches;
use shellkeep_redact::Redactor;
use shellkeep_session::{
    AgentState, ByteString, Json, Message, RunId, RunKey, SessionId, SessionPlace, SessionState, ShellState,
    StoredResume, StoredRun, Timestamp,
};
use space::Space;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use sums::{AGENT_STATE, BODY, HEAD, LAST, MESSAGE, META, RESUME, RUN, VALUE};

/// The columns of a run, after the one with the result of the checksum.
const RUN_COLUMNS: &str = "run_id, seq, request_id, command, started_at, result, by_token, ended_seq";

/// A backend in an SQLite file.
pub(crate) struct SqliteBackend {
    db: Connection,
    id: String,
    applied: Mark,
    /// Recently written sessions, without their variables and functions.
    live: HashMap<SessionId, Live>,
    space: Space,
    _lock: File,
}

impl SqliteBackend {
    /// Opens or creates the file.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        let not_writable = |error: std::io::Error| OpenError::not_writable(path, &error);
        if let Some(parent) = path.parent() {
            lock::private_directory(parent).map_err(not_writable)?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = lock::take(Path::new(&lock_path))?;
        let Opened { db, id, applied } = schema::open(path, durability)?;
        Ok(Self { db, id, applied, live: HashMap::new(), space: Space::default(), _lock: lock })
    }

    fn row(&self, session_id: &SessionId) -> Result<Option<SessionRow>, BackendError> {
        let sql = format!(
            "SELECT last_active_at, cwd, generation, seq, pending, rest, damaged, meta, based, {} AND {} AND {} AND {} \
             FROM sessions LEFT JOIN origins ON session = id WHERE id = ?1",
            HEAD.holds(),
            BODY.holds(),
            LAST.holds(),
            META.holds()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let row = statement.query_row([session_id.as_str()], SessionRow::read).optional().map_err(failed)?;
        match row {
            Some(SessionRow { damaged: Some(reason), .. }) => Err(BackendError::Damaged { reason }),
            Some(SessionRow { intact: false, .. }) => Err(changed("its row")),
            row => Ok(row),
        }
    }

    /// Sessions as a list shows them, without the rest of the shell.
    fn summaries(&self, condition: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<SessionSummary>, BackendError> {
        let sql = format!(
            "SELECT last_active_at, cwd, generation, seq, pending, NULL, damaged, meta, 0, {} AND {} AND {}, id \
             FROM sessions LEFT JOIN origins ON session = id {condition}",
            HEAD.holds(),
            LAST.holds(),
            META.holds()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(10)?, SessionRow::read(row)?));
        let rows = statement.query_map(values, read).map_err(failed)?;
        let mut summaries = Vec::new();
        for row in rows {
            let (id, row) = row.map_err(failed)?;
            if let Ok(session_id) = SessionId::parse(&id) {
                summaries.push(row.summary(&session_id));
            }
        }
        Ok(summaries)
    }

    /// Puts the rows of variables and functions over those of the first shell.
    fn lay_over(&self, session_id: &SessionId, shell: &mut ShellState) -> Result<(), BackendError> {
        let sql = format!("SELECT kind, name, value, {} FROM shell_values WHERE session = ?1", VALUE.holds());
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([session_id.as_str()]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            check(row, 3, "a variable or function")?;
            let text = |column| row.get_ref(column).and_then(|value| Ok(value.as_str()?)).map_err(damaged);
            let (kind, name, value) = (text(0)?, ByteString(row.get(1).map_err(damaged)?), text(2)?);
            match kind {
                apply::VARIABLE => lay_one(&mut shell.variables, name, value)?,
                _ => lay_one(&mut shell.functions, name, value)?,
            }
        }
        Ok(())
    }

    /// Everything of a session, one statement after the other.
    fn load_in_parts(&self, session_id: &SessionId) -> Result<Option<SessionState>, BackendError> {
        let Some(row) = self.row(session_id)? else { return Ok(None) };
        let mut state = row.state(row.meta()?)?;
        if row.based
            && let Some(first) = origin::first_shell(&self.db, session_id)?
        {
            (state.shell.variables, state.shell.functions) = (first.variables, first.functions);
        }
        self.lay_over(session_id, &mut state.shell)?;
        state.agent_state = self.agent_state(session_id)?;
        Ok(Some(state))
    }

    fn agent_state(&self, session_id: &SessionId) -> Result<Option<Box<AgentState>>, BackendError> {
        let sql = format!("SELECT state, {} FROM agent_states WHERE session = ?1", AGENT_STATE.holds());
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([session_id.as_str()]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        check(row, 1, "its agent's state")?;
        let text = row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(damaged)?;
        parsed("its agent's state", text).map(Some)
    }

    fn one_run(
        &self,
        session_id: &SessionId,
        condition: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<StoredRun>, BackendError> {
        self.row(session_id)?;
        let mut statement = self.db.prepare_cached(&select_runs(condition)).map_err(failed)?;
        let mut rows = statement.query(values).map_err(failed)?;
        rows.next().map_err(failed)?.map(read_run).transpose()
    }
}

/// Puts the row of a variable or function over what is there already.
fn lay_one<V: Json>(entries: &mut BTreeMap<ByteString, V>, name: ByteString, value: &str) -> Result<(), BackendError> {
    if value == apply::GONE {
        entries.remove(&name);
    } else {
        entries.insert(name, parsed("a variable or function", value)?);
    }
    Ok(())
}

fn select_runs(condition: &str) -> String {
    format!("SELECT {}, {RUN_COLUMNS} FROM runs {condition}", RUN.holds())
}

fn read_run(row: &Row<'_>) -> Result<StoredRun, BackendError> {
    check(row, 0, "a run")?;
    let run_id: String = row.get(1).map_err(damaged)?;
    let started_at: String = row.get(5).map_err(damaged)?;
    let result: Option<String> = row.get(6).map_err(damaged)?;
    Ok(StoredRun {
        run_id: RunId::parse(&run_id).map_err(|error| BackendError::Damaged { reason: error.to_string() })?,
        seq: uint(row.get(2).map_err(damaged)?),
        request_id: row.get(3).map_err(damaged)?,
        command: ByteString(row.get(4).map_err(damaged)?),
        started_at: time(&started_at)?,
        by: row.get(7).map_err(damaged)?,
        result: result.map(|text| parsed("a run's result", &text)).transpose()?,
        ended_seq: row.get::<_, Option<i64>>(8).map_err(damaged)?.map(uint),
    })
}

impl Backend for SqliteBackend {
    fn id(&self) -> &str {
        &self.id
    }

    fn applied(&self) -> Mark {
        self.applied
    }

    fn apply(&mut self, entries: &[Entry], mark: Mark) -> Result<(), BackendError> {
        let applied = apply::apply(&mut self.db, &mut self.live, entries, mark);
        match applied {
            Ok(deleted) => {
                self.applied = mark;
                self.space.look_again(deleted);
            }
            // What was rolled back must not stay in memory.
            Err(_) => self.live.clear(),
        }
        applied.map(|_| ())
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Option<SessionState>, BackendError> {
        // Otherwise each of its statements would lock the file and look for what others wrote.
        execute(&self.db, "BEGIN", [])?;
        let loaded = self.load_in_parts(session_id);
        // Nothing was written. Left open, it would keep all that follows from the file.
        if execute(&self.db, "COMMIT", []).is_err() && !self.db.is_autocommit() {
            execute(&self.db, "ROLLBACK", [])?;
        }
        loaded
    }

    fn last_seq(&mut self, session_id: &SessionId) -> Result<Option<u64>, BackendError> {
        let mut statement = self.db.prepare_cached("SELECT seq FROM sessions WHERE id = ?1").map_err(failed)?;
        let seq = statement.query_row([session_id.as_str()], |row| row.get::<_, i64>(0)).optional();
        Ok(seq.map_err(failed)?.map(uint))
    }

    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError> {
        let condition = if agent.is_some() { "agent = ?3 AND" } else { "?3 IS NULL AND" };
        // No id is empty, so every id is greater than the empty text.
        let after = after.map_or("", SessionId::as_str);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.summaries(&format!("WHERE {condition} id > ?1 ORDER BY id LIMIT ?2"), params![after, limit, agent])
    }

    fn recent(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = if agent.is_some() { "agent = ?1" } else { "?1 IS NULL" };
        let order = "ORDER BY last_active_at DESC, id LIMIT ?2";
        let place = match after {
            Some(SessionPlace { session_id: id, last_active_at: Some(at) }) => Some((at.to_string(), id)),
            Some(SessionPlace { session_id: id, last_active_at: None }) => {
                let sql = "SELECT last_active_at FROM sessions WHERE id = ?1";
                let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
                let at = statement.query_row([id.as_str()], |row| row.get::<_, String>(0)).optional();
                at.map_err(failed)?.map(|at| (at, id))
            }
            None => None,
        };
        let Some((at, id)) = place else {
            return self.summaries(&format!("WHERE {condition} {order}"), params![agent, limit]);
        };
        let behind = "last_active_at <= ?3 AND (last_active_at < ?3 OR id > ?4)";
        let condition = format!("WHERE {condition} AND {behind} {order}");
        self.summaries(&condition, params![agent, limit, at, id.as_str()])
    }

    fn search(&mut self, walk: &Walk<'_>) -> Result<Found, BackendError> {
        let Matches { ids, next } = search::search(&self.db, walk)?;
        let mut sessions = Vec::new();
        for id in ids {
            let summaries = self.summaries("WHERE id = ?1", params![id.as_str()])?;
            // The last command of a damaged session is not looked at.
            let is_kept = |summary: &SessionSummary| {
                let (agent, cwd) = (summary.meta.agent.as_deref(), &summary.cwd);
                summary.damaged.is_none() || (walk.keeps)(&Candidate::new(&id, agent, cwd, None))
            };
            sessions.extend(summaries.into_iter().filter(is_kept));
        }
        Ok(Found { sessions, next })
    }

    fn names(&mut self) -> Result<Vec<Name>, BackendError> {
        // Both columns are in the index, so the table itself is not read.
        let sql = "SELECT agent, id FROM sessions INDEXED BY sessions_of_agent";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let (mut agents, mut names) = (Agents::default(), Vec::new());
        while let Some(row) = rows.next().map_err(failed)? {
            let text = |index| row.get_ref(index).ok().and_then(|value| value.as_str().ok());
            if let Some(Ok(session_id)) = text(1).map(SessionId::parse) {
                names.push((session_id, agents.share(text(0))));
            }
        }
        Ok(names)
    }

    fn run(&mut self, session_id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, BackendError> {
        let (session, run) = (session_id.as_str(), run_id.as_str());
        // A run is named after its record, so its row is found by key; the search is for names from elsewhere.
        let by_key = "WHERE session = ?1 AND run_id = ?2 AND seq = ?3";
        if let Some(seq) = run.strip_prefix('r').and_then(|text| text.parse::<i64>().ok())
            && let Some(found) = self.one_run(session_id, by_key, &[&session, &run, &seq])?
        {
            return Ok(Some(found));
        }
        self.one_run(session_id, "WHERE session = ?1 AND run_id = ?2 ORDER BY seq DESC LIMIT 1", &[&session, &run])
    }

    fn runs(&mut self, session_id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, BackendError> {
        self.row(session_id)?;
        let sql = select_runs("WHERE session = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3");
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![session_id.as_str(), int(before), limit]).map_err(failed)?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            runs.push(listed_run(read_run(row)?));
        }
        Ok(runs)
    }

    fn run_keys(&mut self, before: Option<&RunKey>, limit: usize) -> Result<Vec<RunKey>, BackendError> {
        // All columns are in the index. Times are compared as text, so runs that started within a microsecond of each
        // other may be in another order.
        let sql = "SELECT started_at, session, seq FROM runs INDEXED BY runs_by_start \
                   WHERE (started_at, session, seq) < (?1, ?2, ?3) \
                   ORDER BY started_at DESC, session DESC, seq DESC LIMIT ?4";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let (at, session, seq) = match before {
            Some(key) => (key.started_at.to_string(), key.session_id.as_str(), int(key.seq)),
            None => (Timestamp::MAX.to_string(), "", 0),
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![at, session, seq, limit]).map_err(failed)?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let text = |index| row.get::<_, String>(index).map_err(failed);
            // A run whose row was changed is reported by those who read it.
            if let (Ok(started_at), Ok(session_id)) = (time(&text(0)?), SessionId::parse(&text(1)?)) {
                keys.push(RunKey { started_at, session_id, seq: uint(row.get(2).map_err(failed)?) });
            }
        }
        Ok(keys)
    }

    fn run_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredRun>, BackendError> {
        let condition = "WHERE session = ?1 AND request_id = ?2 ORDER BY seq DESC LIMIT 1";
        self.one_run(session_id, condition, &[&session_id.as_str(), &request_id])
    }

    fn request_ids(&mut self, session_id: &SessionId, limit: usize) -> Result<Vec<String>, BackendError> {
        let sql = "SELECT request_id FROM runs WHERE session = ?1 AND request_id IS NOT NULL LIMIT ?2";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![session_id.as_str(), limit], |row| row.get(0)).map_err(failed)?;
        rows.map(|key| key.map_err(damaged)).collect()
    }

    fn resume_by_request(
        &mut self,
        session_id: &SessionId,
        request_id: &str,
    ) -> Result<Option<StoredResume>, BackendError> {
        self.row(session_id)?;
        let sql = format!(
            "SELECT {}, seq, ended_seq FROM resumes WHERE session = ?1 AND request_id = ?2 ORDER BY seq DESC LIMIT 1",
            RESUME.holds()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([session_id.as_str(), request_id]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        check(row, 0, "a message to its agent")?;
        let ended: Option<i64> = row.get(2).map_err(damaged)?;
        let (request_id, seq) = (request_id.to_owned(), uint(row.get(1).map_err(damaged)?));
        Ok(Some(StoredResume { request_id, seq, ended_seq: ended.map(uint) }))
    }

    fn first_shell(&mut self, session_id: &SessionId) -> Result<Option<ShellState>, BackendError> {
        if self.row(session_id)?.is_none() {
            return Ok(None);
        }
        origin::first_shell(&self.db, session_id)
    }

    fn messages(&mut self, session_id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, BackendError> {
        self.row(session_id)?;
        let sql = format!(
            "SELECT message, {} FROM messages WHERE session = ?1 AND seq_id > ?2 ORDER BY seq_id LIMIT ?3",
            MESSAGE.holds()
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![session_id.as_str(), int(after), limit]).map_err(failed)?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            check(row, 1, "a message")?;
            let text = row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(damaged)?;
            messages.push(parsed("a message", text)?);
        }
        Ok(messages)
    }

    fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> Result<(), BackendError> {
        self.live.remove(session_id);
        scrub::scrub(&mut self.db, session_id, redactor)
    }

    fn unfinished(&mut self) -> Result<Vec<SessionId>, BackendError> {
        let sql = "SELECT id FROM sessions WHERE unrest = 1 AND damaged IS NULL ORDER BY id";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let ids: Vec<String> = ids.collect::<rusqlite::Result<_>>().map_err(failed)?;
        Ok(ids.iter().filter_map(|id| SessionId::parse(id).ok()).collect())
    }

    fn tidy(&mut self) -> Result<bool, BackendError> {
        self.space.give_back(&self.db)
    }
}
