//! Masking a secret in the rows of one session, and in what the file keeps of older rows.

use super::row::{self, damaged, failed};
use super::{last, sums};
use crate::backend::BackendError;
use crate::mask;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use shellkeep_record::Masker;
use shellkeep_redact::Redactor;
use shellkeep_session::{Json, SessionId, ShellState};

type Result<T> = std::result::Result<T, BackendError>;

/// Columns that hold JSON: table, column, and the column that names the session.
const JSON_COLUMNS: [(&str, &str, &str); 7] = [
    ("sessions", "pending", "id"),
    ("sessions", "rest", "id"),
    ("origins", "meta", "session"),
    ("shell_values", "value", "session"),
    ("runs", "result", "session"),
    ("messages", "message", "session"),
    ("agent_states", "state", "session"),
];

/// Columns that hold bytes or text.
const PLAIN_COLUMNS: [(&str, &str, &str); 4] = [
    ("sessions", "cwd", "id"),
    ("runs", "command", "session"),
    ("runs", "request_id", "session"),
    ("resumes", "request_id", "session"),
];

/// Fields with names, which are not masked.
const NAMES: [&str; 3] = ["session_id", "agent", "by"];

/// Masks all rows, then vacuums the file: otherwise replaced and deleted rows stay in unused pages.
pub(super) fn scrub(db: &mut Connection, session_id: &SessionId, redactor: &Redactor) -> Result<()> {
    let masker = Masker::of_values(redactor.clone());
    let transaction = db.transaction().map_err(failed)?;
    drop_names(&transaction, session_id, &masker)?;
    scrub_first_shell(&transaction, session_id, &masker)?;
    for (table, column, session) in JSON_COLUMNS {
        scrub_column(&transaction, (table, column, session), session_id, |text| json(text, &masker))?;
    }
    for (table, column, session) in PLAIN_COLUMNS {
        scrub_column(&transaction, (table, column, session), session_id, |bytes| {
            let masked = redactor.redact(bytes);
            Ok((masked != bytes).then_some(masked))
        })?;
    }
    // A part of the secret may be in it, in lower case.
    last::renew(&transaction, "id = ?1", [session_id.as_str()]).map_err(failed)?;
    sums::renew_session(&transaction, session_id).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    db.flush_prepared_statement_cache();
    db.execute_batch("PRAGMA secure_delete = ON; VACUUM; PRAGMA secure_delete = OFF").map_err(failed)?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)
}

/// Deletes variables and functions whose names contain the secret.
fn drop_names(db: &Connection, session_id: &SessionId, masker: &Masker) -> Result<()> {
    let mut statement = db.prepare("SELECT DISTINCT name FROM shell_values WHERE session = ?1").map_err(failed)?;
    let names = statement.query_map([session_id.as_str()], |row| row.get::<_, Vec<u8>>(0)).map_err(failed)?;
    let names: Vec<Vec<u8>> = names.collect::<rusqlite::Result<_>>().map_err(failed)?;
    for name in names.iter().filter(|name| mask::is_in_name(name, masker)) {
        db.execute("DELETE FROM shell_values WHERE session = ?1 AND name = ?2", params![session_id.as_str(), name])
            .map_err(failed)?;
    }
    Ok(())
}

fn scrub_first_shell(db: &Connection, session_id: &SessionId, masker: &Masker) -> Result<()> {
    let sql = "SELECT first_shell FROM origins WHERE session = ?1";
    let text = db.query_row(sql, [session_id.as_str()], |row| row.get::<_, String>(0)).optional().map_err(failed)?;
    let Some(shell) = text.and_then(|text| ShellState::from_json(text.as_bytes()).ok()) else { return Ok(()) };
    let masked = row::json(&mask::shell(&shell, masker)?)?;
    let sql = "UPDATE origins SET first_shell = ?2 WHERE session = ?1";
    db.execute(sql, params![session_id.as_str(), masked]).map(|_| ()).map_err(failed)
}

/// The text with its secrets masked, if it has some.
fn json(text: &[u8], masker: &Masker) -> Result<Option<Vec<u8>>> {
    // A value that is not JSON is our own marker, or damage; it is masked as bytes.
    let Ok(mut value) = Value::from_json(text) else {
        let masked = masker.redactor().redact(text);
        return Ok((masked != text).then_some(masked));
    };
    let names: Vec<_> = NAMES.iter().filter_map(|name| Some((*name, value.get(name)?.clone()))).collect();
    if !masker.mask_value(&mut value) {
        return Ok(None);
    }
    if let Value::Object(fields) = &mut value {
        fields.extend(names.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    value.to_json().map(Some).map_err(|error| BackendError::Failed { reason: error.to_string() })
}

/// Masks one column of all rows of a session. Only what changes is held in memory until it is written.
fn scrub_column(
    db: &Connection,
    (table, column, session): (&str, &str, &str),
    session_id: &SessionId,
    mask: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    let key = match table {
        "runs" | "resumes" => "seq",
        "messages" => "seq_id",
        "shell_values" => "id",
        _ => "0",
    };
    let id = session_id.as_str();
    let mut select = db
        .prepare(&format!("SELECT {key}, {column} FROM {table} WHERE {session} = ?1 AND {column} IS NOT NULL"))
        .map_err(failed)?;
    let mut update =
        db.prepare(&format!("UPDATE {table} SET {column} = ?3 WHERE {session} = ?1 AND {key} = ?2")).map_err(failed)?;
    let mut rows = select.query([id]).map_err(failed)?;
    let mut changes: Vec<(rusqlite::types::Value, rusqlite::types::Value)> = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let key: rusqlite::types::Value = row.get(0).map_err(failed)?;
        let value = row.get_ref(1).map_err(failed)?;
        let is_text = matches!(value, rusqlite::types::ValueRef::Text(_));
        let Some(masked) = mask(value.as_bytes().map_err(|error| damaged(error.into()))?)? else { continue };
        let masked = match String::from_utf8(masked) {
            Ok(text) if is_text => rusqlite::types::Value::Text(text),
            Ok(text) => rusqlite::types::Value::Blob(text.into_bytes()),
            Err(error) => rusqlite::types::Value::Blob(error.into_bytes()),
        };
        changes.push((key, masked));
    }
    drop(rows);
    for (key, masked) in changes {
        update.execute(params![id, key, masked]).map_err(failed)?;
    }
    Ok(())
}
