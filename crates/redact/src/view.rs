//! What a rule may look at: the text around a place, within limits that do not depend on how the text was cut into
//! pieces. Every look is counted, so that a test can show that no input makes a rule slow.

use crate::class::{Class, DIGIT, WORD};
use crate::rules::Rules;
use std::cell::Cell;

/// How far a rule may look ahead. Longer secrets are still masked to their end; this is only how much of one must
/// be seen to know it.
pub(crate) const WINDOW: usize = 512;
/// How far a rule may look back, and how long before its hint a secret may begin.
pub(crate) const LOOK_BACK: usize = 96;

static STARS: Class = Class::of(b"*");

/// A window on the text. Bytes before `floor` were masked or are too far back; from `end` on there is another line or
/// too far ahead.
pub(crate) struct View<'a> {
    text: &'a [u8],
    floor: usize,
    /// What is before the floor in the output: nothing at the start, or the mask.
    before_floor: Option<u8>,
    end: usize,
    /// Whether the text continues behind the end.
    cut: bool,
    rules: Rules,
    /// Where the last name ends that was judged; its other parts need not be judged again.
    name_end: &'a Cell<usize>,
    looked: &'a Cell<u64>,
}

/// What is needed to make a [`View`], beside the text.
pub(crate) struct Limits<'a> {
    pub(crate) floor: usize,
    pub(crate) before_floor: Option<u8>,
    pub(crate) end: usize,
    pub(crate) cut: bool,
    pub(crate) rules: Rules,
    pub(crate) name_end: &'a Cell<usize>,
    pub(crate) looked: &'a Cell<u64>,
}

impl<'a> View<'a> {
    pub(crate) fn new(text: &'a [u8], limits: &Limits<'a>) -> Self {
        let Limits { floor, before_floor, end, cut, rules, name_end, looked } = *limits;
        Self { text, floor, before_floor, end: end.min(text.len()), cut, rules, name_end, looked }
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// The end of the last name that was judged.
    pub(crate) fn name_end(&self) -> &Cell<usize> {
        self.name_end
    }

    /// Whether what ends at `at` may continue, out of sight.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        self.cut && at == self.end
    }

    /// The byte at `at`; nothing where the line or the window ends.
    #[inline]
    pub(crate) fn at(&self, at: usize) -> Option<u8> {
        if at < self.end { self.text.get(at).copied() } else { None }
    }

    /// The byte before `at` as it stands in the output; nothing at the start of the text.
    #[inline]
    pub(crate) fn before(&self, at: usize) -> Option<u8> {
        if at > self.floor { self.text.get(at - 1).copied() } else { self.before_floor }
    }

    /// The bytes from `from` to `to`, within the limits.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.text.get(from.max(self.floor)..to.min(self.text.len())).unwrap_or_default()
    }

    /// The end of the run of `class` that begins at `at`, after at most `most` bytes.
    #[inline]
    pub(crate) fn run(&self, at: usize, class: &Class, most: usize) -> usize {
        let limit = at.saturating_add(most).min(self.end).max(at);
        let slice = self.text.get(at..limit).unwrap_or_default();
        let length = slice.iter().position(|byte| !class.has(*byte)).unwrap_or(slice.len());
        self.count(length + 1);
        at + length
    }

    /// The start of the run of `class` that ends before `at`, after at most `most` bytes.
    pub(crate) fn back(&self, at: usize, class: &Class, most: usize) -> usize {
        let limit = self.floor.max(at.saturating_sub(most.min(LOOK_BACK)));
        let slice = self.text.get(limit..at).unwrap_or_default();
        let length = slice.iter().rev().position(|byte| !class.has(*byte)).unwrap_or(slice.len());
        self.count(length + 1);
        at - length
    }

    /// Whether `literal` is at `at`.
    pub(crate) fn is(&self, at: usize, literal: &[u8]) -> bool {
        self.count(1);
        at + literal.len() <= self.end && self.text.get(at..at + literal.len()) == Some(literal)
    }

    /// Whether `literal` is at `at`, in any case.
    pub(crate) fn is_any_case(&self, at: usize, literal: &[u8]) -> bool {
        self.count(1);
        at + literal.len() <= self.end
            && self.text.get(at..at + literal.len()).is_some_and(|found| found.eq_ignore_ascii_case(literal))
    }

    /// Whether `literal` ends before `at`, in any case.
    pub(crate) fn ends(&self, at: usize, literal: &[u8]) -> bool {
        self.count(1);
        at >= self.floor + literal.len() && self.text[at - literal.len()..at].eq_ignore_ascii_case(literal)
    }

    /// Whether a mask ends before `at`: one of this pass, or one that was there. Stars behind it belong to it.
    pub(crate) fn after_mask(&self, at: usize) -> bool {
        let stars = self.back(at, &STARS, LOOK_BACK);
        (stars == self.floor && self.before_floor.is_some()) || at - stars >= crate::MASK.len()
    }

    /// Whether the byte at `at` continues a word.
    pub(crate) fn word_at(&self, at: usize) -> bool {
        self.at(at).is_some_and(|byte| WORD.has(byte))
    }

    /// Whether a word may begin at `at`: no part of a word is before it, or what is there is the end of an escape
    /// sequence (`\n` in JSON, a colour on a terminal, `%3D` in a URL).
    #[inline]
    pub(crate) fn boundary(&self, at: usize) -> bool {
        match self.before(at) {
            Some(byte) if WORD.has(byte) => {
                self.count(1);
                after_escape(self.text, self.floor, at)
            }
            _ => true,
        }
    }

    /// Where a word begins that was found to begin at `start` and ends before `end`: behind the escape sequence before it,
    /// whose last bytes look like part of the word.
    pub(crate) fn without_escape(&self, start: usize, end: usize) -> usize {
        let parameters = self.run(start, &DIGIT, 4);
        let places = [start + 1, start + 5, parameters + 1];
        let behind = |place: &usize| *place < end && after_escape(self.text, self.floor, *place);
        places.into_iter().find(behind).unwrap_or(start)
    }

    /// Adds to what was looked at.
    #[inline]
    pub(crate) fn count(&self, bytes: usize) {
        self.looked.set(self.looked.get() + bytes as u64);
    }
}

/// Whether an escape sequence ends before `at`.
pub(crate) fn after_escape(text: &[u8], floor: usize, at: usize) -> bool {
    let back = |by: usize| if at >= floor + by { text.get(at - by).copied() } else { None };
    let Some(last) = back(1) else { return false };
    if back(2) == Some(b'\\') && matches!(last, b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0') {
        return true;
    }
    if back(3) == Some(b'%') && last.is_ascii_hexdigit() {
        return back(2).is_some_and(|high| !WORD.has(unhex(high) << 4 | unhex(last)) && high.is_ascii_hexdigit());
    }
    if back(6) == Some(b'\\') && back(5) == Some(b'u') {
        return (1..=4).all(|by| back(by).is_some_and(|byte| byte.is_ascii_hexdigit()));
    }
    last.is_ascii_alphabetic() && after_colour(&back)
}

/// Whether a terminal's control sequence ends before: `ESC [ 31 m`, with the escape itself or spelled out.
fn after_colour(back: &dyn Fn(usize) -> Option<u8>) -> bool {
    const PARAMETERS: usize = 16;
    let mut by = 2;
    while by < PARAMETERS && back(by).is_some_and(|byte| byte.is_ascii_digit() || byte == b';' || byte == b'?') {
        by += 1;
    }
    let spelled = |word: &[u8]| word.iter().rev().enumerate().all(|(n, byte)| back(by + 1 + n) == Some(*byte));
    back(by) == Some(b'[') && (spelled(b"\x1b") || spelled(b"\\u001b") || spelled(b"\\x1b") || spelled(b"\\033"))
}

fn unhex(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_end_where_they_should() {
        let ends = |text: &str| after_escape(text.as_bytes(), 0, text.len());
        for text in ["a\\n", "\\t", "x%3D", "x%3d", "\\u0026", "\x1b[31m", "\x1b[01;31m", "\\u001b[0m", "\x1b[K"] {
            assert!(ends(text), "{text:?}");
        }
        for text in ["an", "n", "%41", "x3D", "u0026", "[31m", "31m", "", "\\q", "\\x"] {
            assert!(!ends(text), "{text:?}");
        }
        assert!(!after_escape(b"\\n", 1, 2), "nothing before the floor is seen");
    }
}
