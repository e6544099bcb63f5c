//! Which events are about a command that the session ran.

use crate::line::Line;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Whether it is the end of a command that the session ran, and not of a posted tool call.
pub fn is_run(line: &Line) -> bool {
    line.event_type == "tool_call"
        && !line.author.is_posted()
        && line.data.get("run_id").is_some()
        && line.data.get("status").is_some()
}

/// The run that an event is about.
pub fn run_of(line: &Line) -> Option<&str> {
    line.data.get("run_id").or_else(|| line.data.pointer("/cause/tool/run_id"))?.as_str()
}

/// Whether it is the checkpoint of the files that a command changed, by the command's end.
pub fn is_files_of(line: &Line, end: &Line) -> bool {
    line.event_type == "checkpoint_created" && run_of(line).is_some() && run_of(line) == run_of(end)
}

/// How many files a checkpoint added, changed and deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FileCounts {
    pub added: u64,
    pub changed: u64,
    pub deleted: u64,
}

impl FileCounts {
    /// The counts of a recorded checkpoint.
    pub fn of(checkpoint: &Line) -> Self {
        let number = |name: &str| checkpoint.data.get(name).and_then(Value::as_u64).unwrap_or(0);
        Self { added: number("added"), changed: number("changed"), deleted: number("deleted") }
    }
}

/// `+2 ~1 -1`; nothing for a kind that has none.
impl fmt::Display for FileCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signs = [('+', self.added), ('~', self.changed), ('-', self.deleted)];
        let mut gap = "";
        for (sign, number) in signs.into_iter().filter(|(_, number)| *number > 0) {
            write!(formatter, "{gap}{sign}{number}")?;
            gap = " ";
        }
        Ok(())
    }
}
