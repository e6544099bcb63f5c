//! Writing the rows of runs.

use super::row::{execute, failed, int, json};
use super::sums::RUN;
use crate::backend::BackendError;
use rusqlite::{Connection, params};
use shellkeep_session::{RunId, StoredRun};

type Result<T> = std::result::Result<T, BackendError>;

/// The end of a run that began before this batch.
pub(super) struct Ended {
    pub(super) run_id: RunId,
    /// Number of its record.
    pub(super) seq: u64,
    /// As JSON.
    pub(super) result: String,
}

/// Writes a run of a session.
pub(super) fn insert(db: &Connection, session: &str, run: StoredRun) -> Result<()> {
    write(db, session, run, "INSERT OR REPLACE")
}

/// Writes a run of a session unless there is one with its number.
pub(super) fn insert_unknown(db: &Connection, session: &str, run: StoredRun) -> Result<()> {
    write(db, session, run, "INSERT OR IGNORE")
}

fn write(db: &Connection, session: &str, run: StoredRun, insert: &str) -> Result<()> {
    let result = run.result.as_ref().map(json).transpose()?;
    let sql = format!(
        "{insert} INTO runs \
         (session, seq, run_id, request_id, command, started_at, result, by_token, ended_seq, sum) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, row_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9))"
    );
    let (run_id, command) = (run.run_id.as_str(), run.command.as_bytes());
    let (started_at, ended) = (run.started_at.to_string(), run.ended_seq.map(int));
    let (seq, request_id, by) = (int(run.seq), run.request_id, run.by);
    execute(db, &sql, params![session, seq, run_id, request_id, command, started_at, result, by, ended])
}

impl Ended {
    /// A run is named after the record that started it, so its row is found by key; all runs of the session are
    /// searched only for other names.
    pub(super) fn write(&self, db: &Connection, session: &str) -> Result<()> {
        let (run_id, ended) = (self.run_id.as_str(), int(self.seq));
        let by_key = "UPDATE runs SET result = ?3, ended_seq = ?4, \
                      sum = row_sum(session, seq, run_id, request_id, command, started_at, ?3, by_token, ?4) \
                      WHERE session = ?1 AND run_id = ?2 AND seq = ?5 AND result IS NULL";
        let found = match self.run_id.seq() {
            Some(seq) => {
                let mut statement = db.prepare_cached(by_key).map_err(failed)?;
                statement.execute(params![session, run_id, self.result, ended, int(seq)]).map_err(failed)? > 0
            }
            None => false,
        };
        if found {
            return Ok(());
        }
        let by_name = "UPDATE runs SET result = ?3, ended_seq = ?4 \
                       WHERE session = ?1 AND run_id = ?2 AND result IS NULL";
        execute(db, by_name, params![session, run_id, self.result, ended])?;
        execute(db, &RUN.renew("session = ?1 AND run_id = ?2"), params![session, run_id])
    }
}
