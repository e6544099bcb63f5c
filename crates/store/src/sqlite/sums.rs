//! Checksums of rows. Each table has a column with the checksum of its other columns, written with them and compared when
//! they are read. Columns that are read apart from the others have a checksum of their own.

use crc32fast::Hasher;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params};
use shellkeep_session::SessionId;

/// The part of a row that one checksum covers.
pub(super) struct Sum {
    table: &'static str,
    /// The column that names the session.
    session: &'static str,
    /// The column with the checksum.
    column: &'static str,
    /// What it covers.
    covers: &'static str,
}

/// What a list shows of a session.
pub(super) const HEAD: Sum = Sum {
    table: "sessions",
    session: "id",
    column: "head_sum",
    covers: "id, agent, last_active_at, cwd, generation, seq, damaged",
};

/// The rest of a session's row.
pub(super) const BODY: Sum =
    Sum { table: "sessions", session: "id", column: "body_sum", covers: "id, seq, pending, rest, unrest, based" };

/// The last run of a session, in the session's row.
pub(super) const LAST: Sum =
    Sum { table: "sessions", session: "id", column: "last_sum", covers: "id, last_run, last, failed" };

/// What a session was made with.
pub(super) const META: Sum =
    Sum { table: "origins", session: "session", column: "meta_sum", covers: "session, created_at, meta" };

/// Its first shell.
pub(super) const FIRST_SHELL: Sum =
    Sum { table: "origins", session: "session", column: "shell_sum", covers: "session, first_shell" };

/// A variable or function.
pub(super) const VALUE: Sum =
    Sum { table: "shell_values", session: "session", column: "sum", covers: "session, kind, name, value" };

/// A run.
pub(super) const RUN: Sum = Sum {
    table: "runs",
    session: "session",
    column: "sum",
    covers: "session, seq, run_id, request_id, command, started_at, result, by_token, ended_seq",
};

/// A message.
pub(super) const MESSAGE: Sum =
    Sum { table: "messages", session: "session", column: "sum", covers: "session, seq_id, message" };

/// A message to the agent that was sent with a key.
pub(super) const RESUME: Sum =
    Sum { table: "resumes", session: "session", column: "sum", covers: "session, seq, request_id, ended_seq" };

/// The agent's state.
pub(super) const AGENT_STATE: Sum =
    Sum { table: "agent_states", session: "session", column: "sum", covers: "session, state" };

const ALL: [&Sum; 10] = [&HEAD, &BODY, &LAST, &META, &FIRST_SHELL, &VALUE, &RUN, &MESSAGE, &RESUME, &AGENT_STATE];

impl Sum {
    /// An SQL condition that is true if a row's checksum matches.
    pub(super) fn holds(&self) -> String {
        format!("{} IS row_sum({})", self.column, self.covers)
    }

    /// SQL that sets the checksum of the rows for which a condition holds.
    pub(super) fn renew(&self, condition: &str) -> String {
        format!("UPDATE {} SET {} = row_sum({}) WHERE {condition}", self.table, self.column, self.covers)
    }
}

/// Adds the SQL function `row_sum(a, b, …)` to a connection.
pub(super) fn install(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("row_sum", -1, flags, |context| {
        let mut hasher = Hasher::new();
        for index in 0..context.len() {
            add(&mut hasher, context.get_raw(index));
        }
        Ok(i64::from(hasher.finalize()))
    })
}

/// Each value is hashed with its type and length, so that different rows have different inputs.
fn add(hasher: &mut Hasher, value: ValueRef<'_>) {
    let (kind, bytes): (u8, &[u8]) = match &value {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(number) => (1, &number.to_le_bytes()),
        ValueRef::Real(number) => (2, &number.to_bits().to_le_bytes()),
        ValueRef::Text(text) => (3, text),
        ValueRef::Blob(blob) => (4, blob),
    };
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Sets all checksums of a session's rows, after they were changed one by one.
pub(super) fn renew_session(db: &Connection, session_id: &SessionId) -> rusqlite::Result<()> {
    renew(db, |sum| format!("{} = ?1", sum.session), [session_id.as_str()])
}

/// Sets all checksums of a file that had none.
pub(super) fn renew_all(db: &Connection) -> rusqlite::Result<()> {
    renew(db, |_| "TRUE".to_owned(), [])
}

fn renew<P: Params + Copy>(db: &Connection, condition: impl Fn(&Sum) -> String, params: P) -> rusqlite::Result<()> {
    ALL.iter().try_for_each(|sum| db.execute(&sum.renew(&condition(sum)), params).map(drop))
}
