//! Reads sessions back: those that this node never had, or no longer has.

use crate::database::{Database, DatabaseError, Dialect, Value, marks};
use crate::open::open;
pub use crate::proven::WrittenCopy;
use crate::proven::write_proven;
use crate::schema;
use crate::unproven::{record, write_unproven};
use shellkeep_session::{Event, EventName, Message, Record, RunId, SessionId, StoredRun};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// A session as history knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSession {
    pub session_id: SessionId,
    pub agent: Option<String>,
    /// Number of its last record.
    pub seq: u64,
    /// How far its recording is copied: changes when there is more of it.
    pub signed: u64,
}

/// Reads sessions back from a database. It keeps a connection for the next question.
pub struct Reader {
    url: String,
    idle: Mutex<Option<Box<dyn Database>>>,
}

impl std::fmt::Debug for Reader {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reader").field(&crate::url::without_login(&self.url)).finish()
    }
}

impl Reader {
    /// A reader of the database that a URL names. It need not be reachable yet.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), idle: Mutex::default() }
    }

    fn ask<T>(&self, question: impl Fn(&mut dyn Database) -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A connection that was idle may have been closed by the server; a new one tells.
        if let Some(mut database) = idle
            && let Ok(answer) = question(&mut *database)
        {
            self.keep(database);
            return Ok(answer);
        }
        let mut database = open(&self.url)?;
        schema::check(&mut *database)?;
        let answer = question(&mut *database)?;
        self.keep(database);
        Ok(answer)
    }

    fn keep(&self, database: Box<dyn Database>) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(database);
    }

    /// The first of these sessions that history knows. For an agent only one of its own that was not deleted.
    pub fn find(&self, ids: &[SessionId], agent: Option<&str>) -> Result<Option<KnownSession>, DatabaseError> {
        let limit = if agent.is_some() { "AND s.agent = ? AND s.deleted_at IS NULL" } else { "" };
        let sql = format!(
            "SELECT s.session_id, s.agent, s.seq, \
             (SELECT COALESCE(MAX(h.seq), 0) FROM sk_heads h WHERE h.session_id = s.session_id), \
             (SELECT COALESCE(SUM(c.line_count), 0) FROM sk_copies c WHERE c.session_id = s.session_id) \
             FROM sk_sessions s WHERE s.session_id IN ({}) {limit}",
            marks(ids.len())
        );
        let values: Vec<Value> = ids.iter().map(SessionId::as_str).chain(agent).map(Value::text).collect();
        let rows = self.ask(|database| database.query(&sql, &values))?.rows;
        let number = |value: &Value| value.as_int().unwrap_or(0).cast_unsigned();
        let known = rows.iter().filter_map(|row| {
            Some(KnownSession {
                session_id: SessionId::parse(row.first()?.as_str()?).ok()?,
                agent: row.get(1)?.as_str().map(str::to_owned),
                seq: number(row.get(2)?),
                // A signature may come before lines that it covers.
                signed: number(row.get(3)?).saturating_add(number(row.get(4)?)),
            })
        });
        Ok(known.min_by_key(|known| ids.iter().position(|id| *id == known.session_id)))
    }

    /// A session's messages after a number.
    pub fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<Vec<Message>, DatabaseError> {
        let sql = format!(
            "SELECT r.line, r.exact FROM sk_messages m JOIN sk_records r ON r.session_id = m.session_id AND r.seq = m.seq \
             WHERE m.session_id = ? AND m.seq_id > ? ORDER BY m.seq_id LIMIT {limit}"
        );
        let values = [Value::text(id.as_str()), Value::count(after)];
        let rows = self.ask(|database| database.query(&sql, &values))?.rows;
        let message = |row: &Vec<Value>| match record(row)?.event {
            Event::MessageAdded { message, .. } => Some(*message),
            _ => None,
        };
        Ok(rows.iter().filter_map(message).collect())
    }

    /// A session's runs that started before a record, newest first.
    pub fn runs(&self, id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, DatabaseError> {
        let sql = format!(
            "SELECT r.line, r.exact FROM sk_records r WHERE r.session_id = ? AND r.type = '{}' AND r.seq < ? \
             ORDER BY r.seq DESC LIMIT {limit}",
            EventName::RunStarted.stored()
        );
        let values = [Value::text(id.as_str()), Value::count(before)];
        self.ask(|database| {
            let rows = database.query(&sql, &values)?.rows;
            with_ends(database, id, rows.iter().filter_map(|row| started(record(row)?)).collect())
        })
    }

    /// One run of a session.
    pub fn run(&self, id: &SessionId, run_id: &RunId) -> Result<Option<StoredRun>, DatabaseError> {
        let sql = "SELECT r.line, r.exact FROM sk_runs u JOIN sk_records r ON r.session_id = u.session_id AND r.seq = u.seq \
                   WHERE u.session_id = ? AND u.run_id = ?";
        let values = [Value::text(id.as_str()), Value::text(run_id.as_str())];
        self.ask(|database| {
            let rows = database.query(sql, &values)?.rows;
            let found = with_ends(database, id, rows.iter().filter_map(|row| started(record(row)?)).collect())?;
            Ok(found.into_iter().next())
        })
    }

    /// Writes a copy of a session's recording, as an export: what is proven, and then, if it is wanted, what only the
    /// records say.
    pub fn copy(
        &self,
        id: &SessionId,
        with_unproven: bool,
        make: impl Fn() -> std::io::Result<Box<dyn Write>>,
    ) -> Result<WrittenCopy, DatabaseError> {
        self.ask(|database| {
            let mut out = make().map_err(DatabaseError::failed)?;
            let mut copy = write_proven(database, id, with_unproven, &mut *out)?;
            copy.last = copy.proven;
            if with_unproven {
                copy.last = write_unproven(database, id, copy.proven, None, &mut *out)?;
            }
            out.flush().map_err(DatabaseError::failed)?;
            Ok(copy)
        })
    }
}

fn started(record: Record) -> Option<StoredRun> {
    let (seq, started_at) = (record.seq, record.at);
    match record.event {
        Event::RunStarted { run_id, request_id, command, by, .. } => {
            Some(StoredRun { run_id, seq, request_id, command, started_at, by, result: None, ended_seq: None })
        }
        _ => None,
    }
}

/// The runs with their results.
fn with_ends(
    database: &mut dyn Database,
    id: &SessionId,
    mut runs: Vec<StoredRun>,
) -> Result<Vec<StoredRun>, DatabaseError> {
    if runs.is_empty() {
        return Ok(runs);
    }
    let run_id = match database.dialect() {
        Dialect::Postgres => "line #>> '{event,run_finished,run_id}'",
        Dialect::Mysql => "JSON_UNQUOTE(JSON_EXTRACT(line, '$.event.run_finished.run_id'))",
    };
    let sql = format!(
        "SELECT line, exact FROM sk_records WHERE session_id = ? AND type = '{}' AND {run_id} IN ({})",
        EventName::RunFinished.stored(),
        marks(runs.len())
    );
    let ids = runs.iter().map(|run| Value::text(run.run_id.as_str()));
    let values: Vec<Value> = std::iter::once(Value::text(id.as_str())).chain(ids).collect();
    let mut ends = HashMap::new();
    for record in database.query(&sql, &values)?.rows.iter().filter_map(|row| record(row)) {
        if let Event::RunFinished { run_id, result, .. } = record.event {
            ends.insert(run_id, (record.seq, result));
        }
    }
    for run in &mut runs {
        if let Some((seq, result)) = ends.remove(&run.run_id) {
            (run.result, run.ended_seq) = (Some(*result), Some(seq));
        }
    }
    Ok(runs)
}
