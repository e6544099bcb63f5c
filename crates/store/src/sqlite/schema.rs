//! The database's tables, and from a path to an open database.

use crate::backend::{Mark, fresh_id};
use crate::open::{Durability, OpenError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, params};
use shellkeep_session::FORMAT_VERSION;
use std::path::Path;

/// A larger database is not checked whole at the start: that would read every page, and the daemon is to serve within a
/// second. Damage in it shows when the page is read.
const CHECK_BYTES: u64 = 64 * 1024 * 1024;

/// Prepared statements that are kept; more than this crate has.
const STATEMENTS: usize = 64;

/// Page cache: the inner pages of all tables and the leaves in use, so that a batch reads little from the file.
const CACHE_KIB: i64 = 16 * 1024;

/// Pages in the write-ahead log before they are carried over, which costs a wait for the disk: 16 MiB, so that the same
/// leaf is carried over once for many batches.
const CHECKPOINT_PAGES: i64 = 4096;

/// Columns that change with every record are apart from those that never change: SQLite rewrites a row as a whole.
/// Where `based` is set, `shell_entries` has only what differs from `first_shell`; a new session has no row in it.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, agent TEXT, last_active_at TEXT NOT NULL, cwd BLOB NOT NULL, generation INTEGER NOT NULL,
    seq INTEGER NOT NULL, pending TEXT NOT NULL, rest TEXT NOT NULL, damaged TEXT, unrest INTEGER NOT NULL DEFAULT 0,
    based INTEGER NOT NULL DEFAULT 0
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
    started_at TEXT NOT NULL, result TEXT, by_token TEXT, ended_seq INTEGER, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    session TEXT NOT NULL, seq_id INTEGER NOT NULL, message TEXT NOT NULL, PRIMARY KEY (session, seq_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_states (session TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_request ON runs (session, request_id) WHERE request_id IS NOT NULL;
";

/// Opens or makes the file; gives its id and how far the journal has been applied to it.
pub(super) fn open(path: &Path, durability: Durability) -> Result<(Connection, String, Mark), OpenError> {
    let small = std::fs::metadata(path).map_or(0, |metadata| metadata.len()) <= CHECK_BYTES;
    let mut db = Connection::open(path).map_err(|error| open_error(path, &error))?;
    let (id, applied) = set_up(&mut db, path, durability, small)?;
    Ok((db, id, applied))
}

fn set_up(db: &mut Connection, path: &Path, durability: Durability, check: bool) -> Result<(String, Mark), OpenError> {
    let bad = |error: rusqlite::Error| open_error(path, &error);
    // Only a file without tables takes this: in an older one, free pages are used again but never given back.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(bad)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without this some statements are prepared again for every new value, in search of a better plan.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(bad)?;
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

/// Columns that came after the first files were written.
const LATE_COLUMNS: [(&str, &str, &str); 3] = [
    ("runs", "by_token", "TEXT"),
    ("sessions", "based", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "ended_seq", "INTEGER"),
];

fn add_late_columns(db: &Connection) -> rusqlite::Result<()> {
    for (table, column, kind) in LATE_COLUMNS {
        let sql = "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2";
        if db.query_row(sql, [table, column], |_| Ok(())).optional()?.is_none() {
            db.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {kind}"))?;
        }
    }
    Ok(())
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
