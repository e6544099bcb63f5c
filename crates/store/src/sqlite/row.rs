//! The rows of a session: their contents, and errors.

use crate::backend::{BackendError, SessionSummary, unknown_state};
use crate::sum;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use shellkeep_session::skip::is_zero;
use shellkeep_session::{
    ActiveRun, ByteString, Claims, FilesAt, Json, KvState, LeftProcess, Notice, RunId, Sandbox, Service, ServiceId,
    SessionHold, SessionId, SessionMeta, SessionState, Timestamp, Unkept, stored_as_json,
};
use std::collections::BTreeMap;

/// What the next result and a restart after a crash need, as one column.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) active_runs: BTreeMap<RunId, ActiveRun>,
    #[serde(default)]
    pub(super) processes: Vec<LeftProcess>,
    /// What else only its shell has.
    #[serde(default, skip_serializing_if = "Unkept::is_empty")]
    pub(super) unkept: Unkept,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) services: BTreeMap<ServiceId, Service>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<Timestamp>,
    /// How far its processes are confined.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    pub(super) sandbox: Sandbox,
    pub(super) pending_notices: Vec<Notice>,
    /// The highest version that a state of its agent ever had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) agent_versions: u64,
    /// Number of the last message of the conversation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) messages: u64,
    /// Number of the record with which the agent last completed a step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) agent_step: u64,
    /// The checkpoint of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<FilesAt>,
    /// What is known of the keyed store.
    #[serde(default, skip_serializing_if = "KvState::is_unused")]
    pub(super) kv: KvState,
    /// Which nodes have owned it.
    #[serde(default, skip_serializing_if = "Claims::is_empty")]
    pub(super) claims: Claims,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hold: Option<Box<SessionHold>>,
}

/// What a list shows of [`Pending`].
#[derive(Serialize, Deserialize)]
struct Listed {
    #[serde(default)]
    sandbox: Sandbox,
    #[serde(default)]
    hold: Option<Box<SessionHold>>,
}

stored_as_json!(Pending, Listed);

pub(super) fn failed(error: rusqlite::Error) -> BackendError {
    BackendError::Failed { reason: format!("sqlite: {error}") }
}

pub(super) fn damaged(error: rusqlite::Error) -> BackendError {
    BackendError::Damaged { reason: format!("its stored state cannot be read: {error}") }
}

/// The reason for a row whose checksum does not match.
pub(super) fn changed(what: &str) -> BackendError {
    BackendError::Damaged { reason: format!("its stored state cannot be read ({what}: {})", sum::MISMATCH) }
}

/// Checks the column with the result of the checksum.
pub(super) fn check(row: &Row<'_>, column: usize, what: &str) -> Result<(), BackendError> {
    if row.get(column).unwrap_or(false) { Ok(()) } else { Err(changed(what)) }
}

pub(super) fn parsed<T: Json>(what: &str, text: &str) -> Result<T, BackendError> {
    T::from_json(text.as_bytes())
        .map_err(|error| BackendError::Damaged { reason: format!("its stored state cannot be read ({what}: {error})") })
}

pub(super) fn time(text: &str) -> Result<Timestamp, BackendError> {
    text.parse().map_err(|_| BackendError::Damaged { reason: format!("its stored state has a bad time '{text}'") })
}

pub(super) fn execute(db: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<(), BackendError> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map(|_| ()).map_err(failed)
}

pub(super) fn json<T: Json>(value: &T) -> Result<String, BackendError> {
    value.to_json_text().map_err(|error| BackendError::Failed { reason: error.to_string() })
}

/// SQLite counts in signed numbers. No number here comes near the limit.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) struct SessionRow {
    pub(super) last_active_at: String,
    pub(super) cwd: Vec<u8>,
    pub(super) generation: u64,
    pub(super) seq: u64,
    pub(super) pending: String,
    pub(super) rest: String,
    pub(super) damaged: Option<String>,
    pub(super) meta: Option<String>,
    /// Whether the rows of `shell_values` hold only what differs from the first shell.
    pub(super) based: bool,
    /// Whether all that was read of it is as it was written.
    pub(super) intact: bool,
}

impl SessionRow {
    /// Reads what can be read: a value of the wrong type affects only its own session, not the list or batch.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
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
            based: row.get(8).unwrap_or_default(),
            intact: row.get(9).unwrap_or(false),
        })
    }

    pub(super) fn meta(&self) -> Result<SessionMeta, BackendError> {
        match &self.meta {
            Some(text) => parsed("meta", text),
            None => Err(BackendError::Damaged { reason: "its metadata is missing".to_owned() }),
        }
    }

    /// The state without variables and functions.
    pub(super) fn state(&self, meta: SessionMeta) -> Result<SessionState, BackendError> {
        if !self.intact {
            return Err(changed("its row"));
        }
        let pending: Pending = parsed("pending", &self.pending)?;
        let last_active_at = time(&self.last_active_at)?;
        let shell = parsed("rest", &self.rest)?;
        Ok(SessionState {
            meta,
            seq: self.seq,
            last_active_at,
            generation: self.generation,
            sandbox: pending.sandbox,
            active_runs: pending.active_runs,
            processes: pending.processes,
            unkept: pending.unkept,
            services: pending.services,
            ended_at: pending.ended_at,
            pending_notices: pending.pending_notices,
            agent_state: None,
            agent_versions: pending.agent_versions,
            messages: pending.messages,
            agent_step: pending.agent_step,
            files: pending.files,
            kv: pending.kv,
            claims: pending.claims,
            hold: pending.hold,
            shell,
        })
    }

    /// The row of a list. If it cannot be read, it says so and affects no other row.
    pub(super) fn summary(self, session_id: &SessionId) -> SessionSummary {
        let unknown = unknown_state(session_id);
        let mut reason = self.damaged.clone();
        if !self.intact {
            reason.get_or_insert(changed("its row").to_string());
        }
        let meta = self.meta().unwrap_or_else(|error| {
            reason.get_or_insert(error.to_string());
            unknown.meta
        });
        let last_active_at = time(&self.last_active_at).unwrap_or_else(|error| {
            reason.get_or_insert(error.to_string());
            unknown.last_active_at
        });
        let Listed { sandbox, hold } = parsed("pending", &self.pending).unwrap_or_else(|error| {
            reason.get_or_insert(error.to_string());
            Listed { sandbox: meta.sandbox, hold: None }
        });
        let (generation, seq, cwd) = (self.generation, self.seq, ByteString(self.cwd));
        SessionSummary { meta, last_active_at, cwd, generation, seq, sandbox, hold, damaged: reason }
    }
}
