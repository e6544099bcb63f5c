//! Regular expressions of callers. Matching takes time in proportion to the text times the compiled pattern, and one call
//! of the matcher cannot be stopped; so a pattern is bounded, and the larger it is the less text it is given at once.

use crate::budget::{Budget, Spent};
use regex::bytes::{Regex, RegexBuilder};

/// Bytes of a compiled pattern, and bytes of text that it is matched against in one call: together at most some hundred
/// million steps, which is about a second. A longer line is searched in pieces of that size.
const SIZES: [(usize, usize); 3] = [(16 << 10, 1 << 20), (128 << 10, 32 << 10), (1 << 20, 4 << 10)];

/// The part of a piece that is searched again with the next one, for a match that lies over its end.
const CARRIED: usize = 16;

/// Bytes of a compiled pattern that is matched against everything a service writes, for as long as it takes.
const STANDING: usize = 32 << 10;

/// A regular expression with a bound on what one call of it costs.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    piece: usize,
}

/// Why a pattern was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a regular expression.
    #[error("not a regular expression: {0}")]
    Syntax(String),
    /// It is one, but a huge one.
    #[error(
        "too large: a repetition such as x{{1000}} is expanded, and \\w matches all letters of Unicode. Use a shorter \
            pattern, fewer repetitions, or plain text"
    )]
    TooLarge,
}

impl Pattern {
    /// A pattern for text: `.` is a character, and classes such as `\w` know all letters.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::of_sizes(pattern, true, &SIZES)
    }

    /// A pattern for bytes: classes such as `\w` are ASCII, other letters stand for themselves.
    pub fn ascii(pattern: &str) -> Result<Self, PatternError> {
        Self::of_sizes(pattern, false, &SIZES)
    }

    /// A pattern that is looked for again and again in what a program writes. Letters are ASCII, unless the pattern
    /// itself has others.
    pub fn standing(pattern: &str) -> Result<Self, PatternError> {
        let sizes = [SIZES[0], (STANDING, SIZES[1].1)];
        Self::of_sizes(pattern, !pattern.is_ascii(), &sizes)
    }

    fn of_sizes(pattern: &str, unicode: bool, sizes: &[(usize, usize)]) -> Result<Self, PatternError> {
        for (size, piece) in sizes {
            match RegexBuilder::new(pattern).unicode(unicode).size_limit(*size).build() {
                Ok(regex) => return Ok(Self { regex, piece: *piece }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(PatternError::Syntax(reason(&error))),
            }
        }
        Err(PatternError::TooLarge)
    }

    /// Whether it is in a text.
    pub fn is_in(&self, text: &[u8], budget: &Budget) -> Result<bool, Spent> {
        if text.len() <= self.piece {
            return Ok(self.regex.is_match(text));
        }
        for start in (0..text.len()).step_by(self.piece - self.piece / CARRIED) {
            if budget.is_spent() {
                return Err(Spent);
            }
            // With what is before it, so that `^` is the beginning of the text only.
            if self.regex.is_match_at(&text[..text.len().min(start + self.piece)], start) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is wrong with a pattern, on one line: the parser draws it below the pattern.
fn reason(error: &regex::Error) -> String {
    let told = error.to_string();
    let last = told.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_larger_pattern_gets_less_text_at_once() {
        let small = Pattern::new(r"error: \d+").unwrap();
        let large = Pattern::new("a[ab]{1500}X").unwrap();
        let letters = Pattern::new(r"\w{3,10} ready").unwrap();
        assert_eq!(small.piece, SIZES[0].1);
        assert!(large.piece < small.piece && letters.piece < small.piece);
        assert_eq!(Pattern::new("[ab]{60000}").unwrap_err(), PatternError::TooLarge);
        assert_eq!(Pattern::new("(").unwrap_err().to_string(), "not a regular expression: unclosed group");
        assert_eq!(Pattern::new("a\n(").unwrap_err().to_string(), "not a regular expression: unclosed group");
    }

    #[test]
    fn a_match_may_lie_over_the_end_of_a_piece() {
        let pattern = Pattern::new("a[ab]{1500}X|needle").unwrap();
        let unlimited = Budget::unlimited();
        for before in [pattern.piece - 3, 2 * pattern.piece - pattern.piece / CARRIED - 3, 3 * pattern.piece] {
            let text = [vec![b'-'; before].as_slice(), b"needle", &vec![b'-'; pattern.piece]].concat();
            assert_eq!(pattern.is_in(&text, &unlimited), Ok(true), "{before}");
        }
        let start = Pattern::new("^b|a[ab]{1500}X").unwrap();
        assert_eq!(start.is_in(&[b"-".as_slice(), &vec![b'b'; 3 * start.piece]].concat(), &unlimited), Ok(false));
    }

    #[test]
    fn what_is_looked_for_all_the_time_must_be_cheap() {
        assert_eq!(Pattern::standing("a[ab]{1500}X").unwrap_err(), PatternError::TooLarge);
        for usual in [r"listening on .*:\d+", r"(?i)ready in \d+(\.\d+)? m?s", "Läuft auf Port [0-9]+", r"\w+: \w+ up"]
        {
            assert!(Pattern::standing(usual).is_ok(), "{usual}");
        }
    }

    #[test]
    fn a_search_ends_with_its_budget() {
        let pattern = Pattern::new("a[ab]{1500}X").unwrap();
        let text = vec![b'-'; 4 << 20];
        let gone = Budget::unlimited();
        assert_eq!(pattern.is_in(&text, &gone), Ok(false));
        gone.cancel();
        assert_eq!(pattern.is_in(&text, &gone), Err(Spent));
        assert_eq!(pattern.is_in(&text, &Budget::of(Duration::ZERO)), Err(Spent));
    }
}
