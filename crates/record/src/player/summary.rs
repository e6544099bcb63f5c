//! An event in one line: what kind it is, what it says, how it went.

use crate::export::ansi;
use crate::line::Line;
use serde::Serialize;
use serde_json::Value;
use shellkeep_session::Timestamp;

/// Characters of a summary: a line of a wide terminal.
const MOST_CHARACTERS: usize = 200;

/// What an event is about. A person finds events by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody said something to the agent.
    Input,
    /// A model was asked.
    Model,
    /// A tool was used, or a command is about to run.
    Tool,
    /// The agent answered.
    Output,
    /// The agent's own state or way.
    Agent,
    /// The session and its shell.
    Session,
    /// A service.
    Service,
    /// Something is missing or was masked.
    Record,
    /// The host's own.
    Other,
}

/// An event in one line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Position in the session.
    pub seq: u64,
    /// Its type, as recorded.
    pub event_type: String,
    /// When.
    pub timestamp: Timestamp,
    /// What it is about.
    pub kind: Kind,
    /// What it says, on one line.
    pub text: String,
    /// How it went, if it went anyhow: `exit 2`, `timed out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Whether it went wrong.
    pub failed: bool,
    /// Seconds it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Sentences for the one who reads: what was lost or limited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl Summary {
    /// The summary of an event.
    pub fn of(line: &Line) -> Self {
        let data = &line.data;
        let error = data.get("error").filter(|error| !error.is_null()).map(flat);
        let outcome = match line.event_type.as_str() {
            "tool_call" => tool_outcome(data, error),
            "service_ended" => data.get("status").map(flat),
            _ => error,
        };
        let failed = match line.event_type.as_str() {
            "tool_call" => outcome.as_deref().is_some_and(|outcome| outcome != "exit 0"),
            "service_ended" => outcome.as_deref() == Some("failed"),
            "hole" | "records_lost" => true,
            _ => outcome.is_some(),
        };
        Self {
            seq: line.seq,
            event_type: line.event_type.clone(),
            timestamp: line.timestamp,
            kind: kind(&line.event_type),
            text: cut(&ansi::plain(&text(line))),
            outcome: outcome.map(|outcome| cut(&ansi::plain(&outcome))),
            failed,
            seconds: data.get("duration").and_then(Value::as_f64),
            notices: notices(data),
        }
    }

    /// Whether a person who is in a hurry wants to see it: what was said, asked, done and answered, and what went wrong.
    pub fn is_key(&self) -> bool {
        // A posted tool call has no start of its own; a command's start says nothing that its end does not.
        let spoken = matches!(self.event_type.as_str(), "user_input" | "llm_call" | "tool_call" | "final_output");
        spoken || self.failed || !self.notices.is_empty()
    }
}

/// What an event of this type is about.
pub fn kind(event_type: &str) -> Kind {
    match event_type {
        "user_input" => Kind::Input,
        "llm_call" => Kind::Model,
        "tool_call" | "run_started" | "run_detached" => Kind::Tool,
        "final_output" => Kind::Output,
        "state_transition" | "agent_state_saved" | "message_added" => Kind::Agent,
        "hole" | "records_lost" | "scrubbed" => Kind::Record,
        other if other.starts_with("service_") => Kind::Service,
        other if other.starts_with("session_") || other.starts_with("shell_") || other == "processes_left" => {
            Kind::Session
        }
        _ => Kind::Other,
    }
}

fn tool_outcome(data: &Value, error: Option<String>) -> Option<String> {
    let status = data.get("status").and_then(Value::as_str);
    match (status, data.get("exit_code").and_then(Value::as_i64)) {
        (Some("exited"), Some(code)) => Some(format!("exit {code}")),
        (Some(status), _) => Some(status.replace('_', " ")),
        // Posted by a framework, which knows only whether it went wrong.
        (None, _) => error,
    }
}

/// What an event says: the field that matters most to a reader.
fn text(line: &Line) -> String {
    let data = &line.data;
    let field = |name: &str| data.get(name).map(flat).unwrap_or_default();
    match line.event_type.as_str() {
        "user_input" => field("message"),
        "llm_call" => {
            let response = field("response");
            if response.is_empty() { field("prompt") } else { response }
        }
        "tool_call" => match data.pointer("/parameters/command") {
            Some(command) if data["tool_name"] == "run_command" => format!("$ {}", flat(command)),
            _ => format!("{} {}", field("tool_name"), field("parameters")),
        },
        "run_started" => format!("$ {}", field("command")),
        "run_detached" => format!("{} goes on in the background", field("run_id")),
        "final_output" => field("output"),
        "state_transition" => format!("{} → {}", field("from_node"), field("to_node")),
        "message_added" => format!("{}: {}", field("role"), field("content")),
        "agent_state_saved" => format!("version {}, {} bytes", field("version"), field("bytes")),
        "session_created" => format!("in {}", field("cwd")),
        "shell_started" => format!("shell {}", field("generation")),
        "shell_stopped" | "session_ended" => field("reason"),
        "service_started" => {
            let command = data.pointer("/spec/command").map(flat).unwrap_or_default();
            format!("{} {command}", field("service_id"))
        }
        other if other.starts_with("service_") => field("service_id"),
        "hole" | "records_lost" => {
            format!("{} to {} are missing: {}", field("from"), field("through"), field("reason"))
        }
        "scrubbed" => {
            let lines = data.get("seqs").and_then(Value::as_array).map_or(0, Vec::len);
            format!("a secret was masked in {lines} lines")
        }
        _ => flat(data),
    }
}

fn notices(data: &Value) -> Vec<String> {
    let list = data.get("notices").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let sentence = |notice: &Value| notice.get("message").and_then(Value::as_str).map(|text| cut(&ansi::plain(text)));
    list.iter().filter_map(sentence).collect()
}

/// A value as a reader would write it: no quotes around a text, nothing for `null`. Only as much as a summary can hold.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(4 * MOST_CHARACTERS).collect(),
        Value::Null => String::new(),
        // Bytes that are no text.
        Value::Object(map) if map.len() == 1 && map.contains_key("base64") => "(bytes)".to_owned(),
        other => other.to_string(),
    }
}

fn cut(text: &str) -> String {
    let mut kept = String::new();
    let mut blank = true;
    for (count, c) in text
        .chars()
        .filter(|c| {
            // Several blanks in a row are one.
            let skip = blank && *c == ' ';
            blank = *c == ' ';
            !skip
        })
        .enumerate()
    {
        if count == MOST_CHARACTERS {
            kept.pop();
            kept.push('…');
            return kept;
        }
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Proof;
    use serde_json::json;

    fn line(event_type: &str, data: Value) -> Line {
        let timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        Line { seq: 7, event_type: event_type.to_owned(), timestamp, data, proof: Proof::default() }
    }

    fn summary(event_type: &str, data: Value) -> Summary {
        Summary::of(&line(event_type, data))
    }

    #[test]
    fn a_command_is_told_by_its_text_and_its_end() {
        let data = json!({"tool_name": "run_command", "parameters": {"command": "make\n  test\u{1b}[31m"},
            "output": "", "error": "exit code 2", "duration": 1.5, "status": "exited", "exit_code": 2,
            "notices": [{"code": "not_kept", "message": "set -e was not kept"}]});
        let told = summary("tool_call", data);
        assert_eq!((told.text.as_str(), told.outcome.as_deref()), ("$ make test", Some("exit 2")));
        assert_eq!((told.failed, told.seconds, told.kind), (true, Some(1.5), Kind::Tool));
        assert_eq!(told.notices, ["set -e was not kept"]);
        let well = summary(
            "tool_call",
            json!({"tool_name": "run_command", "parameters": {"command": "true"},
            "status": "exited", "exit_code": 0, "error": null}),
        );
        assert!(!well.failed && well.is_key());
        let lost = summary("tool_call", json!({"tool_name": "run_command", "status": "timed_out", "exit_code": 124}));
        assert_eq!((lost.outcome.as_deref(), lost.failed), (Some("timed out"), true));
    }

    #[test]
    fn what_a_framework_posts_is_told_too() {
        let posted = summary("tool_call", json!({"tool_name": "search", "parameters": {"q": "x"}, "error": null}));
        assert_eq!((posted.text.as_str(), posted.outcome, posted.failed), ("search {\"q\":\"x\"}", None, false));
        assert_eq!(summary("user_input", json!({"message": "hello\nthere"})).text, "hello there");
        assert_eq!(summary("llm_call", json!({"prompt": "p", "response": ""})).text, "p");
        assert_eq!(summary("state_transition", json!({"from_node": "a", "to_node": "b"})).text, "a → b");
        assert_eq!(summary("x_mine", json!({"a": 1})).text, "{\"a\":1}");
        assert!(!summary("x_mine", json!({"a": 1})).is_key());
        assert!(summary("x_mine", json!({"error": "bad"})).is_key());
        assert!(summary("hole", json!({"from": 3, "through": 9, "reason": "disk"})).failed);
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = summary("user_input", json!({"message": "é".repeat(5000)}));
        assert_eq!(long.text.chars().count(), MOST_CHARACTERS);
        assert!(long.text.ends_with('…'));
    }
}
