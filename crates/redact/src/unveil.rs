//! Secrets in disguise: with colours within them, in base64 or hex digits, in the rows of a dump. Before the text goes its
//! usual way, each line that may hide something is read as what it hides, and what is found there is masked in place.
//!
//! A line is looked at only as a whole, and rows only in chunks counted from the first, so the result does not depend on how
//! the text was cut into pieces. Of a chunk in which something is found every row is masked: the chunks behind it begin
//! where they began, so a second pass finds no more than the first.

mod decode;

use crate::MASK;
use crate::rules::Rule;
use decode::{LONGEST_ROW, SHORTEST_RUN};
use std::ops::Range;

/// Longest line whose colours are taken off. Longer ones are data for programs, and holding them back would cost memory.
const LONGEST_LINE: usize = 2048;
/// Longest run of base64 or hex digits that is decoded.
const LONGEST_RUN: usize = LONGEST_LINE;
/// Signs that fill up the end of base64.
const FILL: usize = 2;
/// A carriage return that may be the first half of a line break.
const LINE_BREAK: usize = 1;
/// Rows of a dump, or lines of base64, that are read together.
const CHUNK: usize = 64;
/// The most text that is held back.
pub(crate) const HELD: usize = LONGEST_LINE + LINE_BREAK + FILL + CHUNK * (LONGEST_ROW + 2);

/// Finds the secrets in a text as it is.
pub(crate) trait Finder {
    /// Their rules and places; adds what was looked at to the count.
    fn find(&self, text: &[u8], looked: &mut u64) -> Vec<(Rule, Range<usize>)>;
}

/// What was masked: the position of its mask in the result, and its original position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unveiled {
    pub(crate) rule: Rule,
    pub(crate) mask: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What comes out of a piece.
#[derive(Default)]
pub(crate) struct Output {
    /// The text with what was found masked.
    pub(crate) text: Vec<u8>,
    pub(crate) masks: Vec<Unveiled>,
}

/// The search, between two pieces of text.
#[derive(Default)]
pub(crate) struct Unveil {
    /// The rows that wait for the rest of their chunk, and then the line that has no end yet.
    text: Vec<u8>,
    /// Where the line begins.
    line: usize,
    /// Up to here the text was given out.
    given: usize,
    /// Whether it is longer than any that is looked at as a whole, and whether it is in a run that is longer than any that is
    /// decoded.
    is_long: bool,
    in_long_run: bool,
    /// What is before the line, or before what is left of it.
    before: Option<u8>,
    rows: Rows,
    /// Where `text` begins in the whole, and how long the result is.
    base: u64,
    written: u64,
    looked: u64,
}

/// Rows of one kind, one after the other.
#[derive(Default)]
struct Rows {
    kind: Option<Kind>,
    /// What is masked of each if something is found.
    parts: Vec<Range<usize>>,
    /// What they hide.
    hidden: Vec<u8>,
    /// Whether the last line of base64 was there: it is shorter than the first.
    is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dump,
    Base64,
    /// Lines of base64 that hide no text.
    Binary,
}

/// Something to mask in `text`.
struct Cut {
    rule: Rule,
    range: Range<usize>,
}

impl Unveil {
    /// Takes more text and gives it with what was found masked. With `last`, there is no more after it.
    pub(crate) fn feed(&mut self, finder: &impl Finder, bytes: &[u8], last: bool, to: &mut Output) {
        let mut from = self.text.len();
        // A line may have ended with the carriage return that was the last byte.
        from -= usize::from(from > self.line && self.text.last() == Some(&b'\r'));
        self.text.extend_from_slice(bytes);
        while let Some(end) = line_end(&self.text, from.max(self.line), last) {
            self.end_line(finder, end, to);
            from = self.line;
        }
        if self.text.len() - self.line > LONGEST_LINE + LINE_BREAK {
            self.end_rows(finder, to);
            self.is_long = true;
        }
        if last {
            self.end_line(finder, self.text.len(), to);
            self.end_rows(finder, to);
        } else if self.is_long && self.text.len() - self.line > LONGEST_LINE + LINE_BREAK + FILL {
            self.go_on(finder, to);
        }
        self.drop_given();
    }

    /// How much text is here and not given out.
    pub(crate) fn held(&self) -> usize {
        self.text.len()
    }

    /// How many bytes were looked at, beside the search for the ends of lines.
    pub(crate) fn looked(&self) -> u64 {
        self.looked
    }

    /// The line ends before `end`, its line break included.
    fn end_line(&mut self, finder: &impl Finder, end: usize, to: &mut Output) {
        let start = std::mem::replace(&mut self.line, end);
        let breaks = self.text[start..end].iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let (is_long, content) = (std::mem::take(&mut self.is_long), start..end - breaks);
        if is_long || content.len() > LONGEST_LINE {
            self.end_rows_before(finder, start, to);
            let cuts = self.in_runs(finder, content);
            self.in_long_run = false;
            return self.give(end, &cuts, to);
        }
        match self.row(content.clone()) {
            Some((kind, part, hidden)) if kind != Kind::Binary => {
                self.begin_rows(kind, finder, start, to);
                let first = self.rows.parts.first().map_or(part.len(), Range::len);
                self.rows.is_whole = kind == Kind::Base64 && (part.len() < first || hidden.len() < part.len());
                self.rows.parts.push(part);
                self.rows.hidden.extend(hidden);
                if self.rows.parts.len() == CHUNK {
                    self.end_rows(finder, to);
                }
                return;
            }
            Some(_) => self.begin_rows(Kind::Binary, finder, start, to),
            None => self.end_rows_before(finder, start, to),
        }
        let cuts = self.in_line(finder, content);
        self.give(end, &cuts, to);
    }

    /// What row the line is, what of it is to be masked, and what it hides.
    fn row(&mut self, content: Range<usize>) -> Option<(Kind, Range<usize>, Vec<u8>)> {
        let line = &self.text[content.clone()];
        if let Some((digits, bytes)) = decode::dump_row(line) {
            return Some((Kind::Dump, content.start + digits..content.end, bytes));
        }
        let known = self.rows.kind.filter(|kind| *kind != Kind::Dump && !self.rows.is_whole);
        let row = decode::base64_row(line, known.is_none())?;
        let hides_text = known == Some(Kind::Base64) || (known.is_none() && decode::base64(row).is_some());
        if hides_text { Some((Kind::Base64, content, row.to_vec())) } else { Some((Kind::Binary, content, Vec::new())) }
    }

    /// Continues with rows of this kind at `start`; those of another end.
    fn begin_rows(&mut self, kind: Kind, finder: &impl Finder, start: usize, to: &mut Output) {
        if self.rows.kind != Some(kind) || self.rows.is_whole {
            self.end_rows_before(finder, start, to);
            self.rows.kind = Some(kind);
        }
    }

    /// Reads what the rows hide together, and gives out everything.
    fn end_rows(&mut self, finder: &impl Finder, to: &mut Output) {
        self.end_rows_before(finder, self.line, to);
    }

    /// Reads what the rows hide together, and gives them out; they end at `end`.
    fn end_rows_before(&mut self, finder: &impl Finder, end: usize, to: &mut Output) {
        let rows = std::mem::take(&mut self.rows);
        if rows.parts.is_empty() {
            return;
        }
        let decoded = if rows.kind == Some(Kind::Base64) { decode::base64(&rows.hidden) } else { None };
        let hidden = decoded.as_ref().unwrap_or(&rows.hidden);
        // What the rows themselves say counts as well: with a mask in one of them, the others would be read differently.
        let shown = &self.text[self.given..end];
        self.looked += (hidden.len() + shown.len()) as u64;
        let mut find = |text: &[u8]| finder.find(text, &mut self.looked).first().map(|(rule, _)| *rule);
        let found = find(hidden).or_else(|| find(shown));
        let cut = |range: Range<usize>| found.map(|rule| Cut { rule, range });
        let cuts: Vec<Cut> = rows.parts.into_iter().filter_map(cut).collect();
        self.give(end, &cuts, to);
    }

    /// What a line hides: with its colours taken off, and in its runs of base64.
    fn in_line(&mut self, finder: &impl Finder, content: Range<usize>) -> Vec<Cut> {
        let mut cuts = Vec::new();
        if content.len() < SHORTEST_RUN.min(8) {
            return cuts;
        }
        let line = &self.text[content.clone()];
        if let Some(stripped) = decode::strip(line) {
            self.looked += line.len() as u64;
            for (rule, range) in finder.find(&stripped.text, &mut self.looked) {
                let places = stripped.places.get(range).unwrap_or_default();
                if let (Some(first), Some(last)) = (places.first(), places.last()) {
                    cuts.push(Cut { rule, range: content.start + first..content.start + last + 1 });
                }
            }
        }
        let coloured = cuts.len();
        for cut in self.in_runs(finder, content) {
            let is_apart = |other: &Cut| other.range.end <= cut.range.start || cut.range.end <= other.range.start;
            if cuts[..coloured].iter().all(is_apart) {
                cuts.push(cut);
            }
        }
        cuts.sort_by_key(|cut| cut.range.start);
        cuts
    }

    /// What the runs of a line hide.
    fn in_runs(&mut self, finder: &impl Finder, content: Range<usize>) -> Vec<Cut> {
        let line = &self.text[content.clone()];
        // The end of a run that is too long has no beginning.
        let mut from =
            if self.in_long_run { line.iter().take_while(|byte| decode::BASE64.has(**byte)).count() } else { 0 };
        let mut cuts = Vec::new();
        while let Some((start, end)) = decode::next_run(line, from, LONGEST_RUN, self.before) {
            self.looked += 1;
            from = end;
            let Some(hidden) = decode::run(&line[start..end]) else { continue };
            self.looked += hidden.len() as u64;
            if let Some((rule, _)) = finder.find(&hidden, &mut self.looked).first() {
                let fill = line[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
                cuts.push(Cut { rule: *rule, range: content.start + start..content.start + end + fill });
            }
        }
        cuts
    }

    /// Continues with a line that is too long to be looked at as a whole: all but the run at its end is given out.
    fn go_on(&mut self, finder: &impl Finder, to: &mut Output) {
        let (start, end) = (self.line, self.text.len());
        let open = start + decode::open_run(&self.text[start..]);
        if self.in_long_run && open == start && self.text[start..].iter().all(|byte| decode::BASE64.has(*byte)) {
            return self.pass(end, &[], to);
        }
        let cuts = self.in_runs(finder, start..open);
        self.in_long_run &= open == start;
        if end - open > LONGEST_RUN + FILL {
            self.in_long_run = true;
            return self.pass(end, &cuts, to);
        }
        self.pass(open, &cuts, to);
    }

    /// Gives out a part of a long line.
    fn pass(&mut self, end: usize, cuts: &[Cut], to: &mut Output) {
        self.give(end, cuts, to);
        self.line = end;
    }

    /// Gives out the text up to `end` with the cuts masked.
    fn give(&mut self, end: usize, cuts: &[Cut], to: &mut Output) {
        for Cut { rule, range } in cuts.iter().filter(|cut| !cut.range.is_empty()) {
            if range.start < self.given {
                continue;
            }
            to.text.extend_from_slice(&self.text[self.given..range.start]);
            let [start, end] = [range.start, range.end].map(|place| self.base + place as u64);
            to.masks.push(Unveiled { rule: *rule, mask: self.written + to.text.len() as u64, start, end });
            to.text.extend_from_slice(MASK);
            self.given = range.end;
        }
        to.text.extend_from_slice(&self.text[self.given..end]);
        self.given = end;
        self.before = end.checked_sub(1).map_or(self.before, |at| self.text.get(at).copied());
    }

    /// Drops what was given out.
    fn drop_given(&mut self) {
        let given = std::mem::take(&mut self.given);
        self.text.drain(..given);
        self.base += given as u64;
        self.line -= given;
        for part in &mut self.rows.parts {
            *part = part.start - given..part.end - given;
        }
    }

    /// What was given out is on its way.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.written += bytes as u64;
    }
}

/// Where the line ends that continues at `from`, its line break included: a line feed, a carriage return, or both.
fn line_end(text: &[u8], from: usize, last: bool) -> Option<usize> {
    let at = from + memchr::memchr2(b'\n', b'\r', text.get(from..)?)?;
    match (text[at], text.get(at + 1)) {
        (b'\r', Some(b'\n')) => Some(at + 2),
        (b'\r', None) if !last => None,
        _ => Some(at + 1),
    }
}
