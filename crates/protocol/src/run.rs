//! A command and its result.

use crate::output::StreamName;
use crate::screen::TerminalSize;
use crate::text;
use serde::{Deserialize, Serialize};
use shellkeep_session as facts;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Body of `POST /v1/sessions/{id}/run`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The text, as for `bash -c`: anything but NUL.
    #[schema(example = "make test")]
    pub command: String,
    /// Timeout in seconds: by default 30, or 86400 (a day) with `blocking: false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 86400)]
    pub timeout: Option<f64>,
    /// Whether to wait for the end. If not, the response comes when it has begun, with status `running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = true)]
    pub blocking: Option<bool>,
    /// Working directory for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Exported variables for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The command's standard input. Default: empty, or what `input` sends if the call is not blocking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The same, for bytes that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// Maximum number of bytes of each stream in the response; head and tail are kept, the rest can be read by offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 1048576, maximum = 16777216)]
    pub max_output: Option<usize>,
    /// What happens at the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<TimeoutChoice>,
    /// Idempotency key: repeating it returns the first call's result without running again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What happens when the session is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<BusyChoice>,
    /// Whether the command gets a terminal; its output is then all in `stdout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub tty: Option<bool>,
    /// The size of the terminal; 24 rows and 80 columns by default. Needs `tty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty_size: Option<TerminalSize>,
    /// Where standard error goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<StderrChoice>,
    /// The id of your hold on the session; see `POST …/hold`. While it is held, commands without it wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// Who asks for it; recorded as `by`. Host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RunBy>,
    /// What happens when you disconnect before the response is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<DisconnectChoice>,
}

/// Who asks for a command, other than an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunBy {
    /// A person at a terminal.
    Person,
}

/// Where standard error goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StderrChoice {
    /// Into `stderr`.
    #[default]
    Separate,
    /// Into `stdout`, in the order in which the command writes; `stderr` is empty.
    Merge,
}

/// What happens when the caller disconnects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisconnectChoice {
    /// The command continues.
    #[default]
    Continue,
    /// The command gets SIGTERM, as from `POST …/signal`; a command that is still waiting does not start.
    Interrupt,
}

/// What happens at the timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutChoice {
    /// The command is killed; the session continues with its state.
    #[default]
    Interrupt,
    /// The command moves to the background.
    Background,
}

/// What happens when the session is busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BusyChoice {
    /// The command waits in the queue.
    #[default]
    Wait,
    /// 409 `session_busy`.
    Reject,
}

/// Query of `GET …/runs/{run_id}`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunParams {
    /// Seconds to wait for the run's end.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0, minimum = 0, maximum = 300)]
    pub wait: Option<f64>,
    /// Maximum number of bytes of each stream in the response.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 1048576, maximum = 16777216)]
    pub max_output: Option<usize>,
}

/// A run with its command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunResponse,
    /// The text.
    pub command: String,
    /// When it started.
    pub started_at: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunResponse {
    /// Its id.
    pub run_id: String,
    /// Number of the record of its end, so that a rewind or fork to it includes the run's changes. While it runs: of
    /// its start.
    pub seq: u64,
    /// Its status.
    pub status: RunStatus,
    /// Exit code as bash reports it, 128+n for a signal; `null` while it runs or when it is lost.
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Standard output as text.
    pub stdout: String,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Standard error as text.
    pub stderr: String,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Bytes the command wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes the command wrote to standard error.
    pub stderr_bytes: u64,
    /// Whether `stdout` or `stderr` was truncated.
    pub truncated: bool,
    /// Wall time in milliseconds.
    pub duration_ms: f64,
    /// The session's working directory.
    pub cwd: String,
    /// What it changed in the session.
    pub changes: Changes,
    /// Late output of earlier background jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_output: Option<String>,
    /// The exact bytes of it, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_output_base64: Option<String>,
    /// What was typed at its terminal and not read before it ended. Only in the first result, as it is not stored; absent
    /// if the terminal did not echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_input: Option<String>,
    /// Notices.
    pub notices: Vec<NoticeView>,
    /// The id of the agent's token that requested it; absent for the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It exited on its own; see the exit code.
    Exited,
    /// It reached its timeout and was killed.
    TimedOut,
    /// It was interrupted by a signal.
    Interrupted,
    /// It is still running.
    Running,
    /// The daemon died while it ran; its outcome is unknown, and it is never run again.
    Lost,
}

/// What a command changed. Fields without a change are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Changes {
    /// The new working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Exported variables with their new values; `null` for those gone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Option<String>>,
    /// Other variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variables: Option<NameChanges>,
    /// Functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<NameChanges>,
    /// Aliases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aliases: Option<NameChanges>,
    /// `set -o` and `shopt` options that were turned on or off.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, bool>,
    /// Traps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traps: Option<NameChanges>,
    /// The new umask, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<String>,
}

/// Names that were set, changed or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NameChanges {
    /// New or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// A notice: something was lost or limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoticeView {
    /// Stable code in snake_case.
    #[schema(value_type = String, example = "shell_replaced")]
    pub code: facts::NoticeCode,
    /// What happened and what to do next.
    pub message: String,
}

/// Data of the event `started`, the first of a streamed run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedEvent {
    /// The run's id.
    pub run_id: String,
    /// Number of the record of its start.
    pub seq: u64,
}

/// Data of the events `stdout` and `stderr` of a streamed run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputEvent {
    /// The text.
    pub text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl OutputEvent {
    /// The event for some bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let (text, base64) = text::encode(bytes);
        Self { text, base64 }
    }

    /// The bytes.
    pub fn into_bytes(self) -> Result<Vec<u8>, base64::DecodeError> {
        text::decode(self.text, self.base64.as_deref())
    }
}

impl RunResponse {
    /// The exact bytes of a stream.
    pub fn stream_bytes(&self, stream: StreamName) -> Result<Vec<u8>, base64::DecodeError> {
        let (text, base64) = match stream {
            StreamName::Stdout => (&self.stdout, &self.stdout_base64),
            StreamName::Stderr => (&self.stderr, &self.stderr_base64),
        };
        text::decode(text.clone(), base64.as_deref())
    }
}

impl From<facts::RunStatus> for RunStatus {
    fn from(status: facts::RunStatus) -> Self {
        match status {
            facts::RunStatus::Exited => Self::Exited,
            facts::RunStatus::TimedOut => Self::TimedOut,
            facts::RunStatus::Interrupted => Self::Interrupted,
            facts::RunStatus::Running => Self::Running,
            facts::RunStatus::Lost => Self::Lost,
        }
    }
}

impl From<facts::Changes> for Changes {
    fn from(changes: facts::Changes) -> Self {
        let facts::Changes { cwd, env, variables, functions, aliases, options, traps, umask } = changes;
        Self {
            cwd,
            env,
            variables: name_changes(variables),
            functions: name_changes(functions),
            aliases: name_changes(aliases),
            options,
            traps: name_changes(traps),
            umask,
        }
    }
}

impl From<facts::Notice> for NoticeView {
    fn from(notice: facts::Notice) -> Self {
        Self { code: notice.code, message: notice.message }
    }
}

fn name_changes(changes: facts::run::NameChanges) -> Option<NameChanges> {
    (!changes.is_empty()).then_some(NameChanges { set: changes.set, unset: changes.unset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_refused() {
        let error = serde_json::from_str::<RunRequest>(r#"{"command": "true", "comand": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `comand`"), "{error}");
    }

    #[test]
    fn no_change_is_an_empty_object() {
        let changes = Changes::from(facts::Changes::default());
        assert_eq!(serde_json::to_string(&changes).unwrap(), "{}");
    }

    #[test]
    fn statuses_are_spelled_as_the_contract_says() {
        let all = [RunStatus::Exited, RunStatus::TimedOut, RunStatus::Interrupted, RunStatus::Running, RunStatus::Lost];
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"["exited","timed_out","interrupted","running","lost"]"#);
    }
}
