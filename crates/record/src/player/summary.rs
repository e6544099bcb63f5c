//! An event in one line: what kind it is, what it says, how it went.

use crate::export::ansi;
use crate::line::{HOLE, Line};
use crate::runs::{FileCounts, is_run, run_of};
use serde::Serialize;
use serde_json::Value;
use shellkeep_session::{Author, EventName, Source, Timestamp};

/// Characters of a summary: a line of a wide terminal.
const MOST_CHARACTERS: usize = 200;

/// What an event is about. A person finds events by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message for the agent.
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
    pub timestamp: Timestamp,
    /// What it is about.
    pub kind: Kind,
    /// Who it comes from: `source` and `by`.
    #[serde(flatten)]
    pub author: Author,
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
    /// The run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How many files a command changed, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FileCounts>,
    /// Sentences for the one who reads: what was lost or limited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Whether the session goes another way from here: it was taken back, was copied, or is a copy.
    #[serde(skip)]
    pub is_turn: bool,
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
            text: cut(&ansi::plain(&said(line))),
            author: line.author.clone(),
            outcome: outcome.map(|outcome| cut(&ansi::plain(&outcome))),
            failed,
            seconds: data.get("duration").and_then(Value::as_f64),
            run_id: is_run(line).then(|| run_of(line).map(str::to_owned)).flatten(),
            files: None,
            notices: notices(data),
            is_turn: match line.event_type.as_str() {
                "session_rewound" | "session_forked" => true,
                "session_created" => data.get("forked_from").is_some(),
                _ => false,
            },
        }
    }

    /// Whether a person who is in a hurry wants to see it: what was said, asked, done and answered, and what went wrong.
    pub fn is_key(&self) -> bool {
        // A posted tool call has no start of its own; a command's start says nothing that its end does not.
        let spoken =
            matches!(self.event_type.as_str(), "user_input" | "llm_call" | "tool_call" | "final_output" | "run_input");
        spoken || self.failed || !self.notices.is_empty() || self.is_turn
    }
}

/// What an event of this type is about.
pub fn kind(event_type: &str) -> Kind {
    match event_type {
        "user_input" => Kind::Input,
        "llm_call" => Kind::Model,
        "final_output" => Kind::Output,
        "state_transition" => Kind::Agent,
        HOLE => Kind::Record,
        other => EventName::of_shown(other).map_or(Kind::Other, kind_of_fact),
    }
}

fn kind_of_fact(name: EventName) -> Kind {
    match name {
        EventName::RunStarted | EventName::RunFinished | EventName::RunInput | EventName::RunDetached => Kind::Tool,
        EventName::AgentStateSaved | EventName::MessageAdded | EventName::KvChanged => Kind::Agent,
        EventName::RecordsLost | EventName::Scrubbed => Kind::Record,
        EventName::ServiceStarted | EventName::ServiceLive | EventName::ServiceReady | EventName::ServiceEnded => {
            Kind::Service
        }
        EventName::SessionCreated
        | EventName::SessionEnded
        | EventName::SessionDestroyed
        | EventName::SessionDeleted
        | EventName::ShellStarted
        | EventName::ShellStopped
        | EventName::ProcessesLeft
        | EventName::Restarted
        | EventName::Checkpointed
        | EventName::Rewound
        | EventName::Forked
        | EventName::SandboxChanged
        | EventName::NetworkRefused
        | EventName::Owned => Kind::Session,
        EventName::Noted => Kind::Other,
    }
}

/// How a tool ended: `exit 2`, `timed out`.
pub(crate) fn tool_outcome(data: &Value, error: Option<String>) -> Option<String> {
    let status = data.get("status").and_then(Value::as_str);
    match (status, data.get("exit_code").and_then(Value::as_i64)) {
        (Some("exited"), Some(code)) => Some(format!("exit {code}")),
        (Some(status), _) => Some(status.replace('_', " ")),
        // Posted by a framework, which knows only whether it went wrong.
        (None, _) => error,
    }
}

/// What is said of an event that is only an agent's word: `posted by agent 3f2a…`.
pub(crate) fn posted_by(line: &Line) -> Option<String> {
    (line.author.source == Source::Agent).then(|| format!("posted by {}", line.author))
}

/// What an event says. What an agent posted is marked as such.
fn said(line: &Line) -> String {
    match posted_by(line) {
        Some(words) => format!("[{words}] {}", text(line)),
        None => text(line),
    }
}

/// What an event says: the field that matters most to a reader.
pub(crate) fn text(line: &Line) -> String {
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
        "run_input" if data["hidden"] == true => format!("{} ‹ (hidden: the terminal did not echo)", field("run_id")),
        "run_input" => format!("{} ‹ {}", field("run_id"), field("input")),
        "run_detached" => format!("{} continues in the background", field("run_id")),
        "final_output" => field("output"),
        "state_transition" => format!("{} → {}", field("from_node"), field("to_node")),
        "message_added" => format!("{}: {}", field("role"), field("content")),
        "kv_changed" => keys(data),
        "agent_state_saved" => {
            let bytes = data.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            format!("version {}, {}", field("version"), counted(bytes, "byte"))
        }
        "session_created" => match data.get("forked_from") {
            Some(origin) => {
                let of = |name: &str| origin.get(name).map(flat).unwrap_or_default();
                format!("a copy of {}, as it was after #{}, in {}", of("session_id"), of("seq"), field("cwd"))
            }
            None => format!("in {}", field("cwd")),
        },
        "session_rewound" => rewound(data),
        "session_forked" if line.data.get("diverged_on").is_some() => format!(
            "what node {} wrote after #{} is kept as {}",
            field("diverged_on"),
            field("at"),
            field("session_id")
        ),
        "session_forked" => format!("copied to {}, as it was after #{}", field("session_id"), field("at")),
        "checkpoint_created" => checkpoint(data),
        "processes_left" => processes(data),
        "shell_started" => format!("shell {}", field("generation")),
        "session_owned" => format!("on node {} ({})", field("node"), field("reason").replace('_', " ")),
        "shell_stopped" => format!("shell stopped: {}", field("reason").replace('_', " ")),
        "session_ended" => format!("session ended: {}", field("reason")),
        "session_restarted" => "restarted with a clean shell".to_owned(),
        "sandbox_changed" => format!("sandbox changed to '{}'", field("sandbox")),
        "network_refused" => format!("connection to {} refused", field("host")),
        "session_deleted" => format!("deleted by its agent; kept as {}", field("kept_as")),
        other if other.starts_with("service_") => service(other, data),
        "hole" | "records_lost" => {
            format!("{} to {} are missing: {}", field("from"), field("through"), field("reason"))
        }
        "scrubbed" => {
            let lines = counted(length(data, "seqs"), "line");
            match length(data, "checkpoints") {
                0 => format!("a secret was masked in {lines}"),
                gone => format!("a secret was masked in {lines}; checkpoints deleted: {gone}"),
            }
        }
        _ => flat(data),
    }
}

/// `service s12 is ready`
fn service(event_type: &str, data: &Value) -> String {
    let id = data.get("service_id").map(flat).unwrap_or_default();
    let restarts = data.get("restarts").and_then(Value::as_u64).unwrap_or(0);
    match event_type {
        "service_started" => {
            let command = data.pointer("/spec/command").map(flat).unwrap_or_default();
            format!("service {id}: {command}")
        }
        "service_live" if restarts > 0 => format!("service {id} was restarted ({restarts})"),
        "service_live" => format!("service {id} was started"),
        "service_ready" => format!("service {id} is ready"),
        "service_ended" => format!("service {id} ended"),
        _ => id,
    }
}

/// `version 3: plan, notes`, with the keys that a change names.
fn keys(data: &Value) -> String {
    let changes = data.get("changes").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let names: Vec<String> = changes.iter().filter_map(|change| change.get("key")).map(flat).collect();
    format!("version {}: {}", data.get("version").map(flat).unwrap_or_default(), names.join(", "))
}

/// `still running: sleep 1, make`
fn processes(data: &Value) -> String {
    let list = data.get("processes").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let commands: Vec<String> = list.iter().filter_map(|process| process.get("command")).map(flat).collect();
    let names = |key: &str| {
        let list = data.get(key).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        list.iter().map(flat).collect::<Vec<_>>().join(", ")
    };
    let kinds = [
        ("still running", commands.join(", ")),
        ("open descriptors", names("descriptors")),
        ("too large to keep", names("variables")),
    ];
    let told = kinds.iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what}: {names}"));
    let told: Vec<String> = told.collect();
    if told.is_empty() { "nothing is left running".to_owned() } else { told.join("; ") }
}

/// `rewound to #12`, and how many files are not as they were then. A record without `files` does not tell whether files
/// were changed, since there may have been none at that moment; the record's notices do.
fn rewound(data: &Value) -> String {
    let mut words = format!("rewound to #{}", data.get("to").map(flat).unwrap_or_default());
    let kept = length(data, "kept_back");
    if kept > 0 {
        words += &format!(", {} not restored", counted(kept, "file"));
    }
    words
}

/// How many items a list has.
fn length(data: &Value, name: &str) -> u64 {
    data.get(name).and_then(Value::as_array).map_or(0, Vec::len) as u64
}

/// `1 file`, `2 files`
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// `files saved: 2 added, 1 changed (tool_bash_…)`
fn checkpoint(data: &Value) -> String {
    let number = |name: &str| data.get(name).and_then(Value::as_u64).unwrap_or(0);
    let counts = [("added", "added"), ("changed", "changed"), ("deleted", "deleted")];
    let told = counts.into_iter().filter(|(name, _)| number(name) > 0);
    let told: Vec<String> = told.map(|(name, word)| format!("{} {word}", number(name))).collect();
    let told = if told.is_empty() { "no change".to_owned() } else { told.join(", ") };
    let left = match number("left_out_total") {
        0 => String::new(),
        left => format!(", {left} left out"),
    };
    format!("files saved: {told}{left} ({})", data.get("name").map(flat).unwrap_or_default())
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
    use crate::line::sample as line;
    use serde_json::json;

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
        assert_eq!(summary("agent_state_saved", json!({"version": 1, "bytes": 1})).text, "version 1, 1 byte");
        assert!(summary("hole", json!({"from": 3, "through": 9, "reason": "disk"})).failed);
    }

    #[test]
    fn a_session_that_goes_another_way_says_so() {
        let back = summary("session_rewound", json!({"to": 12, "files": {"name": "x", "commit": "c"}}));
        assert_eq!((back.text.as_str(), back.is_key(), back.kind), ("rewound to #12", true, Kind::Session));
        let left = json!({"path": "big", "reason": "changed since"});
        let kept = |left: &[&Value]| summary("session_rewound", json!({"to": 3, "kept_back": left})).text;
        assert_eq!(kept(&[&left]), "rewound to #3, 1 file not restored");
        assert_eq!(kept(&[&left, &left]), "rewound to #3, 2 files not restored");
        // A workspace that was empty then has no checkpoint: its files were removed all the same.
        assert_eq!(summary("session_rewound", json!({"to": 2, "files": null})).text, "rewound to #2");
        let forked = summary("session_forked", json!({"session_id": "try-1", "at": 12}));
        assert_eq!((forked.text.as_str(), forked.is_key()), ("copied to try-1, as it was after #12", true));
        let copy = summary("session_created", json!({"cwd": "/w", "forked_from": {"session_id": "demo", "seq": 12}}));
        assert_eq!((copy.text.as_str(), copy.is_key()), ("a copy of demo, as it was after #12, in /w", true));
        assert!(!summary("session_created", json!({"cwd": "/w"})).is_key());
        let kept = json!({"name": "tool_bash_t", "added": 2, "changed": 0, "deleted": 1, "left_out_total": 3});
        let kept = summary("checkpoint_created", kept);
        assert_eq!(
            (kept.text.as_str(), kept.is_key()),
            ("files saved: 2 added, 1 deleted, 3 left out (tool_bash_t)", false)
        );
    }

    #[test]
    fn what_the_runtime_did_is_told_in_words() {
        let service = |kind: &str, data: Value| summary(&format!("service_{kind}"), data).text;
        let started = service("started", json!({"service_id": "s4", "spec": {"command": "make serve"}}));
        assert_eq!(started, "service s4: make serve");
        assert_eq!(service("live", json!({"service_id": "s4", "restarts": 0})), "service s4 was started");
        assert_eq!(service("live", json!({"service_id": "s4", "restarts": 2})), "service s4 was restarted (2)");
        assert_eq!(service("ready", json!({"service_id": "s4"})), "service s4 is ready");
        let ended = summary("service_ended", json!({"service_id": "s4", "status": "failed"}));
        assert_eq!((ended.text.as_str(), ended.outcome.as_deref()), ("service s4 ended", Some("failed")));
        assert_eq!(summary("shell_stopped", json!({"reason": "daemon_stopped"})).text, "shell stopped: daemon stopped");
        assert_eq!(summary("session_restarted", json!({"shell": {}})).text, "restarted with a clean shell");
        assert_eq!(summary("network_refused", json!({"host": "a.example"})).text, "connection to a.example refused");
    }

    #[test]
    fn an_agents_word_is_told_as_its_word() {
        let data = json!({"tool_name": "run_command", "parameters": {"command": "rm -rf /"}, "run_id": "r7",
            "status": "exited", "exit_code": 0, "by": "another"});
        let mut posted = line("tool_call", data);
        posted.author = Author::caller(Some("t1"));
        assert_eq!(Summary::of(&posted).text, "[posted by agent t1] $ rm -rf /");
        assert!(!is_run(&posted));
        posted.author = Author::runtime(None);
        assert_eq!(Summary::of(&posted).text, "$ rm -rf /");
        assert!(is_run(&posted));
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = summary("user_input", json!({"message": "é".repeat(5000)}));
        assert_eq!(long.text.chars().count(), MOST_CHARACTERS);
        assert!(long.text.ends_with('…'));
    }
}
