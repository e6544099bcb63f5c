//! What a session did, in figures: commands, failures, time, model calls, tokens, files.

use super::summary::Summary;
use crate::line::Line;
use crate::runs::is_run;
use serde_json::Value;
use std::fmt;

/// Names that model APIs give to the tokens that went in.
const INPUT: [&str; 3] = ["input_tokens", "prompt_tokens", "input"];
/// Names that model APIs give to the tokens that came out.
const OUTPUT: [&str; 3] = ["output_tokens", "completion_tokens", "output"];

/// Sums over the events of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Commands that ended.
    pub commands: u64,
    /// Of them, those that failed.
    pub failed: u64,
    /// Seconds they took.
    pub seconds: f64,
    pub model_calls: u64,
    /// Seconds they took.
    pub model_seconds: f64,
    /// Tokens that went into models.
    pub tokens_in: u64,
    /// Tokens that came out.
    pub tokens_out: u64,
    /// Files created, changed or deleted, counted once for each command that did.
    pub files: u64,
}

impl Totals {
    /// Counts an event.
    pub fn add(&mut self, line: &Line) {
        let number = |name: &str| line.data.get(name).and_then(Value::as_u64).unwrap_or(0);
        if is_run(line) {
            let summary = Summary::of(line);
            self.commands += 1;
            self.failed += u64::from(summary.failed);
            self.seconds += summary.seconds.unwrap_or(0.0);
        } else if line.event_type == "llm_call" {
            let usage = |names: [&str; 3]| {
                names.iter().find_map(|name| line.data.pointer(&format!("/token_usage/{name}"))?.as_u64()).unwrap_or(0)
            };
            self.model_calls += 1;
            self.model_seconds += line.data.get("duration").and_then(Value::as_f64).unwrap_or(0.0);
            self.tokens_in = self.tokens_in.saturating_add(usage(INPUT));
            self.tokens_out = self.tokens_out.saturating_add(usage(OUTPUT));
        } else if line.event_type == "checkpoint_created" {
            self.files += number("added") + number("changed") + number("deleted");
        }
    }

    /// The figures that are not zero.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        if self.commands > 0 {
            figures.push(counted(self.commands, "command", "commands"));
            figures.push(Figure { value: grouped(self.failed), name: "failed" });
            figures.push(Figure { value: span(self.seconds), name: "running commands" });
        }
        if self.files > 0 {
            figures.push(counted(self.files, "file changed", "files changed"));
        }
        if self.model_calls > 0 {
            figures.push(counted(self.model_calls, "model call", "model calls"));
            figures.push(Figure { value: span(self.model_seconds), name: "waiting for models" });
        }
        if self.tokens_in + self.tokens_out > 0 {
            figures.push(Figure { value: grouped(self.tokens_in), name: "tokens in" });
            figures.push(Figure { value: grouped(self.tokens_out), name: "tokens out" });
        }
        figures
    }
}

/// One of the totals for a person: `1,234 tokens in`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    pub value: String,
    pub name: &'static str,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.name)
    }
}

fn counted(number: u64, one: &'static str, many: &'static str) -> Figure {
    Figure { value: grouped(number), name: if number == 1 { one } else { many } }
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length of time as a person says it: `3 ms`, `1.5 s`, `2 min 5 s`.
pub fn span(seconds: f64) -> String {
    match seconds {
        ..0.9995 => format!("{:.0} ms", seconds.max(0.0) * 1000.0),
        ..59.95 => format!("{seconds:.1} s"),
        ..3600.0 => format!("{} min {} s", seconds as u64 / 60, seconds as u64 % 60),
        _ => format!("{} h {} min", seconds as u64 / 3600, seconds as u64 / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::sample as line;
    use serde_json::json;

    #[test]
    fn commands_models_and_files_are_counted() {
        let mut totals = Totals::default();
        assert!(totals.figures().is_empty(), "nothing happened");
        let run = |code: i64| json!({"run_id": "r2", "parameters": {"command": "make"}, "status": "exited", "exit_code": code, "duration": 1.25});
        totals.add(&line("tool_call", run(0)));
        totals.add(&line("tool_call", run(2)));
        totals.add(&line(
            "llm_call",
            json!({"token_usage": {"input_tokens": 1200, "output_tokens": 30}, "duration": 2.0}),
        ));
        totals.add(&line("llm_call", json!({"token_usage": {"prompt_tokens": 34, "completion_tokens": 4}})));
        totals.add(&line("llm_call", json!({"token_usage": null})));
        totals.add(&line("checkpoint_created", json!({"added": 2, "changed": 1, "deleted": 0})));
        let told: Vec<String> = totals.figures().iter().map(Figure::to_string).collect();
        let expected = [
            "2 commands",
            "1 failed",
            "2.5 s running commands",
            "3 files changed",
            "3 model calls",
            "2.0 s waiting for models",
            "1,234 tokens in",
            "34 tokens out",
        ];
        assert_eq!(told, expected);
    }
}
