//! Operations on services.

use super::Tail;
use shellkeep_session::{ByteString, Ready, RestartPolicy, ServiceId, ServiceStatus, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a service has to end by itself before it is killed, unless the caller says otherwise.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
/// The longest grace a caller may ask for.
pub const MAX_STOP_GRACE: Duration = Duration::from_secs(120);
/// Longest name of a service.
pub const MAX_SERVICE_NAME: usize = 128;

/// Start a service.
#[derive(Debug, Clone)]
pub struct StartService {
    /// The text: any bytes but NUL.
    pub command: ByteString,
    /// What the caller calls it; the beginning of the command if not given.
    pub name: Option<String>,
    /// Where it starts; where the session is if not given.
    pub cwd: Option<ByteString>,
    /// Exported variables beyond the session's.
    pub env: BTreeMap<String, String>,
    /// When it counts as ready; at once if not given.
    pub ready: Option<Ready>,
    /// What happens when it ends by itself.
    pub restart: RestartPolicy,
    /// How long the caller waits for it to become ready (or, where nobody said what that is, to show that it does not
    /// end at once).
    pub wait: Duration,
}

impl StartService {
    /// A service with every setting at its default.
    pub fn new(command: impl Into<ByteString>) -> Self {
        Self {
            command: command.into(),
            name: None,
            cwd: None,
            env: BTreeMap::new(),
            ready: None,
            restart: RestartPolicy::Never,
            wait: Duration::ZERO,
        }
    }
}

/// A service as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceView {
    /// Its id within its session.
    pub service_id: ServiceId,
    /// Its session.
    pub session_id: SessionId,
    /// Whose it is.
    pub agent: Option<String>,
    /// What its caller calls it.
    pub name: String,
    /// The text.
    pub command: ByteString,
    /// Where it started.
    pub cwd: ByteString,
    /// Its status.
    pub status: ServiceStatus,
    /// Its first process, or the oldest that is left of it.
    pub pid: Option<u32>,
    /// TCP ports on which it listens.
    pub ports: Vec<u16>,
    /// How many processes it has.
    pub processes: usize,
    /// When it was first started.
    pub started_at: Timestamp,
    /// When it last wrote, computed or talked to anybody.
    pub last_active_at: Timestamp,
    /// What happens when it ends by itself.
    pub restart: RestartPolicy,
    /// How often it was started again.
    pub restarts: u32,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// Exit code, once it has one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// What there is to say about its status, in a sentence.
    pub detail: Option<String>,
    /// Bytes it has written to its log, kept or not.
    pub log_bytes: u64,
}

/// Read a service's log.
#[derive(Debug, Clone)]
pub struct LogQuery {
    /// First byte, counted from the service's first start.
    pub offset: u64,
    /// Most bytes to return.
    pub limit: u64,
    /// Only the end.
    pub tail: Option<Tail>,
    /// Only lines that match this regular expression.
    pub grep: Option<String>,
}

/// A page of a service's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where they start; later than asked for if the beginning is no longer kept.
    pub offset: u64,
    /// Where to go on; equal to `total` at the end.
    pub next_offset: u64,
    /// The first byte that is still kept.
    pub first: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Whether the service has ended, so that `total` is final.
    pub complete: bool,
}

/// What an agent's end did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedAgent {
    /// Whose end it was.
    pub agent: String,
    /// Sessions that were ended.
    pub sessions: usize,
    /// Services that were stopped.
    pub services: usize,
}
