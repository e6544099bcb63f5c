//! Services: starting, finding and stopping them, and reading their logs.

use crate::text;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use shellkeep_session as facts;
use shellkeep_session::plan::shorten;
use std::collections::BTreeMap;
use std::fmt;
use utoipa::{IntoParams, ToSchema};

/// Body of `POST /v1/sessions/{id}/services`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartServiceRequest {
    /// The text, as for `bash -c`: anything but NUL. It starts with the session's directory, variables and functions.
    #[schema(example = "npm run dev")]
    pub command: String,
    /// Its name. Default: the beginning of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its working directory. Default: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Exported variables in addition to the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The readiness condition. Default: ready at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<ReadyWhen>,
    /// What to do when it exits on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartChoice>,
    /// Seconds that the response waits until it is ready or has exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 0, minimum = 0, maximum = 300)]
    pub wait: Option<f64>,
}

/// When a service is ready: an object with exactly one of `port`, `log` and `http`. A bare number is a port; a bare
/// text is a URL if it begins with `http://`, otherwise a pattern for the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(example = json!({"port": 3000}))]
pub enum ReadyWhen {
    /// When one of its processes listens on this TCP port.
    Port(u16),
    /// When a line of its log matches this regular expression.
    Log(String),
    /// When this URL on this machine answers with a status below 400.
    Http(String),
}

/// The prefix of a bare text that is a URL and not a pattern.
const URL: &str = "http://";

impl<'de> Deserialize<'de> for ReadyWhen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadyVisitor)
    }
}

struct ReadyVisitor;

impl<'de> Visitor<'de> for ReadyVisitor {
    type Value = ReadyWhen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "one of {\"port\": 3000}, {\"log\": \"a regular expression\"}, {\"http\": \"http://127.0.0.1:3000/\"}",
        )
    }

    fn visit_u64<E: serde::de::Error>(self, port: u64) -> Result<ReadyWhen, E> {
        match u16::try_from(port) {
            Ok(port @ 1..) => Ok(ReadyWhen::Port(port)),
            _ => Err(E::custom(format!("{port} is not a TCP port; those are 1 to {}", u16::MAX))),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ReadyWhen, E> {
        Ok(if text.starts_with(URL) { ReadyWhen::Http(text.to_owned()) } else { ReadyWhen::Log(text.to_owned()) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadyWhen, A::Error> {
        let mut found: Option<ReadyWhen> = None;
        while let Some(name) = map.next_key::<String>()? {
            let ready = match name.as_str() {
                "port" => ReadyVisitor.visit_u64(map.next_value()?)?,
                "log" => ReadyWhen::Log(map.next_value()?),
                "http" => ReadyWhen::Http(map.next_value()?),
                _ => return Err(A::Error::unknown_field(&name, &["port", "log", "http"])),
            };
            if found.replace(ready).is_some() {
                return Err(A::Error::custom("give exactly one of port, log and http"));
            }
        }
        found.ok_or_else(|| A::Error::custom("give exactly one of port, log and http"))
    }
}

impl From<ReadyWhen> for facts::Ready {
    fn from(ready: ReadyWhen) -> Self {
        match ready {
            ReadyWhen::Port(port) => Self::Port(port),
            ReadyWhen::Log(pattern) => Self::Log(pattern),
            ReadyWhen::Http(url) => Self::Http(url),
        }
    }
}

/// What to do when a service exits on its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestartChoice {
    /// It stays stopped.
    #[default]
    Never,
    /// It restarts, with a growing delay, unless its exit code was 0.
    #[serde(alias = "on-failure")]
    OnFailure,
    /// It restarts, with a growing delay.
    Always,
}

impl From<RestartChoice> for facts::RestartPolicy {
    fn from(choice: RestartChoice) -> Self {
        match choice {
            RestartChoice::Never => Self::Never,
            RestartChoice::OnFailure => Self::OnFailure,
            RestartChoice::Always => Self::Always,
        }
    }
}

impl From<facts::RestartPolicy> for RestartChoice {
    fn from(policy: facts::RestartPolicy) -> Self {
        match policy {
            facts::RestartPolicy::Never => Self::Never,
            facts::RestartPolicy::OnFailure => Self::OnFailure,
            facts::RestartPolicy::Always => Self::Always,
        }
    }
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    /// Its id within its session.
    #[schema(example = "s12")]
    pub service_id: String,
    /// Its session.
    pub session_id: String,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// Its name.
    pub name: String,
    /// The text.
    pub command: String,
    /// Its working directory at the start.
    pub cwd: String,
    /// Its status.
    pub status: ServiceStatus,
    /// Its first process, or the oldest one left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// TCP ports that it listens on.
    pub ports: Vec<u16>,
    /// How many processes it has.
    pub processes: usize,
    /// When it was first started.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// When it last wrote output, used the processor or had a connection.
    #[schema(format = DateTime)]
    pub last_active_at: String,
    /// What to do when it exits on its own.
    pub restart: RestartChoice,
    /// How often it was restarted.
    pub restarts: u32,
    /// When it exited, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Exit code as bash reports it, 128+n for a signal, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Details about its status, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Bytes written to its log, including those no longer kept.
    pub log_bytes: u64,
}

/// The status of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceStatus {
    /// It is not ready yet, or waits to be restarted.
    Starting,
    /// It is running, and its readiness condition, if any, is met.
    Running,
    /// It exited on its own; see the exit code.
    Exited,
    /// It was stopped, or was idle for too long.
    Stopped,
    /// It could not be started, exited before it was ready, or was lost.
    Failed,
}

impl ServiceStatus {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Whether it has a process, or will soon have one.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

impl From<facts::ServiceStatus> for ServiceStatus {
    fn from(status: facts::ServiceStatus) -> Self {
        match status {
            facts::ServiceStatus::Starting => Self::Starting,
            facts::ServiceStatus::Running => Self::Running,
            facts::ServiceStatus::Exited => Self::Exited,
            facts::ServiceStatus::Stopped => Self::Stopped,
            facts::ServiceStatus::Failed => Self::Failed,
        }
    }
}

impl Service {
    /// The service in a line: `s12 (web) is running, pid 4242, listening on 5173: http://127.0.0.1:5173`
    pub fn sentence(&self) -> String {
        let mut text = format!("{} ({}) {}", self.service_id, shorten(&self.name), self.status_in_words());
        if let Some(pid) = self.pid {
            text += &format!(", pid {pid}");
        }
        match self.restarts {
            0 => {}
            1 => text += ", restarted once",
            restarts => text += &format!(", restarted {restarts} times"),
        }
        if !self.ports.is_empty() {
            let all =
                |prefix: &str| self.ports.iter().map(|port| format!("{prefix}{port}")).collect::<Vec<_>>().join(", ");
            text += &format!(", listening on {}: {}", all(""), all("http://127.0.0.1:"));
        }
        if let Some(detail) = self.detail.as_ref().filter(|_| self.status.is_live()) {
            text += &format!(" ({detail})");
        }
        text
    }

    fn status_in_words(&self) -> String {
        // The detail already has the exit code or the signal.
        let how = match (&self.detail, self.exit_code, &self.signal) {
            (Some(detail), ..) => format!(": {detail}"),
            (None, _, Some(signal)) => format!(" by signal {signal}"),
            (None, Some(code), None) => format!(" with exit code {code}"),
            (None, None, None) => String::new(),
        };
        match self.status {
            ServiceStatus::Starting => "is starting and not ready yet".to_owned(),
            ServiceStatus::Running => "is running".to_owned(),
            ServiceStatus::Exited => format!("exited{how}"),
            ServiceStatus::Stopped => format!("stopped{how}"),
            ServiceStatus::Failed => format!("failed{how}"),
        }
    }
}

/// Response of `GET …/services` and of `GET /v1/services`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceList {
    /// The services.
    pub services: Vec<Service>,
}

/// Query of `GET …/services/{service_id}`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ServiceParams {
    /// Seconds to wait until it is ready or has exited.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0, minimum = 0, maximum = 300)]
    pub wait: Option<f64>,
}

/// Query of `GET /v1/services`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AllServicesParams {
    /// Only this agent's.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub agent: Option<String>,
}

/// Body of `POST …/services/{service_id}/stop`. Optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopServiceRequest {
    /// Seconds between SIGTERM and SIGKILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 5, minimum = 0, maximum = 120)]
    pub grace: Option<f64>,
}

/// Query of `GET …/services/{service_id}/logs`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// First byte to return, counted from the service's first start.
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

/// A page of a service's log: what it wrote to stdout and stderr, in the order it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogResponse {
    /// The text.
    pub text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where the page starts; later than requested if the beginning is no longer kept.
    pub offset: u64,
    /// Where the next page starts; equal to `total` at the end.
    pub next_offset: u64,
    /// The first byte that is still kept.
    pub first: u64,
    /// Bytes written so far.
    pub total: u64,
    /// Whether the service has ended, so that `total` is final.
    pub complete: bool,
}

impl LogResponse {
    /// The bytes.
    pub fn into_bytes(self) -> Result<Vec<u8>, base64::DecodeError> {
        text::decode(self.text, self.base64.as_deref())
    }
}

/// Data of the event `log` of a log that is followed. The event `end`, with the [`Service`], is the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEvent {
    /// The text.
    pub text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where it starts; later than the `next_offset` before it if the reader was too slow for what is kept.
    pub offset: u64,
    /// Where the next event continues.
    pub next_offset: u64,
}

impl LogEvent {
    /// The event for some bytes.
    pub fn new(bytes: Vec<u8>, offset: u64) -> Self {
        let next_offset = offset + bytes.len() as u64;
        let (text, base64) = text::encode(bytes);
        Self { text, base64, offset, next_offset }
    }

    /// The bytes.
    pub fn into_bytes(self) -> Result<Vec<u8>, base64::DecodeError> {
        text::decode(self.text, self.base64.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(json: &str) -> Result<ReadyWhen, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn readiness_is_understood_however_it_is_said() {
        let log = |text: &str| Ok(ReadyWhen::Log(text.to_owned()));
        let http = |text: &str| Ok(ReadyWhen::Http(text.to_owned()));
        assert_eq!(ready(r#"{"port": 3000}"#), Ok(ReadyWhen::Port(3000)));
        assert_eq!(ready("3000"), Ok(ReadyWhen::Port(3000)));
        assert_eq!(ready(r#"{"log": "^ready"}"#), log("^ready"));
        assert_eq!(ready(r#""ready in \\d+""#), log("ready in \\d+"));
        assert_eq!(ready(r#"{"http": "http://127.0.0.1:1/h"}"#), http("http://127.0.0.1:1/h"));
        assert_eq!(ready(r#""http://127.0.0.1:1/h""#), http("http://127.0.0.1:1/h"));
        assert_eq!(ready(r#"{"log": "http://.*:5173"}"#), log("http://.*:5173"));
    }

    #[test]
    fn readiness_is_one_thing() {
        for (wrong, expected) in [
            ("{}", "exactly one"),
            (r#"{"port": 1, "log": "x"}"#, "exactly one"),
            (r#"{"port": 1, "port": 2}"#, "exactly one"),
            (r#"{"tcp": 1}"#, "unknown field `tcp`, expected one of `port`, `log`, `http`"),
            ("0", "not a TCP port"),
            ("65536", "not a TCP port"),
            (r#"{"port": 70000}"#, "not a TCP port"),
            ("-1", "integer `-1`"),
            ("true", "expected one of {\"port\": 3000}"),
            ("[3000]", "expected one of"),
        ] {
            let error = ready(wrong).unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    #[test]
    fn readiness_is_written_as_it_is_read() {
        for ready in [ReadyWhen::Port(1), ReadyWhen::Log("3000".into()), ReadyWhen::Http("http://x/".into())] {
            let text = serde_json::to_string(&ready).unwrap();
            assert_eq!(serde_json::from_str::<ReadyWhen>(&text).unwrap(), ready, "{text}");
        }
    }

    #[test]
    fn words_are_those_of_the_contract() {
        use ServiceStatus::{Exited, Failed, Running, Starting, Stopped};
        for status in [Starting, Running, Exited, Stopped, Failed] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        let policies: Vec<RestartChoice> =
            serde_json::from_str(r#"["never","on_failure","on-failure","always"]"#).unwrap();
        assert_eq!(serde_json::to_string(&policies).unwrap(), r#"["never","on_failure","on_failure","always"]"#);
    }

    #[test]
    fn a_service_in_a_line() {
        let json = serde_json::json!({
            "service_id": "s3", "session_id": "a", "name": "web", "command": "serve", "cwd": "/", "status": "running",
            "pid": 42, "ports": [80, 443], "processes": 1, "started_at": "", "last_active_at": "", "restart": "never",
            "restarts": 0, "log_bytes": 0
        });
        let running: Service = serde_json::from_value(json).unwrap();
        let listening = "s3 (web) is running, pid 42, listening on 80, 443: http://127.0.0.1:80, http://127.0.0.1:443";
        assert_eq!(running.sentence(), listening);
        let ended = Service {
            status: ServiceStatus::Failed,
            pid: None,
            ports: Vec::new(),
            exit_code: Some(1),
            detail: Some("it ended before it was ready".to_owned()),
            restarts: 1,
            ..running
        };
        assert_eq!(ended.sentence(), "s3 (web) failed: it ended before it was ready, restarted once");
        assert_eq!(Service { detail: None, ..ended }.sentence(), "s3 (web) failed with exit code 1, restarted once");
    }
}
