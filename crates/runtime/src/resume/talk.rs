//! The protocol between the daemon and an agent, one JSON object per line. `docs/agents.md` documents it.

use crate::ops::{
    AgentStateView, DEFAULT_MAX_OUTPUT, DEFAULT_TIMEOUT, IfBusy, OnTimeout, OpError, RunCommand, RunView, StreamView,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use shellkeep_session::{ByteString, Message};
use std::time::Duration;

/// The tool that is run here; all others are the agent's own.
pub const RUN_COMMAND: &str = "run_command";
/// The type of a state that is JSON.
pub const JSON: &str = "application/json";
/// The type of a state that is bytes, if the agent does not say.
const BYTES: &str = "application/octet-stream";
/// Longest name of a tool call.
const MAX_CALL_ID: usize = 256;
/// Types of events that are recorded unchanged.
const EVENTS: [&str; 2] = ["state_transition", "llm_call"];
/// The prefix of an agent's own types.
const OWN: &str = "x_";

/// A message from an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// An event to record.
    Event {
        event_type: String,
        /// With these fields.
        data: Value,
    },
    /// A command to run.
    Call(ToolCall),
    /// A piece of its answer.
    Output { text: String },
    /// A step is complete, and this is the state after it.
    State {
        /// What the bytes are.
        media_type: String,
        bytes: Vec<u8>,
    },
    /// The work is done.
    Done {
        /// The answer, if it is not the streamed parts.
        output: Option<String>,
    },
}

/// A command that an agent requests.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The agent's name for it.
    pub id: String,
    /// The command and how to run it.
    pub parameters: Map<String, Value>,
}

/// Why a line was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// A stable code.
    pub code: &'static str,
    /// What is valid.
    pub detail: String,
    /// The tool call that it is about, if it is about one.
    pub id: Option<String>,
}

fn wrong(code: &'static str, detail: impl Into<String>) -> Wrong {
    Wrong { code, detail: detail.into(), id: None }
}

/// Reads a line of an agent.
pub fn read(line: &[u8]) -> Result<Said, Wrong> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        wrong(
            "bad_line",
            format!(
                "the line is not JSON ({error}); write one JSON object per line, and anything else to standard error"
            ),
        )
    })?;
    let Value::Object(mut fields) = value else {
        return Err(wrong("bad_line", "the line is not a JSON object; write {\"type\": …, …}"));
    };
    let Some(Value::String(kind)) = fields.remove("type") else {
        return Err(wrong("bad_line", "the object has no \"type\" that is a string"));
    };
    match kind.as_str() {
        "tool_call" => call(fields),
        "output" => Ok(Said::Output { text: text(&fields, "text")?.ok_or_else(|| lacks("output", "text"))? }),
        "state" => state(fields),
        "done" => Ok(Said::Done { output: text(&fields, "output")? }),
        known if EVENTS.contains(&known) || known.starts_with(OWN) => {
            Ok(Said::Event { event_type: kind, data: Value::Object(fields) })
        }
        _ => {
            let shown: String = kind.chars().take(64).collect();
            let types =
                "state_transition, llm_call, tool_call, output, state, done, or your own type that begins with x_";
            Err(wrong("unknown_type", format!("'{shown}' is not a type; the types are {types}")))
        }
    }
}

fn lacks(kind: &str, field: &str) -> Wrong {
    wrong("bad_line", format!("{kind} needs \"{field}\""))
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Wrong> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong("bad_line", format!("\"{name}\" is not a string"))),
    }
}

fn call(mut fields: Map<String, Value>) -> Result<Said, Wrong> {
    let tool = text(&fields, "tool_name")?.ok_or_else(|| lacks("tool_call", "tool_name"))?;
    if tool != RUN_COMMAND {
        // The agent's own tool, with its result.
        for name in ["parameters", "output", "error", "duration"] {
            fields.entry(name).or_insert(Value::Null);
        }
        return Ok(Said::Event { event_type: "tool_call".to_owned(), data: Value::Object(fields) });
    }
    let id = match fields.remove("id") {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= MAX_CALL_ID => id,
        Some(Value::Number(number)) => number.to_string(),
        _ => {
            let detail = format!("run_command needs an \"id\" of 1 to {MAX_CALL_ID} bytes that is unique in this step");
            return Err(wrong("bad_line", detail));
        }
    };
    match fields.remove("parameters") {
        Some(Value::Object(parameters)) => Ok(Said::Call(ToolCall { id, parameters })),
        _ => Err(Wrong { id: Some(id), ..wrong("bad_line", "run_command needs \"parameters\": {\"command\": …}") }),
    }
}

fn state(mut fields: Map<String, Value>) -> Result<Said, Wrong> {
    let media_type = text(&fields, "media_type")?;
    match (fields.remove("state"), text(&fields, "state_base64")?) {
        (Some(_), Some(_)) => Err(wrong("bad_line", "pass state or state_base64, not both")),
        (Some(state), None) => Ok(Said::State { media_type: JSON.to_owned(), bytes: state.to_string().into_bytes() }),
        (None, Some(base64)) => {
            let bytes = BASE64.decode(base64).map_err(|error| wrong("bad_line", format!("state_base64: {error}")))?;
            Ok(Said::State { media_type: media_type.unwrap_or_else(|| BYTES.to_owned()), bytes })
        }
        (None, None) => Err(lacks("state", "state")),
    }
}

impl ToolCall {
    /// The command, to be run within this time. An error is for the agent.
    pub fn command(&self, left: Duration) -> Result<RunCommand, OpError> {
        let invalid = |detail: String| OpError::Invalid { detail: format!("parameters: {detail}") };
        let mut command = RunCommand::new("");
        command.timeout = DEFAULT_TIMEOUT;
        command.if_busy = IfBusy::Wait;
        command.max_output = DEFAULT_MAX_OUTPUT;
        let mut has_command = false;
        for (name, value) in &self.parameters {
            let bad = |what: &str| invalid(format!("{name} is not {what}"));
            let is_taken = match (name.as_str(), value) {
                (_, Value::Null) => true,
                ("command", Value::String(text)) => {
                    has_command = true;
                    command.command = ByteString::from(text.as_str());
                    true
                }
                ("cwd", Value::String(text)) => set(&mut command.cwd, Some(ByteString::from(text.as_str()))),
                ("stdin", Value::String(text)) => set(&mut command.stdin, Some(ByteString::from(text.as_str()))),
                ("blocking", Value::Bool(blocking)) => set(&mut command.blocking, *blocking),
                ("timeout", Value::Number(seconds)) => {
                    let seconds = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    set(&mut command.timeout, seconds.ok_or_else(|| bad("a number of seconds"))?)
                }
                ("max_output", Value::Number(bytes)) => {
                    let bytes = bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                    set(&mut command.max_output, bytes.ok_or_else(|| bad("a number of bytes"))?)
                }
                ("env", Value::Object(variables)) => {
                    for (name, value) in variables {
                        let value = value.as_str().ok_or_else(|| bad("an object of strings"))?;
                        command.env.insert(name.clone(), value.to_owned());
                    }
                    true
                }
                ("on_timeout", Value::String(word)) if word == "interrupt" => true,
                ("on_timeout", Value::String(word)) if word == "background" => {
                    set(&mut command.on_timeout, OnTimeout::Background)
                }
                _ => false,
            };
            if !is_taken {
                let known = "command, timeout, cwd, env, stdin, blocking, max_output, on_timeout";
                return Err(invalid(format!("'{name}' is unknown or has the wrong type; run_command accepts {known}")));
            }
        }
        if !has_command {
            return Err(invalid("command is missing".to_owned()));
        }
        command.timeout = command.timeout.min(left).max(Duration::from_millis(1));
        Ok(command)
    }

    /// The key under which the command is run: the same for the same call of the same step, even when the step is
    /// repeated after a crash. A command that ran before is then answered from its record and not run again.
    pub fn key(&self, step: u64) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.id.len() as u64).to_le_bytes()).update(self.id.as_bytes());
        let command = self.parameters.get("command").and_then(Value::as_str).unwrap_or_default();
        hasher.update(command.as_bytes());
        format!("agent:{step}:{}", &hasher.finalize().to_hex()[..32])
    }
}

fn set<T>(place: &mut T, value: T) -> bool {
    *place = value;
    true
}

/// The first line to an agent.
pub struct Opening<'a> {
    /// Whose agent it is.
    pub session_id: &'a str,
    /// The name of this work in the recording.
    pub resume_id: &'a str,
    pub message: &'a str,
    /// The state that it saved last.
    pub state: Option<&'a AgentStateView>,
    /// The end of the conversation, the message included.
    pub messages: &'a [Message],
}

impl Opening<'_> {
    /// As a line.
    pub fn line(&self) -> Vec<u8> {
        let mut told = json!({
            "type": "resume",
            "session_id": self.session_id,
            "resume_id": self.resume_id,
            "message": self.message,
            "state": null,
            "state_version": self.state.map_or(0, |state| state.version),
            "messages": self.messages.iter().map(message).collect::<Vec<_>>(),
        });
        if let Some(AgentStateView { media_type, bytes, .. }) = self.state {
            match serde_json::from_slice::<Value>(bytes).ok().filter(|_| media_type == JSON) {
                Some(state) => told["state"] = state,
                None => {
                    told["state_base64"] = BASE64.encode(bytes).into();
                    told["media_type"] = media_type.as_str().into();
                }
            }
        }
        line(&told)
    }
}

fn message(message: &Message) -> Value {
    json!({"seq_id": message.seq_id, "role": message.role, "content": message.content, "created_at": message.at.to_string()})
}

/// The answer to a tool call.
pub fn tool_result(id: &str, result: &Result<RunView, OpError>) -> Vec<u8> {
    match result {
        Err(error) => {
            let error = json!({"code": error.code(), "detail": error.to_string()});
            line(&json!({"type": "tool_result", "id": id, "error": error}))
        }
        Ok(run) => line(&run_result(id, run)),
    }
}

fn run_result(id: &str, run: &RunView) -> Value {
    let mut told = json!({
        "type": "tool_result",
        "id": id,
        "run_id": run.run_id.as_str(),
        "seq": run.seq,
        "status": run.status.as_str(),
        "exit_code": run.exit_code,
        "stdout_bytes": run.stdout.total,
        "stderr_bytes": run.stderr.total,
        "truncated": run.stdout.truncated || run.stderr.truncated,
        "duration_ms": run.duration.as_secs_f64() * 1000.0,
        "cwd": run.cwd.to_text(),
        "changes": serde_json::to_value(&run.changes).unwrap_or_default(),
        "notices": serde_json::to_value(&run.notices).unwrap_or_default(),
    });
    let mut put = |name: &str, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            told[format!("{name}_base64")] = BASE64.encode(bytes).into();
        }
        told[name] = text.into();
    };
    let bytes = |stream: &StreamView| stream.bytes.clone();
    put("stdout", &bytes(&run.stdout));
    put("stderr", &bytes(&run.stderr));
    if let Some(late) = &run.background_output {
        put("background_output", late.as_bytes());
    }
    if let Some(signal) = &run.signal {
        told["signal"] = signal.as_str().into();
    }
    told
}

/// A state is saved; `warning` if it is not on disk yet.
pub fn saved(version: u64, warning: Option<&str>) -> Vec<u8> {
    let mut told = json!({"type": "saved", "version": version});
    if let Some(warning) = warning {
        told["warning"] = warning.into();
    }
    line(&told)
}

/// The agent must stop.
pub fn stop(reason: &str) -> Vec<u8> {
    line(&json!({"type": "stop", "reason": reason}))
}

/// A line was rejected.
pub fn error(wrong: &Wrong) -> Vec<u8> {
    let mut told = json!({"type": "error", "code": wrong.code, "detail": wrong.detail});
    if let Some(id) = &wrong.id {
        told["id"] = id.as_str().into();
    }
    line(&told)
}

fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests;
