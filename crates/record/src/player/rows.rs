//! One row for each command: its start, and the checkpoint of the files that it changed, belong to the row of its end.

use super::{EventSource, PAGE, Player, Summary, Wanted};
use crate::line::Line;
use crate::runs::{FILES_NEAR, FileCounts, files_reach, is_files_of, is_run, run_of};
use std::collections::HashSet;

/// Events per command: its start, its end, its files.
const PARTS: usize = 3;
/// How many ends of commands are looked at for the one that belongs to a start. More of them come in between only while a
/// command runs in the background; then both have a row.
const ENDS: usize = 4;

/// A player that goes from row to row.
#[derive(Debug)]
pub struct Rows<'a, S> {
    player: &'a mut Player<S>,
}

impl<'a, S: EventSource> Rows<'a, S> {
    /// The rows of what is played.
    pub fn of(player: &'a mut Player<S>) -> Self {
        Self { player }
    }

    /// Goes to the next row. False at the end.
    pub fn step(&mut self) -> Result<bool, S::Error> {
        let mut after = self.player.seq();
        while let Some(line) = self.player.behind(after, &Wanted::default())? {
            after = line.seq;
            if self.is_row(&line)? {
                return Ok(self.player.move_to(Some(line)));
            }
        }
        Ok(false)
    }

    /// Goes to the row before this one. False at the beginning.
    pub fn back(&mut self) -> Result<bool, S::Error> {
        let mut seq = self.player.seq();
        while let Some(line) = self.player.before(seq, 1)?.pop() {
            seq = line.seq;
            if self.is_row(&line)? {
                return Ok(self.player.move_to(Some(line)));
            }
        }
        Ok(false)
    }

    /// Goes to the last row.
    pub fn last(&mut self) -> Result<bool, S::Error> {
        let found = self.player.jump(u64::MAX)?;
        match self.player.current.clone() {
            Some(line) if !self.is_row(&line)? => self.back(),
            _ => Ok(found),
        }
    }

    /// Goes to the next row, or with `back` to a row before this one, in which something is found. False, and nothing
    /// moves, if there is none.
    pub fn find(&mut self, wanted: &Wanted, back: bool) -> Result<bool, S::Error> {
        let here = self.player.current.clone();
        while if back { self.player.find_back(wanted)? } else { self.player.find(wanted)? } {
            let Some(line) = self.player.current.clone() else { break };
            if self.is_row(&line)? {
                return Ok(true);
            }
        }
        self.player.current = here;
        Ok(false)
    }

    /// Summaries of the rows around this one: up to `before` that come before it, itself, and up to `after` behind it.
    pub fn around(&mut self, before: usize, after: usize) -> Result<Vec<Summary>, S::Error> {
        let Some(current) = self.player.current.clone() else { return Ok(Vec::new()) };
        let here = current.seq;
        let mut lines = self.player.before(here, before.saturating_mul(PARTS))?;
        lines.push(current);
        let (mut last, mut left) = (here, after.saturating_mul(PARTS));
        while left > 0 {
            let page = self.player.source.page(last, left.min(PAGE), &Wanted::default(), self.player.hidden)?;
            left = left.saturating_sub(page.lines.len());
            lines.extend(page.lines);
            match page.next {
                Some(next) if next > last => last = next,
                _ => break,
            }
        }
        let rows = self.folded(&lines, here)?;
        let place = rows.iter().position(|row| row.seq == here).unwrap_or(0);
        let (first, end) = (place.saturating_sub(before), (place + after + 1).min(rows.len()));
        Ok(rows.into_iter().take(end).skip(first).collect())
    }

    /// The checkpoint of the files that a command changed, by the command's end.
    pub fn files_of(&mut self, end: &Line) -> Result<Option<Line>, S::Error> {
        if !is_run(end) {
            return Ok(None);
        }
        let (mut after, reach) = (end.seq, files_reach(end));
        while after < reach {
            let Some(line) = self.player.behind(after, &Wanted::of_type("checkpoint_created"))? else { break };
            if is_files_of(&line, end) {
                return Ok(Some(line));
            }
            after = line.seq;
        }
        Ok(None)
    }

    /// Lines as rows. The one the player is at has one in any case.
    fn folded(&mut self, lines: &[Line], here: u64) -> Result<Vec<Summary>, S::Error> {
        let ended: HashSet<&str> = lines.iter().filter(|line| is_run(line)).filter_map(run_of).collect();
        let mut rows: Vec<Summary> = Vec::new();
        for line in lines {
            let end = lines.iter().find(|end| is_files_of(line, end)).map(|end| end.seq);
            if let Some(row) = rows.iter_mut().rev().find(|row| Some(row.seq) == end) {
                row.files = Some(FileCounts::of(line));
            }
            let is_start = line.event_type == "run_started" && run_of(line).is_some_and(|run| ended.contains(run));
            let known = end.is_some() || is_start;
            if line.seq == here || (!known && self.is_row(line)?) {
                rows.push(Summary::of(line));
            }
        }
        Ok(rows)
    }

    /// Whether an event has a row of its own.
    fn is_row(&mut self, line: &Line) -> Result<bool, S::Error> {
        let Some(run) = run_of(line) else { return Ok(true) };
        match line.event_type.as_str() {
            "checkpoint_created" => {
                return Ok(!self.player.before(line.seq, FILES_NEAR)?.iter().any(|end| is_files_of(line, end)));
            }
            "run_started" => {}
            _ => return Ok(true),
        }
        let ends_it = |other: &Line| is_run(other) && run_of(other) == Some(run);
        let (mut after, mut seen) = (line.seq, 0);
        while seen < ENDS {
            let page = self.player.source.page(after, ENDS, &Wanted::of_type("tool_call"), self.player.hidden)?;
            if page.lines.iter().any(ends_it) {
                return Ok(false);
            }
            seen += page.lines.len();
            match page.next {
                Some(next) if next > after => after = next,
                _ => break,
            }
        }
        Ok(true)
    }
}
