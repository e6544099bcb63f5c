//! The last run of a session in the session's own row, as much of it as a search needs. It repeats what the table of runs
//! has, so it can be made anew from there.

use super::sums::LAST;
use crate::walk::{command_words, has_failed};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Params, Row};
use shellkeep_session::{Json, RunId, RunResult, StoredRun};

/// A session's last run.
pub(super) struct LastRun {
    run_id: String,
    /// The beginning of its command in lower case.
    words: String,
    /// Whether it failed; unknown while it runs.
    failed: Option<bool>,
}

impl LastRun {
    pub(super) fn started(run: &StoredRun) -> Self {
        let (run_id, words) = (run.run_id.as_str().to_owned(), command_words(run.command.as_bytes()));
        Self { run_id, words, failed: None }
    }

    /// Whether this run began before another one.
    pub(super) fn is_before(&self, other: &StoredRun) -> bool {
        RunId::parse(&self.run_id).ok().and_then(|run_id| run_id.seq()).is_some_and(|seq| seq < other.seq)
    }

    /// Notes the end of a run, if it is this one. Only its first end counts.
    pub(super) fn ended(&mut self, run_id: &RunId, result: &RunResult) {
        if self.run_id == run_id.as_str() {
            self.failed.get_or_insert_with(|| has_failed(result));
        }
    }

    /// Reads the columns `last_run, last, failed`.
    pub(super) fn read(row: &Row<'_>, first: usize) -> Option<Self> {
        let text = |index| row.get::<_, Option<String>>(index).ok().flatten();
        let failed = row.get(first + 2).unwrap_or_default();
        Some(Self { run_id: text(first)?, words: text(first + 1)?, failed })
    }

    /// The columns `last_run, last, failed`.
    pub(super) fn columns(&self) -> (Option<&str>, Option<&str>, Option<bool>) {
        (Some(&self.run_id), Some(&self.words), self.failed)
    }
}

/// Adds the SQL functions that make the columns from a run: `command_words(command)` and `has_failed(result)`.
pub(super) fn install(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("command_words", 1, flags, |context| {
        Ok(context.get_raw(0).as_bytes().ok().map(command_words))
    })?;
    db.create_scalar_function("has_failed", 1, flags, |context| {
        let result = context.get_raw(0).as_bytes().ok().map(RunResult::from_json);
        // A result that cannot be read is reported by those who read it.
        Ok(result.and_then(Result::ok).as_ref().map(has_failed))
    })
}

/// Makes the columns anew from the runs, for the sessions for which a condition holds.
pub(super) fn renew(db: &Connection, condition: &str, values: impl Params + Copy) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE sessions SET (last_run, last, failed) = (SELECT run_id, command_words(command), has_failed(result) \
         FROM runs WHERE session = sessions.id ORDER BY seq DESC LIMIT 1) WHERE {condition}"
    );
    db.execute(&sql, values)?;
    db.execute(&LAST.renew(condition), values).map(drop)
}
