//! The database's tables, and opening the database.

use super::{last, sums};
use crate::backend::{BackendError, Mark, fresh_id};
use crate::error::{Durability, OpenError};
use crate::sum::{self, Unsealed};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use shellkeep_session::FORMAT_VERSION;
use std::path::Path;

/// The first format in which everything has a checksum.
const FIRST_WITH_SUMS: u32 = 4;

/// A larger database is not checked completely at the start: that would read every page, and the daemon should serve
/// within a second. Damage is detected when the page is read.
const CHECK_BYTES: u64 = 64 * 1024 * 1024;

/// Prepared statements that are kept; more than this crate has.
const STATEMENTS: usize = 64;

/// Page cache: the inner pages of all tables and the leaves in use, so that a batch reads little from the file.
const CACHE_KIB: i64 = 16 * 1024;

/// Pages in the write-ahead log before a checkpoint, which waits for the disk: 16 MiB, so that the same leaf is written
/// once for many batches.
const CHECKPOINT_PAGES: i64 = 4096;

/// Columns that change with every record are separate from those that never change: SQLite rewrites whole rows. Where
/// `based` is set, `shell_values` has only what differs from `first_shell`; a new session has no row in it. What can be
/// large is in tables with row numbers, and keys are in indexes of their own: in a table without row numbers, a search
/// compares whole rows, so that finding one small value would read large ones too.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, agent TEXT, last_active_at TEXT NOT NULL, cwd BLOB NOT NULL, generation INTEGER NOT NULL,
    seq INTEGER NOT NULL, pending TEXT NOT NULL, rest TEXT NOT NULL, damaged TEXT, unrest INTEGER NOT NULL DEFAULT 0,
    based INTEGER NOT NULL DEFAULT 0, head_sum INTEGER, body_sum INTEGER,
    last_run TEXT, last TEXT, failed INTEGER, last_sum INTEGER
);
CREATE INDEX IF NOT EXISTS sessions_unrest ON sessions (id) WHERE unrest = 1;
CREATE INDEX IF NOT EXISTS sessions_of_agent ON sessions (agent, id);
CREATE TABLE IF NOT EXISTS origins (
    session TEXT PRIMARY KEY, created_at TEXT NOT NULL, meta TEXT NOT NULL, first_shell TEXT NOT NULL,
    meta_sum INTEGER, shell_sum INTEGER
);
CREATE TABLE IF NOT EXISTS shell_values (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, name BLOB NOT NULL, sum INTEGER,
    value TEXT NOT NULL, UNIQUE (session, kind, name)
);
CREATE TABLE IF NOT EXISTS runs (
    session TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT NOT NULL, request_id TEXT, command BLOB NOT NULL,
    started_at TEXT NOT NULL, result TEXT, by_token TEXT, ended_seq INTEGER,
    sum INTEGER, PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS messages (
    session TEXT NOT NULL, seq_id INTEGER NOT NULL, message TEXT NOT NULL, sum INTEGER,
    PRIMARY KEY (session, seq_id)
);
CREATE TABLE IF NOT EXISTS resumes (
    session TEXT NOT NULL, seq INTEGER NOT NULL, request_id TEXT NOT NULL, ended_seq INTEGER, sum INTEGER,
    PRIMARY KEY (session, seq)
);
CREATE INDEX IF NOT EXISTS resumes_by_request ON resumes (session, request_id);
CREATE TABLE IF NOT EXISTS agent_states (session TEXT PRIMARY KEY, state TEXT NOT NULL, sum INTEGER);
CREATE INDEX IF NOT EXISTS runs_by_request ON runs (session, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started_at, session, seq);
";

/// Indexes of columns that older files lack. A search by words reads only this one; lists by activity use it too.
const LATE_INDEXES: &str = "
DROP INDEX IF EXISTS sessions_by_activity;
CREATE INDEX IF NOT EXISTS sessions_found ON sessions (last_active_at DESC, id, agent, cwd, last, failed);
";

/// The version of what is derived from other columns: the last run in a session's row. It is stored with the place in the
/// journal. A program that does not know of it applies records without it, so it is made anew.
const DERIVED: u32 = 1;

/// How far the journal has been applied, as it is stored.
#[derive(Serialize, Deserialize)]
struct Applied {
    #[serde(flatten)]
    mark: Mark,
    /// The version of what is derived, up to this place.
    #[serde(default)]
    derived: u32,
}

/// A file that was opened.
pub(super) struct Opened {
    pub(super) db: Connection,
    pub(super) id: String,
    /// How far the journal has been applied.
    pub(super) applied: Mark,
}

/// Opens or creates the file.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Opened, OpenError> {
    let is_small = std::fs::metadata(path).map_or(0, |metadata| metadata.len()) <= CHECK_BYTES;
    let bad = |error: rusqlite::Error| open_error(path, &error);
    let mut db = Connection::open(path).map_err(bad)?;
    // Only a file without tables takes this: in an older one, free pages are reused but never returned.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(bad)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without this some statements are prepared again for every new value, in search of a better plan.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(bad)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(bad)?;
    let synchronous = if durability == Durability::Power { "FULL" } else { "NORMAL" };
    db.pragma_update(None, "synchronous", synchronous).map_err(bad)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB).map_err(bad)?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(bad)?;
    if is_small {
        let answer: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(bad)?;
        if answer != "ok" {
            return Err(OpenError::Corrupt { path: path.to_owned(), reason: answer });
        }
    }
    // The format is checked before anything is changed.
    let found = format(&db).map_err(bad)?;
    if found > FORMAT_VERSION {
        return Err(OpenError::NewerFormat { place: path.to_owned(), found, ours: FORMAT_VERSION });
    }
    sums::install(&db).map_err(bad)?;
    last::install(&db).map_err(bad)?;
    let fresh = fresh_id().map_err(|error| OpenError::not_writable(path, &error))?;
    let transaction = db.transaction().map_err(bad)?;
    make_tables(&transaction, found).map_err(bad)?;
    // From here on everything is written in our format, whatever the file started with.
    set_meta(&transaction, "format", &FORMAT_VERSION.to_string()).map_err(bad)?;
    let insert = "INSERT OR IGNORE INTO meta (key, value) VALUES ('id', ?1)";
    transaction.execute(insert, params![fresh]).map_err(bad)?;
    let corrupt = |reason: String| OpenError::Corrupt { path: path.to_owned(), reason };
    let applied = meta(&transaction, "applied").map_err(bad)?;
    let applied = applied.map(|text| unsealed(text, found)).transpose().map_err(corrupt)?;
    if applied.as_ref().is_none_or(|applied| applied.derived != DERIVED) {
        last::renew(&transaction, "TRUE", []).map_err(bad)?;
    }
    if let Some(Applied { mark, .. }) = applied {
        let text = sealed(mark).map_err(|error| corrupt(error.to_string()))?;
        set_meta(&transaction, "applied", &text).map_err(bad)?;
    }
    transaction.commit().map_err(bad)?;
    let id = meta(&db, "id").map_err(bad)?.unwrap_or(fresh);
    Ok(Opened { db, id, applied: applied.map(|applied| applied.mark).unwrap_or_default() })
}

/// Columns that came after the first files were written.
const LATE_COLUMNS: [(&str, &str, &str); 10] = [
    ("runs", "by_token", "TEXT"),
    ("sessions", "based", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "ended_seq", "INTEGER"),
    ("origins", "meta_sum", "INTEGER"),
    ("origins", "shell_sum", "INTEGER"),
    ("agent_states", "sum", "INTEGER"),
    ("sessions", "last_run", "TEXT"),
    ("sessions", "last", "TEXT"),
    ("sessions", "failed", "INTEGER"),
    ("sessions", "last_sum", "INTEGER"),
];

/// Tables that older files have without row numbers, and indexes that are recreated with them.
const REBUILT: [&str; 3] = ["sessions", "runs", "messages"];
const REBUILT_INDEXES: [&str; 4] = ["sessions_unrest", "sessions_of_agent", "runs_by_request", "runs_by_start"];

/// Creates the tables of a new file, or migrates those of an older one.
fn make_tables(db: &Connection, found: u32) -> rusqlite::Result<()> {
    let is_old = |table: &&&str| {
        let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND sql LIKE '%WITHOUT ROWID%'";
        db.query_row(sql, [**table], |_| Ok(())).optional().is_ok_and(|found| found.is_some())
    };
    let old: Vec<&&str> = REBUILT.iter().filter(is_old).collect();
    if !old.is_empty() {
        tracing::info!("migrating the database; this happens once and may take a while");
        for index in REBUILT_INDEXES {
            db.execute_batch(&format!("DROP INDEX IF EXISTS {index}"))?;
        }
    }
    for table in &old {
        db.execute_batch(&format!("ALTER TABLE {table} RENAME TO old_{table}"))?;
    }
    db.execute_batch(SCHEMA)?;
    add_late_columns(db)?;
    for table in &old {
        let columns = "SELECT group_concat(name, ', ') FROM pragma_table_info('old_' || ?1)";
        let columns: String = db.query_row(columns, [**table], |row| row.get(0))?;
        db.execute_batch(&format!(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM old_{table}; DROP TABLE old_{table}"
        ))?;
    }
    if has_table(db, "shell_entries")? {
        db.execute_batch(
            "INSERT INTO shell_values (session, kind, name, value) SELECT session, kind, name, value FROM shell_entries; \
             DROP TABLE shell_entries",
        )?;
    }
    db.execute_batch(LATE_INDEXES)?;
    if found < FORMAT_VERSION || !old.is_empty() { sums::renew_all(db) } else { Ok(()) }
}

/// The format of a file; 0 if it is new.
fn format(db: &Connection) -> rusqlite::Result<u32> {
    let found = if has_table(db, "meta")? { meta(db, "format")? } else { None };
    Ok(found.and_then(|text| text.parse().ok()).unwrap_or(0))
}

fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    db.query_row(sql, [name], |_| Ok(())).optional().map(|found| found.is_some())
}

/// A mark as it is stored, with its checksum.
pub(super) fn sealed(mark: Mark) -> Result<String, BackendError> {
    let failed = |reason: String| BackendError::Failed { reason };
    let applied = Applied { mark, derived: DERIVED };
    let bytes = sum::seal(serde_json::to_vec(&applied).map_err(|error| failed(error.to_string()))?);
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

fn unsealed(text: String, format: u32) -> Result<Applied, String> {
    let bytes = match sum::unseal(text.into_bytes()) {
        Unsealed::Checked(bytes) => bytes,
        Unsealed::Without(bytes) if format < FIRST_WITH_SUMS => bytes,
        Unsealed::Without(_) => return Err(format!("its place in the journal: {}", sum::MISSING)),
        Unsealed::Broken => return Err(format!("its place in the journal: {}", sum::MISMATCH)),
    };
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

fn add_late_columns(db: &Connection) -> rusqlite::Result<()> {
    for (table, column, kind) in LATE_COLUMNS {
        let sql = "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2";
        if db.query_row(sql, [table, column], |_| Ok(())).optional()?.is_none() {
            db.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    Ok(())
}

fn set_meta(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [key, value]).map(drop)
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
