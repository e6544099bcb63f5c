//! Lists of runs: of one session, and of all.

use super::Origin;
use shellkeep_session::{ByteString, RunId, RunStatus, SessionId, Timestamp};
use std::time::Duration;

/// Maximum number of runs per page.
pub const MAX_RUN_PAGE: usize = 1000;
/// Bytes of a command's text in a list, so that a page of long scripts stays a page.
pub const MAX_LISTED_COMMAND: usize = 4096;

/// List runs, newest first. `K` is a place in the list: the number of a record in one session's, a
/// [`shellkeep_session::RunKey`] in that of all sessions.
#[derive(Debug, Clone)]
pub struct ListRuns<K> {
    /// Only runs that started before this one.
    pub before: Option<K>,
    /// Most runs to return.
    pub limit: usize,
    pub filter: RunFilter,
}

/// Which runs a list has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunFilter {
    #[default]
    All,
    /// Those that have not ended.
    Running,
    /// Those that ended in any other way than with exit code 0.
    Failed,
}

/// A run in a list, without its output.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    pub session_id: SessionId,
    pub run_id: RunId,
    /// Number of the record of its end. While it runs, of its start.
    pub seq: u64,
    /// The text; the beginning of it, if it is longer than [`MAX_LISTED_COMMAND`].
    pub command: ByteString,
    /// Bytes of the whole text.
    pub command_bytes: usize,
    pub status: RunStatus,
    /// Exit code, once it has one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// Wall time, so far if it still runs.
    pub duration: Duration,
    /// The session's working directory afterwards, once it has ended.
    pub cwd: Option<ByteString>,
    /// Whether it runs in the background.
    pub background: bool,
    /// Bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// How many notices its result has.
    pub notices: usize,
    /// The idempotency key.
    pub request_id: Option<String>,
    /// The id of the agent's token that requested it; none for the host.
    pub by: Option<String>,
}

/// A page of runs, newest first. It may have fewer runs than requested, and still not be the last.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage<K> {
    pub runs: Vec<RunSummary>,
    /// Where the next page starts, if there is one: pass it as `before`.
    pub next: Option<K>,
    pub origin: Origin,
}
