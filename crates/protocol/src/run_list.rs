//! Lists of runs.

use crate::run::RunStatus;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/runs` of a session, and of `GET /v1/runs`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunListParams {
    /// Maximum number of runs to return.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// Only runs before this place in the list: the `next` of the last page. In the list of one session also a run id, or the
    /// number of a record.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub before: Option<String>,
    /// Only these.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub status: Option<RunFilter>,
}

/// Which runs to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunFilter {
    /// Those that have not ended.
    Running,
    /// Those that ended in any other way than with exit code 0.
    Failed,
}

impl RunFilter {
    /// As in a query.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for RunFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "running" => Ok(Self::Running),
            "failed" => Ok(Self::Failed),
            _ => Err("pass `running` or `failed`"),
        }
    }
}

/// A page of runs, newest first. With `status`, or for an agent's token, it may have fewer runs than `limit`, even none,
/// and still have a `next`: one request looks at a limited number of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Where the next page starts, if there is one: pass it as `before`.
    pub next: Option<String>,
}

/// A run in a list, without its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    /// The session that it ran in.
    pub session_id: String,
    /// Its id.
    pub run_id: String,
    /// Number of the record of its end, so that a rewind or fork to it includes the run's changes. While it runs: of
    /// its start.
    pub seq: u64,
    /// The text; its first 4096 bytes, if it is longer.
    pub command: String,
    /// Bytes of the whole text.
    pub command_bytes: usize,
    /// Its status.
    pub status: RunStatus,
    /// Exit code as bash reports it, 128+n for a signal; `null` while it runs or when it is lost.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// When it started.
    pub started_at: String,
    /// Wall time in milliseconds; so far, if it still runs.
    pub duration_ms: f64,
    /// The session's working directory after it; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether it runs in the background, so that the session no longer waits for it.
    pub background: bool,
    /// Bytes the command wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes the command wrote to standard error.
    pub stderr_bytes: u64,
    /// How many notices its result has; `GET …/runs/{run_id}` has their text.
    #[serde(default)]
    pub notices: usize,
    /// The idempotency key, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The id of the agent's token that requested it; absent for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
