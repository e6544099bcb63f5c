//! Sessions in one SQLite file, the embedded default. A record changes only the rows it speaks of: a command that sets
//! one variable writes one variable, however large the rest of the shell is.

mod apply;

use crate::backend::{Backend, BackendError, Entry, Mark, SessionSummary, fresh_id, unknown_state};
use crate::lock;
use crate::open::{Durability, OpenError};
use apply::Live;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shellkeep_session::{
    ActiveRun, ByteString, FORMAT_VERSION, LeftProcess, Notice, RunId, Service, ServiceId, SessionId, SessionMeta,
    SessionState, ShellState, StoredRun, Timestamp,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

/// A larger database is not checked whole at the start: that would read every page and keep the daemon from serving
/// for minutes. Damage in it shows when the page is read.
const CHECK_BYTES: u64 = 256 * 1024 * 1024;

/// Prepared statements that are kept; more than this crate has.
const STATEMENTS: usize = 64;

/// Page cache: the inner pages of all tables and the leaves in use, so that a batch reads little from the file.
const CACHE_KIB: i64 = 16 * 1024;

/// Pages in the write-ahead log before they are carried over, which costs a wait for the disk: 16 MiB, so that the same
/// leaf is carried over once for many batches.
const CHECKPOINT_PAGES: i64 = 4096;

/// Columns that change with every record are apart from those that never change: SQLite rewrites a row as a whole.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, agent TEXT, last_active_at TEXT NOT NULL, cwd BLOB NOT NULL, generation INTEGER NOT NULL,
    seq INTEGER NOT NULL, pending TEXT NOT NULL, rest TEXT NOT NULL, damaged TEXT, unrest INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_unrest ON sessions (id) WHERE unrest = 1;
CREATE INDEX IF NOT EXISTS sessions_of_agent ON sessions (agent, id);
CREATE TABLE IF NOT EXISTS origins (
    session TEXT PRIMARY KEY, created_at TEXT NOT NULL, meta TEXT NOT NULL, first_shell TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS shell_entries (
    session TEXT NOT NULL, kind TEXT NOT NULL, name BLOB NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (session, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    session TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT NOT NULL, request_id TEXT, command BLOB NOT NULL,
    started_at TEXT NOT NULL, result TEXT, by_token TEXT, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_by_request ON runs (session, request_id) WHERE request_id IS NOT NULL;
";

const RUN_COLUMNS: &str = "SELECT run_id, seq, request_id, command, started_at, result, by_token FROM runs ";

/// What the next result and a restart after a crash need, as one column.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pending {
    active_runs: BTreeMap<RunId, ActiveRun>,
    #[serde(default)]
    processes: Vec<LeftProcess>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    services: BTreeMap<ServiceId, Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    pending_notices: Vec<Notice>,
}

/// A backend in an SQLite file.
pub(crate) struct SqliteBackend {
    db: Connection,
    id: String,
    applied: Mark,
    /// Sessions that were written lately, without their variables and functions.
    live: HashMap<SessionId, Live>,
    _lock: File,
}

impl SqliteBackend {
    /// Opens or makes the file.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        let not_writable = |error: std::io::Error| OpenError::not_writable(path, &error);
        if let Some(parent) = path.parent() {
            lock::private_directory(parent).map_err(not_writable)?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = lock::take(Path::new(&lock_path))?;
        let small = std::fs::metadata(path).map_or(0, |metadata| metadata.len()) <= CHECK_BYTES;
        let mut db = Connection::open(path).map_err(|error| open_error(path, &error))?;
        let (id, applied) = set_up(&mut db, path, durability, small)?;
        Ok(Self { db, id, applied, live: HashMap::new(), _lock: lock })
    }

    fn row(&self, session_id: &SessionId) -> Result<Option<SessionRow>, BackendError> {
        let sql = "SELECT s.last_active_at, s.cwd, s.generation, s.seq, s.pending, s.rest, s.damaged, o.meta \
                   FROM sessions s LEFT JOIN origins o ON o.session = s.id WHERE s.id = ?1";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let row = statement.query_row([session_id.as_str()], SessionRow::read).optional().map_err(failed)?;
        match row {
            Some(SessionRow { damaged: Some(reason), .. }) => Err(BackendError::Damaged { reason }),
            row => Ok(row),
        }
    }

    fn entries<V: DeserializeOwned>(
        &self,
        session_id: &SessionId,
        kind: &str,
    ) -> Result<BTreeMap<ByteString, V>, BackendError> {
        let sql = "SELECT name, value FROM shell_entries WHERE session = ?1 AND kind = ?2";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params![session_id.as_str(), kind]).map_err(failed)?;
        let mut entries = BTreeMap::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let name: Vec<u8> = row.get(0).map_err(damaged)?;
            let value: String = row.get(1).map_err(damaged)?;
            entries.insert(ByteString(name), parsed("a variable or function", &value)?);
        }
        Ok(entries)
    }

    fn one_run(
        &self,
        session_id: &SessionId,
        condition: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<StoredRun>, BackendError> {
        self.row(session_id)?;
        let mut statement = self.db.prepare_cached(&format!("{RUN_COLUMNS} {condition}")).map_err(failed)?;
        let mut rows = statement.query(values).map_err(failed)?;
        rows.next().map_err(failed)?.map(read_run).transpose()
    }
}

fn set_up(db: &mut Connection, path: &Path, durability: Durability, check: bool) -> Result<(String, Mark), OpenError> {
    let bad = |error: rusqlite::Error| open_error(path, &error);
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.pragma_update(None, "journal_mode", "WAL").map_err(bad)?;
    let synchronous = if durability == Durability::Power { "FULL" } else { "NORMAL" };
    db.pragma_update(None, "synchronous", synchronous).map_err(bad)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB).map_err(bad)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(bad)?;
    if check {
        let answer: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(bad)?;
        if answer != "ok" {
            return Err(OpenError::Corrupt { path: path.to_owned(), reason: answer });
        }
    }
    // The format is checked before anything is changed.
    let tables = db.query_row("SELECT 1 FROM sqlite_schema WHERE name = 'meta'", [], |_| Ok(())).optional();
    if tables.map_err(bad)?.is_some() {
        let found: u32 = meta(db, "format").map_err(bad)?.and_then(|text| text.parse().ok()).unwrap_or(0);
        if found > FORMAT_VERSION {
            return Err(OpenError::NewerFormat { place: path.to_owned(), found, ours: FORMAT_VERSION });
        }
    }
    let fresh = fresh_id().map_err(|error| OpenError::not_writable(path, &error))?;
    let transaction = db.transaction().map_err(bad)?;
    transaction.execute_batch(SCHEMA).map_err(bad)?;
    add_late_columns(&transaction).map_err(bad)?;
    // What is written from here on is in our format, whatever the file began with.
    let format = "INSERT OR REPLACE INTO meta (key, value) VALUES ('format', ?1)";
    transaction.execute(format, params![FORMAT_VERSION.to_string()]).map_err(bad)?;
    let insert = "INSERT OR IGNORE INTO meta (key, value) VALUES ('id', ?1)";
    transaction.execute(insert, params![fresh]).map_err(bad)?;
    transaction.commit().map_err(bad)?;
    let id = meta(db, "id").map_err(bad)?.unwrap_or(fresh);
    let mark = match meta(db, "applied").map_err(bad)? {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| OpenError::Corrupt { path: path.to_owned(), reason: error.to_string() })?,
        None => Mark::default(),
    };
    Ok((id, mark))
}

/// Columns that came after the first files were written. An older program leaves them empty and is not disturbed.
fn add_late_columns(db: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT 1 FROM pragma_table_info('runs') WHERE name = 'by_token'";
    match db.query_row(sql, [], |_| Ok(())).optional()? {
        Some(()) => Ok(()),
        None => db.execute_batch("ALTER TABLE runs ADD COLUMN by_token TEXT"),
    }
}

fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => OpenError::Corrupt { path: path.to_owned(), reason },
        _ => OpenError::NotWritable { path: path.to_owned(), reason },
    }
}

fn failed(error: rusqlite::Error) -> BackendError {
    BackendError::Failed { reason: format!("sqlite: {error}") }
}

fn damaged(error: rusqlite::Error) -> BackendError {
    BackendError::Damaged { reason: format!("its stored state cannot be read: {error}") }
}

fn parsed<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, BackendError> {
    serde_json::from_str(text)
        .map_err(|error| BackendError::Damaged { reason: format!("its stored state cannot be read ({what}: {error})") })
}

fn time(text: &str) -> Result<shellkeep_session::Timestamp, BackendError> {
    text.parse().map_err(|_| BackendError::Damaged { reason: format!("its stored state has a bad time '{text}'") })
}

/// SQLite counts in signed numbers. No count here comes near the limit.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

struct SessionRow {
    last_active_at: String,
    cwd: Vec<u8>,
    generation: u64,
    seq: u64,
    pending: String,
    rest: String,
    damaged: Option<String>,
    meta: Option<String>,
}

impl SessionRow {
    /// Reads what can be read: a value of a wrong type spoils its own session, not the list or batch it is read for.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text = |index| row.get::<_, String>(index).unwrap_or_default();
        let mut damaged: Option<String> = row.get(6)?;
        let mut number = |index| {
            row.get(index).map(uint).unwrap_or_else(|error| {
                damaged.get_or_insert(format!("its stored state cannot be read: {error}"));
                0
            })
        };
        let (generation, seq) = (number(2), number(3));
        Ok(Self {
            last_active_at: text(0),
            cwd: row.get(1).unwrap_or_default(),
            generation,
            seq,
            pending: text(4),
            rest: text(5),
            damaged,
            meta: row.get(7).unwrap_or_default(),
        })
    }

    fn meta(&self) -> Result<SessionMeta, BackendError> {
        match &self.meta {
            Some(text) => parsed("meta", text),
            None => Err(BackendError::Damaged { reason: "what it was made with is missing".to_owned() }),
        }
    }

    /// The state without variables and functions.
    fn state(&self, meta: SessionMeta) -> Result<SessionState, BackendError> {
        let pending: Pending = parsed("pending", &self.pending)?;
        let last_active_at = time(&self.last_active_at)?;
        let shell = parsed("rest", &self.rest)?;
        Ok(SessionState {
            meta,
            seq: self.seq,
            last_active_at,
            generation: self.generation,
            active_runs: pending.active_runs,
            processes: pending.processes,
            services: pending.services,
            ended_at: pending.ended_at,
            pending_notices: pending.pending_notices,
            shell,
        })
    }

    /// The row of a list. What cannot be read is told in it and spoils no other row.
    fn summary(self, session_id: &SessionId) -> SessionSummary {
        let unknown = unknown_state(session_id);
        let mut reason = self.damaged.clone();
        let meta = self.meta().unwrap_or_else(|error| {
            reason.get_or_insert(error.to_string());
            unknown.meta
        });
        let last_active_at = time(&self.last_active_at).unwrap_or_else(|error| {
            reason.get_or_insert(error.to_string());
            unknown.last_active_at
        });
        let (generation, seq) = (self.generation, self.seq);
        SessionSummary { meta, last_active_at, cwd: ByteString(self.cwd), generation, seq, damaged: reason }
    }
}

fn read_run(row: &Row<'_>) -> Result<StoredRun, BackendError> {
    let run_id: String = row.get(0).map_err(damaged)?;
    let started_at: String = row.get(4).map_err(damaged)?;
    let result: Option<String> = row.get(5).map_err(damaged)?;
    Ok(StoredRun {
        run_id: RunId::parse(&run_id).map_err(|error| BackendError::Damaged { reason: error.to_string() })?,
        seq: uint(row.get(1).map_err(damaged)?),
        request_id: row.get(2).map_err(damaged)?,
        command: ByteString(row.get(3).map_err(damaged)?),
        started_at: time(&started_at)?,
        by: row.get(6).map_err(damaged)?,
        result: result.map(|text| parsed("a run's result", &text)).transpose()?,
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
            Ok(()) => self.applied = mark,
            // What the transaction took back must not live on in memory.
            Err(_) => self.live.clear(),
        }
        applied
    }

    fn load(&mut self, session_id: &SessionId) -> Result<Option<SessionState>, BackendError> {
        let Some(row) = self.row(session_id)? else { return Ok(None) };
        let mut state = row.state(row.meta()?)?;
        state.shell.variables = self.entries(session_id, apply::VARIABLE)?;
        state.shell.functions = self.entries(session_id, apply::FUNCTION)?;
        Ok(Some(state))
    }

    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionSummary>, BackendError> {
        let condition = if agent.is_some() { "s.agent = ?3 AND" } else { "?3 IS NULL AND" };
        let sql = format!(
            "SELECT s.last_active_at, s.cwd, s.generation, s.seq, s.pending, s.rest, s.damaged, o.meta, s.id \
             FROM sessions s LEFT JOIN origins o ON o.session = s.id \
             WHERE {condition} s.id > ?1 ORDER BY s.id LIMIT ?2"
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        // No id is empty, so every id is greater than the empty text.
        let after = after.map_or("", SessionId::as_str);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(8)?, SessionRow::read(row)?));
        let rows = statement.query_map(params![after, limit, agent], read).map_err(failed)?;
        let mut summaries = Vec::new();
        for row in rows {
            let (id, row) = row.map_err(failed)?;
            if let Ok(session_id) = SessionId::parse(&id) {
                summaries.push(row.summary(&session_id));
            }
        }
        Ok(summaries)
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

    fn run_by_request(&mut self, session_id: &SessionId, request_id: &str) -> Result<Option<StoredRun>, BackendError> {
        let condition = "WHERE session = ?1 AND request_id = ?2 ORDER BY seq DESC LIMIT 1";
        self.one_run(session_id, condition, &[&session_id.as_str(), &request_id])
    }

    fn first_shell(&mut self, session_id: &SessionId) -> Result<Option<ShellState>, BackendError> {
        if self.row(session_id)?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT first_shell FROM origins WHERE session = ?1";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let text: Option<String> =
            statement.query_row([session_id.as_str()], |row| row.get(0)).optional().map_err(failed)?;
        text.map(|text| parsed("its first shell", &text)).transpose()
    }

    fn unfinished(&mut self) -> Result<Vec<SessionId>, BackendError> {
        let sql = "SELECT id FROM sessions WHERE unrest = 1 AND damaged IS NULL ORDER BY id";
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let ids: Vec<String> = ids.collect::<rusqlite::Result<_>>().map_err(failed)?;
        Ok(ids.iter().filter_map(|id| SessionId::parse(id).ok()).collect())
    }
}
