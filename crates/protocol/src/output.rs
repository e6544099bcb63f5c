//! Reading a run's output, and sending it input and signals.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/runs/{run_id}/output`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutputParams {
    /// `stdout` (the default) or `stderr`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub stream: Option<StreamName>,
    /// First byte to return, from 0.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub offset: Option<u64>,
    /// Maximum number of bytes to return; 1 MiB by default, at most 16 MiB.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub limit: Option<u64>,
    /// Only this many bytes at the end.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub tail: Option<u64>,
    /// Only this many lines at the end; not together with `tail`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub tail_lines: Option<u64>,
    /// Only lines that match this regular expression.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub grep: Option<String>,
}

/// A stream of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

impl FromStr for StreamName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            _ => Err("a stream is `stdout` or `stderr`"),
        }
    }
}

/// A page of a run's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputResponse {
    /// Which stream.
    pub stream: StreamName,
    /// The text.
    pub text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where the page starts.
    pub offset: u64,
    /// Where the next page starts; equal to `total` at the end.
    pub next_offset: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Bytes from `offset` to `next_offset` that were not kept, because the output exceeded its quota.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Whether the run has ended, so that `total` is final.
    pub complete: bool,
    /// Whether the run's standard error is merged into `stdout`, so that this stream stays empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

/// Body of `POST …/runs/{run_id}/input`: text, base64 or keys, and whether the input ends here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputRequest {
    /// The text to send to the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The same, for bytes that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// For a run with a terminal: keys to press, one after the other. Each is the name of a key (`Enter`, `Esc`, `Tab`,
    /// `Backspace`, `Up`, `PageDown`, `F1`, `C-c`, `M-x`, `S-Tab`, …) or text to type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<String>>,
    /// Whether the command's input ends here.
    #[serde(default)]
    pub eof: bool,
    /// The id of your hold on the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

/// Response to sent input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputAccepted {
    /// The run.
    pub run_id: String,
    /// Bytes accepted.
    pub bytes: usize,
}

/// Body of `POST …/runs/{run_id}/signal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// `INT`, `TERM`, `KILL`, `USR1`, …, in any case, with or without `SIG`.
    #[schema(example = "INT")]
    pub signal: String,
    /// The id of your hold on the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

/// Response to a sent signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalSent {
    /// The run; the request id if it had not started.
    pub run_id: String,
    /// The signal.
    pub signal: String,
    /// Whether the command had not started and was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<bool>,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
