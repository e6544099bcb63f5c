//! What events put on a terminal, and when. The output of a run with a terminal comes as it was written, with the keys that
//! were typed in between.

use super::ansi::Pieces;
use super::frames::{self, Frame, MOST_OUTPUT};
use crate::line::Line;
use crate::runs::is_run;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde_json::Value;
use shellkeep_session::{TerminalChange, TerminalEvents, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

/// Most keys that are kept until their run ends; later ones are left out.
const MOST_TYPED: usize = 10_000;
/// Most runs with a terminal that have not ended. A session has few; a damaged recording may have any number.
const MOST_RUNS: usize = 1000;
/// What is shown for keys that were typed while the terminal did not echo.
const HIDDEN: &str = "***";

/// Something on a terminal, and when.
pub type Timed = (Timestamp, Frame);

/// Goes through the lines of a recording, in order.
pub struct Timeline {
    rows: u16,
    cols: u16,
    /// What was typed into runs that have not ended.
    typed: HashMap<String, Vec<Timed>>,
}

impl Timeline {
    /// For a terminal of this size, which a run with a terminal changes while it runs.
    pub fn new(rows: u16, cols: u16) -> Self {
        Self { rows, cols, typed: HashMap::new() }
    }

    /// What the next line puts on the terminal.
    pub fn frames(&mut self, line: &Line) -> Vec<Timed> {
        let run_id = line.data.get("run_id").and_then(Value::as_str).unwrap_or_default();
        match line.event_type.as_str() {
            "run_started" if line.data.get("tty") == Some(&Value::Bool(true)) && self.typed.len() < MOST_RUNS => {
                self.typed.insert(run_id.to_owned(), Vec::new());
            }
            "run_input" => {
                if let Some(typed) = self.typed.get_mut(run_id) {
                    let text = line.data.get("input").and_then(Value::as_str).unwrap_or(HIDDEN);
                    if typed.len() < MOST_TYPED {
                        typed.push((line.timestamp, Frame::Input(text.to_owned())));
                    }
                    return Vec::new();
                }
            }
            "tool_call" if is_run(line) => {
                let typed = self.typed.remove(run_id).unwrap_or_default();
                let terminal = line.data.get("terminal").and_then(|told| TerminalEvents::deserialize(told).ok());
                if let Some(terminal) = terminal {
                    return self.played(line, &terminal, typed);
                }
            }
            _ => {}
        }
        frames::frames(line).into_iter().map(|frame| (line.timestamp, frame)).collect()
    }

    fn played(&self, line: &Line, terminal: &TerminalEvents, typed: Vec<Timed>) -> Vec<Timed> {
        let duration = line.data.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
        let mut at = line.timestamp - Duration::try_from_secs_f64(duration).unwrap_or_default();
        let mut shown = vec![(at, Frame::Resize { rows: terminal.rows, cols: terminal.cols })];
        let output = output(&line.data);
        let (mut rest, mut pieces) = (output.as_slice(), Pieces::default());
        for event in &terminal.events {
            at += Duration::from_millis(event.after_ms);
            let frame = match event.change {
                TerminalChange::Resize { rows, cols } => Frame::Resize { rows, cols },
                TerminalChange::Output { bytes } => {
                    let (piece, after) = rest.split_at(rest.len().min(usize::try_from(bytes).unwrap_or(usize::MAX)));
                    rest = after;
                    Frame::Output(pieces.next(piece))
                }
            };
            shown.push((at, frame));
        }
        shown.extend(typed);
        // Those of one time keep their order.
        shown.sort_by_key(|(at, _)| *at);
        let end = line.timestamp.max(at);
        shown.push((end, Frame::Output(format!("{}{}", pieces.finish(), frames::ending(&line.data, &output)))));
        shown.push((end, Frame::Resize { rows: self.rows, cols: self.cols }));
        shown
    }
}

/// The output of a run as far as the line has it.
fn output(data: &Value) -> Vec<u8> {
    let bytes = data.get("stdout_base64").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
    let mut bytes = bytes.unwrap_or_else(|| frames::text(data.get("output")).into_bytes());
    bytes.truncate(MOST_OUTPUT);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::sample;
    use serde_json::json;

    #[test]
    fn a_terminal_is_played_as_it_was_written() {
        let at = |millisecond: i64| Timestamp::from_millisecond(millisecond).unwrap();
        let line = |millisecond, event_type, data| Line { timestamp: at(millisecond), ..sample(event_type, data) };
        let mut timeline = Timeline::new(30, 100);
        let begun = timeline.frames(&line(1000, "run_started", json!({"run_id": "r2", "command": "vi", "tty": true})));
        assert!(begun.iter().all(|(when, _)| *when == at(1000)), "{begun:?}");
        for (when, data) in
            [(1300, json!({"run_id": "r2", "input": "x"})), (1600, json!({"run_id": "r2", "hidden": true}))]
        {
            assert_eq!(timeline.frames(&line(when, "run_input", data)), []);
        }
        let ended = json!({"tool_name": "run_command", "run_id": "r2", "status": "exited", "exit_code": 3, "duration": 1.0,
            "output": "\u{1b}[?1049hab\u{1b}[3", "stdout_bytes": 14, "stderr": "", "stderr_bytes": 0,
            "terminal": {"rows": 24, "cols": 80, "events": [[100, "o", 9], [400, "r", "90x25"], [100, "o", 100]]}});
        let output = |text: &str| Frame::Output(text.to_owned());
        let expected = [
            (at(1000), Frame::Resize { rows: 24, cols: 80 }),
            (at(1100), output("\u{1b}[?1049ha")),
            (at(1300), Frame::Input("x".to_owned())),
            (at(1500), Frame::Resize { rows: 25, cols: 90 }),
            (at(1600), output("b")),
            (at(1600), Frame::Input("***".to_owned())),
        ];
        let played = timeline.frames(&line(2000, "tool_call", ended));
        assert_eq!(played[..6], expected, "{played:?}");
        let (when, Frame::Output(last)) = &played[6] else { panic!("{played:?}") };
        assert!(*when == at(2000) && last.contains("\u{1b}[?1049l") && last.contains("[exit 3]"), "{last:?}");
        assert_eq!(played[7], (at(2000), Frame::Resize { rows: 30, cols: 100 }));
        // A run without a terminal shows what was typed, and its output at the end.
        timeline.frames(&line(3000, "run_started", json!({"run_id": "r3", "command": "cat"})));
        assert!(!timeline.frames(&line(3100, "run_input", json!({"run_id": "r3", "input": "x"}))).is_empty());
    }
}
