//! An event as a terminal would have shown it: what is typed, what is printed, and a mark where something else happened.

use super::ansi;
use crate::line::Line;
use crate::player::Summary;
use crate::player::summary;
use crate::runs::is_run;
use serde_json::Value;

/// Fields of a command that are shown in another way, or that only the session itself needs.
pub const TOLD: [&str; 14] = [
    "tool_name",
    "parameters",
    "output",
    "stderr",
    "error",
    "duration",
    "status",
    "exit_code",
    "stdout_base64",
    "stderr_base64",
    "stdout_bytes",
    "stderr_bytes",
    "delta",
    "terminal",
];

/// What an event puts on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Something to be seen, with colours and with line ends as a bare terminal needs them.
    Output(String),
    /// A place to jump to, with its name.
    Marker(String),
    /// Keys that were typed.
    Input(String),
    /// The terminal has another size.
    Resize { rows: u16, cols: u16 },
}

/// Bytes of an output that are shown. The recording has the rest.
pub(super) const MOST_OUTPUT: usize = 64 << 10;

/// What an event puts on a terminal.
pub fn frames(line: &Line) -> Vec<Frame> {
    let data = &line.data;
    let said = |colour: &str, who: &str, what: &str| match summary::posted_by(line) {
        Some(words) => said(colour, &format!("{who} ({words})"), what),
        None => said(colour, who, what),
    };
    let marker = || Frame::Marker(format!("{} {}", line.event_type, Summary::of(line).text));
    match line.event_type.as_str() {
        // A person who watches must see that what follows does not follow from what was before.
        "session_created" | "session_rewound" | "session_forked" if Summary::of(line).is_turn => {
            vec![marker(), Frame::Output(said("1;33", "session", &Summary::of(line).text))]
        }
        "run_started" => {
            let command = text(data.get("command"));
            vec![Frame::Marker(Summary::of(line).text), Frame::Output(prompt(&command))]
        }
        "tool_call" if is_run(line) => vec![Frame::Output(result(data))],
        "tool_call" => vec![marker(), Frame::Output(said("2;35", "tool", &summary::text(line)))],
        "run_input" => vec![marker(), Frame::Output(said("2;36", "typed", &summary::text(line)))],
        "user_input" => vec![marker(), Frame::Output(said("1;36", "user", &text(data.get("message"))))],
        "final_output" => vec![marker(), Frame::Output(said("1;34", "agent", &text(data.get("output"))))],
        // They come with every command and say nothing to a person who watches.
        "session_created" | "shell_started" | "shell_stopped" | "processes_left" | "agent_state_saved"
        | "message_added" => Vec::new(),
        _ => vec![marker()],
    }
}

/// A text field; bytes that are not text are shown as far as they can be read.
pub fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(map)) if map.len() == 1 && map.contains_key("base64") => "(bytes)".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// A command as it is typed.
fn prompt(command: &str) -> String {
    let mut typed = String::new();
    for (number, line) in command.trim_end_matches('\n').split('\n').enumerate() {
        let sign = if number == 0 { '$' } else { '>' };
        typed += &format!("\u{1b}[1;32m{sign}\u{1b}[0m \u{1b}[1m{}\u{1b}[0m\r\n", ansi::plain(line));
    }
    typed
}

/// What a command printed, and how it ended if not well.
fn result(data: &Value) -> String {
    let mut shown = String::new();
    for (name, total) in [("output", "stdout_bytes"), ("stderr", "stderr_bytes")] {
        let (all, bytes) = (text(data.get(name)), data.get(total).and_then(Value::as_u64).unwrap_or(0));
        let kept = cut(&all, MOST_OUTPUT);
        shown += &whole_lines(ansi::harmless(kept));
        let left = bytes.saturating_sub(kept.len() as u64);
        // Bytes that are no text have another length as text.
        if left > 0 && (kept.len() < all.len() || data.get(format!("{}_file", &total[..6])).is_some()) {
            shown += &format!("\u{1b}[0;2m… {left} bytes more\u{1b}[0m\r\n");
        }
    }
    shown + &outcome(data)
}

/// How a run with a terminal ended, on a line of its own.
pub(super) fn ending(data: &Value, output: &[u8]) -> String {
    let break_line = if output.is_empty() || output.ends_with(b"\n") { "" } else { "\r\n" };
    let bytes = data.get("stdout_bytes").and_then(Value::as_u64).unwrap_or(0);
    let left = match bytes.saturating_sub(output.len() as u64) {
        0 => String::new(),
        left => format!("\u{1b}[0;2m… {left} bytes more\u{1b}[0m\r\n"),
    };
    format!("{break_line}{left}{}", outcome(data))
}

/// How a command ended if not well.
fn outcome(data: &Value) -> String {
    let outcome = summary::tool_outcome(data, None).filter(|outcome| outcome != "exit 0");
    outcome.map_or_else(String::new, |outcome| format!("\u{1b}[0;31m[{}]\u{1b}[0m\r\n", ansi::plain(&outcome)))
}

fn said(colour: &str, who: &str, what: &str) -> String {
    format!("\u{1b}[{colour}m{who}\u{1b}[0m {}", whole_lines(ansi::harmless(cut(what, MOST_OUTPUT))))
}

/// What follows begins on a line of its own and in plain colours.
fn whole_lines(mut shown: String) -> String {
    let ended = shown.is_empty() || shown.ends_with('\n');
    if shown.contains('\u{1b}') {
        shown.push_str("\u{1b}[0m");
    }
    if !ended {
        shown.push_str("\r\n");
    }
    shown
}

/// The beginning of a text, up to this many bytes.
pub fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::sample as line;
    use serde_json::json;

    fn output(event_type: &str, data: Value) -> String {
        let shown = frames(&line(event_type, data));
        shown.into_iter().filter_map(|frame| if let Frame::Output(text) = frame { Some(text) } else { None }).collect()
    }

    #[test]
    fn a_command_looks_as_it_did() {
        let typed = output("run_started", json!({"run_id": "r2", "command": "for i in 1 2\ndo echo $i\ndone\n"}));
        assert_eq!(
            ansi::plain(&typed).split_whitespace().collect::<Vec<_>>().join(" "),
            "$ for i in 1 2 > do echo $i > done"
        );
        let result = json!({"tool_name": "run_command", "run_id": "r2", "status": "exited", "exit_code": 2,
            "output": "one\ntwo", "stderr": "\u{1b}[31mbad\n", "stdout_bytes": 7, "stderr_bytes": 9});
        assert_eq!(
            output("tool_call", result),
            "one\r\ntwo\r\n\u{1b}[31mbad\r\n\u{1b}[0m\u{1b}[0;31m[exit 2]\u{1b}[0m\r\n"
        );
        let quiet = json!({"tool_name": "run_command", "run_id": "r2", "status": "exited", "exit_code": 0, "output": "", "stderr": ""});
        assert_eq!(output("tool_call", quiet), "");
    }

    #[test]
    fn what_was_too_large_is_told() {
        let data = json!({"tool_name": "run_command", "run_id": "r2", "status": "timed_out", "exit_code": 124,
            "output": "head\n", "stdout_file": "r2.stdout", "stdout_bytes": 100_005, "stderr": "", "stderr_bytes": 0});
        assert_eq!(
            output("tool_call", data),
            "head\r\n\u{1b}[0;2m… 100000 bytes more\u{1b}[0m\r\n\u{1b}[0;31m[timed out]\u{1b}[0m\r\n"
        );
    }

    #[test]
    fn other_events_are_marks_and_words() {
        let asked = frames(&line("user_input", json!({"message": "do it"})));
        assert_eq!(asked[0], Frame::Marker("user_input do it".to_owned()));
        assert_eq!(asked[1], Frame::Output("\u{1b}[1;36muser\u{1b}[0m do it\r\n".to_owned()));
        assert_eq!(frames(&line("llm_call", json!({"response": "yes"}))), [Frame::Marker("llm_call yes".to_owned())]);
        assert_eq!(frames(&line("shell_started", json!({"generation": 1}))), []);
        assert_eq!(frames(&line("session_created", json!({"cwd": "/w"}))), []);
        let back = frames(&line("session_rewound", json!({"to": 12, "files": {"name": "x"}})));
        assert_eq!(back[0], Frame::Marker("session_rewound rewound to #12".to_owned()));
        assert_eq!(back[1], Frame::Output("\u{1b}[1;33msession\u{1b}[0m rewound to #12\r\n".to_owned()));
        let posted = line("tool_call", json!({"tool_name": "search", "parameters": {}, "output": "x"}));
        assert!(!is_run(&posted) && frames(&posted).len() == 2);
    }
}
