//! The row of what a session was made with, and its first shell: written once, unless another node takes the session over.

use super::row::{check, damaged, execute, failed, json, parsed};
use super::sums::FIRST_SHELL;
use crate::backend::BackendError;
use rusqlite::{Connection, params};
use shellkeep_session::{SessionId, SessionMeta, ShellState};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, BackendError>;

/// Writes the row of a session that begins, with its first shell as JSON.
pub(super) fn insert(db: &Connection, id: &str, meta: &SessionMeta, first_shell: &str) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO origins (session, created_at, meta, first_shell, meta_sum, shell_sum) \
               VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3), row_sum(?1, ?4))";
    execute(db, sql, params![id, meta.created_at.to_string(), json(meta)?, first_shell])
}

/// Replaces what a session was made with, in its row here and where its list looks. The sum of the session's own row, which
/// covers the agent, is that of the row to be written next.
pub(super) fn change_meta(db: &Connection, id: &str, meta: &SessionMeta) -> Result<()> {
    let sql = "UPDATE origins SET created_at = ?2, meta = ?3, meta_sum = row_sum(?1, ?2, ?3) WHERE session = ?1";
    execute(db, sql, params![id, meta.created_at.to_string(), json(meta)?])?;
    execute(db, "UPDATE sessions SET agent = ?2 WHERE id = ?1", params![id, meta.agent])
}

/// The initial state of a session's shell.
pub(super) fn first_shell(db: &Connection, session_id: &SessionId) -> Result<Option<ShellState>> {
    let sql = format!("SELECT first_shell, {} FROM origins WHERE session = ?1", FIRST_SHELL.holds());
    let mut statement = db.prepare_cached(&sql).map_err(failed)?;
    let mut rows = statement.query([session_id.as_str()]).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
    check(row, 1, "its first shell")?;
    let text = row.get_ref(0).map_err(failed)?.as_str().map_err(|error| damaged(error.into()))?;
    parsed("its first shell", text).map(Some)
}

/// A shell's small parts.
pub(super) fn without_entries(shell: &ShellState) -> ShellState {
    ShellState {
        cwd: shell.cwd.clone(),
        directory_stack: shell.directory_stack.clone(),
        variables: BTreeMap::new(),
        functions: BTreeMap::new(),
        aliases: shell.aliases.clone(),
        options: shell.options.clone(),
        traps: shell.traps.clone(),
        umask: shell.umask,
        limits: shell.limits.clone(),
        positional: shell.positional.clone(),
        argv0: shell.argv0.clone(),
        disabled_builtins: shell.disabled_builtins.clone(),
        status: shell.status,
    }
}
