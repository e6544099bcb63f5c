//! Tokens that tell what they are by how they begin. A rule is a row of a table: a prefix and what follows it.
//!
//! A row asks only for bytes that are there, and for a minimum of them; it has no "and then no more". That keeps a match
//! a match when something beside it was masked, which is why masking twice changes nothing.

use crate::class::{Class, WORD};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;

/// One form of a token.
pub(crate) struct Token {
    pub(crate) rule: Rule,
    /// How it begins, in this case.
    pub(crate) prefix: &'static str,
    /// What follows.
    pub(crate) parts: &'static [Part],
    /// Whether a digit must be among what follows: random text has one, a name made of words has none.
    pub(crate) digit: bool,
}

/// A part of a token.
pub(crate) enum Part {
    /// At least this many bytes of a class, and all that follow. Comes last.
    Run(&'static Class, usize),
    /// This many bytes of a class. If it comes last, the word must end there.
    Exactly(&'static Class, usize),
    Text(&'static str),
}

/// A token whose parts must hold a digit.
pub(crate) const fn token(rule: Rule, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token { rule, prefix, parts, digit: true }
}

/// A token whose prefix is telling enough.
pub(crate) const fn plain(rule: Rule, prefix: &'static str, parts: &'static [Part]) -> Token {
    Token { rule, prefix, parts, digit: false }
}

/// Whether a token of this form is at `start`, its prefix ending at `end`.
pub(crate) fn find(view: &View, token: &Token, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(token.rule) || !view.is(start, token.prefix.as_bytes()) || !view.boundary(start) {
        return None;
    }
    let stop = parts(view, token.parts, end)?;
    let digit = || view.slice(end, stop).iter().any(u8::is_ascii_digit);
    if token.digit && !digit() {
        return None;
    }
    let Some(Part::Run(class, _)) = token.parts.last() else { return Some(Found::span(token.rule, start, stop)) };
    // Only a token that was accepted is followed to its end: a text of nothing but prefixes would be read once for each.
    let whole = view.run(stop, class, usize::MAX);
    let solid = without_end_of_sentence(view, stop, whole);
    let tail = Tail::Class(if view.is_open(whole) { class } else { &WORD });
    Some(Found { rule: token.rule, start, solid, tail })
}

/// How much of a run is looked at for a digit.
const LOOK: usize = 48;

/// How far the parts are seen, if they are there.
fn parts(view: &View, parts: &[Part], from: usize) -> Option<usize> {
    let mut at = from;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Run(class, least) => {
                let stop = view.run(at, class, LOOK.max(*least));
                if stop - at < *least {
                    return None;
                }
                at = stop;
            }
            Part::Exactly(class, count) => {
                let stop = view.run(at, class, *count);
                let open_end = index + 1 == parts.len() && view.word_at(stop);
                if stop - at < *count || open_end {
                    return None;
                }
                at = stop;
            }
            Part::Text(text) => {
                if !view.is(at, text.as_bytes()) {
                    return None;
                }
                at += text.len();
            }
        }
    }
    Some(at)
}

/// A dot or dash at the end belongs to the sentence, if the window shows that the token ends.
fn without_end_of_sentence(view: &View, least: usize, stop: usize) -> usize {
    let mut at = stop;
    while !view.is_open(stop) && at > least && view.slice(at - 1, at).iter().all(|byte| matches!(byte, b'.' | b'-')) {
        at -= 1;
    }
    at
}
