//! Which events are about a command that the session ran, and which of them belong together.

use crate::line::Line;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;

/// How many numbers after the end of a command the checkpoint of its files may have. It is recorded as soon as it is made,
/// and the next command waits for it for a while; other events may be recorded before it.
pub(crate) const FILES_NEAR: usize = 64;

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
    line.event_type == "checkpoint_created"
        && (end.seq..=files_reach(end)).contains(&line.seq)
        && is_run(end)
        && run_of(line) == run_of(end)
}

/// The last number that the checkpoint of the files of a command may have, by the command's end.
pub(crate) fn files_reach(end: &Line) -> u64 {
    end.seq.saturating_add(FILES_NEAR as u64)
}

/// Puts the checkpoint of the files that a command changed beside the command's end, whatever was recorded between.
pub fn with_files<I>(lines: I) -> WithFiles<I>
where
    I: Iterator,
{
    WithFiles { lines, ahead: VecDeque::new() }
}

/// Lines, each with the checkpoint that belongs to it. See [`with_files`].
pub struct WithFiles<I: Iterator> {
    lines: I,
    /// Read already, in search of a checkpoint.
    ahead: VecDeque<I::Item>,
}

impl<I, E> WithFiles<I>
where
    I: Iterator<Item = Result<Line, E>>,
{
    fn files_of(&mut self, end: &Line) -> Option<Line> {
        let is_it = |item: &Result<Line, E>| item.as_ref().is_ok_and(|line| is_files_of(line, end));
        if let Some(place) = self.ahead.iter().position(is_it) {
            return self.ahead.remove(place)?.ok();
        }
        let reach = files_reach(end);
        while self.ahead.back().is_none_or(|item| item.as_ref().is_ok_and(|line| line.seq < reach)) {
            let item = self.lines.next()?;
            if is_it(&item) {
                return item.ok();
            }
            self.ahead.push_back(item);
        }
        None
    }
}

impl<I, E> Iterator for WithFiles<I>
where
    I: Iterator<Item = Result<Line, E>>,
{
    type Item = Result<(Line, Option<Line>), E>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.ahead.pop_front().or_else(|| self.lines.next())?;
        Some(item.map(|line| {
            let files = if is_run(&line) { self.files_of(&line) } else { None };
            (line, files)
        }))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::sample;
    use serde_json::json;

    fn line(seq: u64, event_type: &str, data: Value) -> Line {
        Line { seq, ..sample(event_type, data) }
    }

    fn end(seq: u64, run: &str) -> Line {
        line(seq, "tool_call", json!({"tool_name": "run_command", "run_id": run, "status": "exited", "exit_code": 0}))
    }

    fn files(seq: u64, run: &str) -> Line {
        line(seq, "checkpoint_created", json!({"cause": {"tool": {"run_id": run}}, "added": 1}))
    }

    fn paired(lines: Vec<Result<Line, u64>>) -> Vec<Result<(u64, Option<u64>), u64>> {
        with_files(lines.into_iter())
            .map(|row| row.map(|(line, files)| (line.seq, files.map(|files| files.seq))))
            .collect()
    }

    /// An event between the end of a command and its checkpoint made both into rows of their own, so that printed
    /// replays and pages showed no changed files for the command.
    #[test]
    fn a_command_has_its_files_whatever_was_recorded_between() {
        let by_hand = line(5, "checkpoint_created", json!({"cause": "manual", "added": 1}));
        let note = line(3, "x_note", json!({}));
        let lines = [end(2, "r1"), note, end(4, "r3"), by_hand, files(6, "r1"), files(7, "r3"), end(8, "r7")];
        let expected = [(2, Some(6)), (3, None), (4, Some(7)), (5, None), (8, None)];
        assert_eq!(paired(lines.into_iter().map(Ok).collect()), expected.map(Ok));
        let last = 2 + FILES_NEAR as u64;
        let notes = |to: u64| (3..to).map(|seq| line(seq, "x_note", json!({})));
        for (at, belongs) in [(last, true), (last + 1, false)] {
            let lines = std::iter::once(end(2, "r1")).chain(notes(at)).chain([files(at, "r1")]);
            let rows = paired(lines.map(Ok).collect());
            assert_eq!(rows[0], Ok((2, belongs.then_some(at))));
            assert_eq!(rows.len() as u64, at - 1 - u64::from(belongs), "a checkpoint that is too far has its own row");
        }
    }

    #[test]
    fn what_cannot_be_read_comes_after_what_can() {
        let rows = paired(vec![Ok(end(2, "r1")), Ok(line(3, "x_note", json!({}))), Err(4)]);
        assert_eq!(rows, [Ok((2, None)), Ok((3, None)), Err(4)]);
    }
}
