//! Patterns from the configuration. They are regular expressions, checked so that they cannot be slow, cannot need more
//! text than is held back, and cannot undo what masking twice promises.

use crate::config::{ConfigError, Pattern};
use crate::found::Found;
use crate::rules::Rule;
use regex::bytes::{Regex, RegexBuilder};
use std::ops::Range;
use std::sync::Arc;

/// Longest match of a pattern.
pub(crate) const LONGEST: usize = 256;
/// Most patterns: each one is a pass of its own.
const MOST: usize = 64;
/// Largest compiled pattern, in bytes.
const SIZE: usize = 1 << 20;

/// A pattern that was checked.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Finds it anywhere, where a word may begin.
    anywhere: Regex,
    /// Finds it at the start.
    at_start: Regex,
}

/// Checks the patterns.
pub(crate) fn compile(patterns: &[Pattern]) -> Result<Arc<[Compiled]>, ConfigError> {
    if patterns.len() > MOST {
        return Err(ConfigError::TooManyPatterns { given: patterns.len(), most: MOST });
    }
    patterns.iter().map(compile_one).collect()
}

fn compile_one(pattern: &Pattern) -> Result<Compiled, ConfigError> {
    let wrong = |reason: String| ConfigError::Pattern { name: pattern.name.clone(), reason };
    let hir = regex_syntax::parse(&pattern.regex).map_err(|error| wrong(error.to_string()))?;
    let properties = hir.properties();
    if properties.minimum_len().is_none_or(|least| least == 0) {
        return Err(wrong("it matches the empty string, or nothing; require at least one character".to_owned()));
    }
    if properties.maximum_len().is_none_or(|most| most > LONGEST) {
        return Err(wrong(format!(
            "it can match more than {LONGEST} bytes; give every repetition an upper bound, as in [a-z]{{1,40}} for [a-z]+"
        )));
    }
    if !properties.look_set().is_empty() {
        return Err(wrong(
            "it must not contain ^, $ or \\b: patterns match at the start of a word and mask to its end".to_owned(),
        ));
    }
    let build = |text: String| {
        let built = RegexBuilder::new(&text).size_limit(SIZE).dfa_size_limit(SIZE).build();
        built.map_err(|error| wrong(error.to_string()))
    };
    Ok(Compiled {
        anywhere: build(format!(r"(?-u:\b{{start-half}})(?:{})", pattern.regex))?,
        at_start: build(format!(r"\A(?:{})", pattern.regex))?,
    })
}

/// What is known about the next match of one pattern.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// None begins before this place.
    NotBefore(usize),
    At {
        start: usize,
        end: usize,
    },
}

/// The search for the patterns, between two pieces of text.
pub(crate) struct Extras {
    patterns: Arc<[Compiled]>,
    next: Vec<Next>,
    /// The end of the last mask for which the patterns were tried.
    floor: usize,
    /// For which mask and up to where the nearest match is known, and that match.
    known: Option<(usize, usize)>,
    nearest: Option<(usize, usize)>,
    looked: u64,
}

impl Extras {
    pub(crate) fn new(patterns: Arc<[Compiled]>) -> Self {
        let next = vec![Next::NotBefore(0); patterns.len()];
        Self { patterns, next, floor: 0, known: None, nearest: None, looked: 0 }
    }

    /// The next match that begins between `pos` and `ready`.
    #[inline]
    pub(crate) fn next(&mut self, text: &[u8], floor: usize, pos: usize, ready: usize) -> Option<Found> {
        if self.patterns.is_empty() {
            return None;
        }
        let ahead = self.nearest.is_none_or(|(start, _)| start >= pos);
        if !ahead || self.known != Some((floor, ready)) {
            self.refresh(text, floor, pos, ready);
            let starts = self.next.iter().filter_map(|next| match next {
                Next::At { start, end } => Some((*start, *end)),
                Next::NotBefore(_) => None,
            });
            self.nearest = starts.min_by_key(|(start, _)| *start);
            self.known = Some((floor, ready));
        }
        self.nearest.map(|(start, end)| Found::span(Rule::Extra, start, end))
    }

    /// How many bytes the patterns have looked at.
    pub(crate) fn looked(&self) -> u64 {
        self.looked
    }

    fn refresh(&mut self, text: &[u8], floor: usize, pos: usize, ready: usize) {
        // A mask makes a word begin behind it. What was known stays known for the places further on.
        let fresh = floor > self.floor && pos == floor;
        for (pattern, next) in self.patterns.iter().zip(&mut self.next) {
            let mut behind_mask = || {
                let near = &text[..text.len().min(floor + LONGEST)];
                let piece = &near[floor..piece_end(near, floor)];
                self.looked += piece.len() as u64;
                pattern.at_start.find(piece).map(|found| Next::At { start: floor, end: floor + found.end() })
            };
            if let Some(found) = if fresh { behind_mask() } else { None } {
                *next = found;
                continue;
            }
            let from = match *next {
                Next::At { start, .. } if start >= pos => continue,
                Next::At { .. } => pos,
                Next::NotBefore(place) => place.max(pos),
            };
            if from < ready {
                *next = search(pattern, text, floor, from..ready, &mut self.looked);
            }
        }
        self.floor = floor;
    }

    /// Takes note that text before `passed` was dropped.
    pub(crate) fn drop_passed(&mut self, passed: usize) {
        self.floor = self.floor.saturating_sub(passed);
        self.known = None;
        for next in &mut self.next {
            match next {
                Next::NotBefore(place) => *place = place.saturating_sub(passed),
                Next::At { start, end } => (*start, *end) = (start.saturating_sub(passed), end.saturating_sub(passed)),
            }
        }
    }
}

/// Patterns never match across a mask or a line break.
fn piece_end(text: &[u8], from: usize) -> usize {
    memchr::memchr2(b'*', b'\n', &text[from..]).map_or(text.len(), |length| from + length)
}

/// The next match that begins in `range`.
fn search(pattern: &Compiled, text: &[u8], floor: usize, range: Range<usize>, looked: &mut u64) -> Next {
    let mut from = range.start;
    while from < range.end {
        let end = piece_end(text, from);
        let found = pattern.anywhere.find_at(&text[floor..end], from - floor);
        let found = found.map(|found| (floor + found.start(), floor + found.end()));
        *looked += (found.map_or(end, |(_, end)| end) - from) as u64 + 1;
        match found {
            Some((start, end)) if start < range.end => return Next::At { start, end },
            Some(_) => break,
            None => from = end + 1,
        }
    }
    Next::NotBefore(range.end)
}
