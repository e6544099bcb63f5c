//! Operations on services.

use super::Tail;
use shellkeep_session::{ByteString, Ready, RestartPolicy, ServiceId, ServiceStatus, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Default time between SIGTERM and SIGKILL.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
/// The longest grace period.
pub const MAX_STOP_GRACE: Duration = Duration::from_secs(120);
/// Longest name of a service.
pub const MAX_SERVICE_NAME: usize = 128;

/// Start a service.
#[derive(Debug, Clone)]
pub struct StartService {
    /// The text: any bytes but NUL.
    pub command: ByteString,
    /// Its name; by default the beginning of the command.
    pub name: Option<String>,
    /// Its working directory; by default the session's.
    pub cwd: Option<ByteString>,
    /// Exported variables in addition to the session's.
    pub env: BTreeMap<String, String>,
    /// The readiness condition; by default ready at once.
    pub ready: Option<Ready>,
    /// What to do when it exits on its own.
    pub restart: RestartPolicy,
    /// How long the caller waits for it to become ready, or, without a condition, to see whether it exits at once.
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
    pub session_id: SessionId,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    pub name: String,
    pub command: ByteString,
    /// Its working directory at the start.
    pub cwd: ByteString,
    pub status: ServiceStatus,
    /// Its first process, or the oldest one left.
    pub pid: Option<u32>,
    /// TCP ports that it listens on.
    pub ports: Vec<u16>,
    /// How many processes it has.
    pub processes: usize,
    /// When it was first started.
    pub started_at: Timestamp,
    /// When it last wrote output, used the processor or had a connection.
    pub last_active_at: Timestamp,
    /// What to do when it exits on its own.
    pub restart: RestartPolicy,
    /// How often it was restarted.
    pub restarts: u32,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// Exit code, once it has one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// Details about its status, as a sentence.
    pub detail: Option<String>,
    /// Bytes written to its log, including those no longer kept.
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
    pub bytes: Vec<u8>,
    /// Where they start; later than requested if the beginning is no longer kept.
    pub offset: u64,
    /// Where to continue; equal to `total` at the end.
    pub next_offset: u64,
    /// The first byte that is still kept.
    pub first: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Whether the service has ended, so that `total` is final.
    pub complete: bool,
}

/// The result of ending an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedAgent {
    pub agent: String,
    /// Sessions that were ended.
    pub sessions: usize,
    /// Services that were stopped.
    pub services: usize,
}
