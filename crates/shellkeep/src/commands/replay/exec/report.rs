//! What a replay found, for a person and for a program.

use super::files::FileDifference;
use super::outputs::Difference;
use super::steps::LeftOut;
use crate::failure::Failure;
use crate::terminal::{self, Colour};
use serde::Serialize;
use shellkeep_terminal::words;

/// What a replay found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether everything was the same.
    pub identical: bool,
    pub recording: String,
    /// The session in which it was replayed.
    pub session: String,
    /// Whether that session was kept.
    pub kept: bool,
    /// Commands with the same result, up to the first that differs.
    pub compared: usize,
    /// Commands to run.
    pub steps: usize,
    /// What was not repeated, with counts.
    pub left_out: LeftOut,
    /// What was not compared, and why.
    pub not_compared: Vec<String>,
    /// Files that were compared; absent if the recorded workspace does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// The first thing that differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<First>,
}

/// The first thing that differed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum First {
    /// A command.
    Step(StepDifference),
    /// A file, after all commands.
    File(FileDifference),
}

/// A command with a different result.
#[derive(Debug, Serialize)]
pub struct StepDifference {
    /// Which of the commands, from 1.
    pub step: usize,
    /// Number of the event that records its end.
    pub seq: u64,
    /// Its text, as recorded.
    pub command: String,
    /// What differs: `status`, `exit_code`, `cwd`, `stdout` or `stderr`.
    pub what: &'static str,
    /// Where, and how.
    #[serde(flatten)]
    pub difference: Difference,
}

impl Report {
    /// Prints it.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return terminal::json(self);
        }
        let verdict = match self.identical {
            true => terminal::coloured("identical", Colour::Green),
            false => terminal::coloured("DIFFERENT", Colour::Red),
        };
        let files = self
            .files
            .map_or_else(String::new, |files| format!(", {} compared", words::counted(files as usize, "file")));
        let stopped = match &self.first_difference {
            Some(First::Step(step)) if step.step < self.steps => {
                format!("; stopped there, {} not run", words::counted(self.steps - step.step, "command"))
            }
            _ => String::new(),
        };
        terminal::line(format!(
            "{verdict}: {} of {} commands came out the same{files}{stopped}",
            self.compared, self.steps
        ));
        match &self.first_difference {
            None => {}
            Some(First::Step(step)) => {
                terminal::line(format!("first difference: step {} (event {}), {}", step.step, step.seq, step.what));
                terminal::line(format!("  $ {}", step.command.trim_end().replace('\n', "\n  > ")));
                let Difference { line, expected, got } = &step.difference;
                if matches!(step.what, "stdout" | "stderr") {
                    terminal::line(format!("  {} line {line}:", step.what));
                }
                let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "(nothing more)".to_owned());
                sides(&text(expected), &text(got));
            }
            Some(First::File(file)) => {
                terminal::line(format!("first difference: file {}, {}", file.path, file.what));
                sides(&file.expected, &file.got);
            }
        }
        for (what, count) in &self.left_out {
            terminal::line(format!("left out: {what} ({count})"));
        }
        self.not_compared.iter().for_each(|words| terminal::line(format!("not compared: {words}")));
        if self.kept {
            terminal::line(format!("kept: session {}", self.session));
        }
        Ok(())
    }
}

fn sides(expected: &str, got: &str) {
    terminal::line(terminal::coloured(&format!("  - {expected}"), Colour::Red));
    terminal::line(terminal::coloured(&format!("  + {got}"), Colour::Green));
}
