//! What a rule answers: where a secret begins and how to find its end. The end may be far away, so it is given as a way
//! to continue and not as a place.

use crate::class::{Class, WORD};
use crate::rules::Rule;

/// A secret that was found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) rule: Rule,
    /// The first byte to mask.
    pub(crate) start: usize,
    /// Everything up to here is masked.
    pub(crate) solid: usize,
    /// How the mask continues from there.
    pub(crate) tail: Tail,
}

/// How a mask continues.
#[derive(Clone, Copy)]
pub(crate) enum Tail {
    /// While bytes are of this class, or of a word: a mask does not end within a word.
    Class(&'static Class),
    /// Up to this quote, unless a backslash is before it, or the end of the line.
    Quoted { quote: u8, escaped: bool },
    /// The body of a private key begins here; nothing is masked yet.
    KeyBody,
}

impl Found {
    /// A secret from `start` to `end`, and to the end of the word.
    pub(crate) fn span(rule: Rule, start: usize, end: usize) -> Self {
        Self { rule, start, solid: end, tail: Tail::Class(&WORD) }
    }

    /// A secret that begins at `start` and continues for as long as `tail` says.
    pub(crate) fn open(rule: Rule, start: usize, tail: Tail) -> Self {
        Self { rule, start, solid: start, tail }
    }
}
