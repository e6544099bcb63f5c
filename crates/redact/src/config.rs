//! What a redactor is made from, and what can be wrong with it.

use crate::rules::{Rules, UnknownRule};
use thiserror::Error;

/// What to look for, beside the values given at run time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The rules in force.
    pub rules: Rules,
    /// Rules for telephone numbers and national ids, by name (`phone`, `us_ssn`, …); they are off unless named here.
    pub optional: Vec<String>,
    /// Patterns of one's own.
    pub extra: Vec<Pattern>,
}

/// A pattern of one's own: a regular expression that matches at most 256 bytes within a line. It is found only where a word
/// begins, what it matches is masked to the end of the word, and it never matches a `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Its name, for errors.
    pub name: String,
    /// The regular expression.
    pub regex: String,
}

/// What is wrong with a [`Config`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A rule that does not exist.
    #[error(transparent)]
    UnknownRule(#[from] UnknownRule),
    /// A pattern that cannot be used.
    #[error("the redaction pattern '{name}' cannot be used: {reason}")]
    Pattern {
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Too many patterns.
    #[error("{given} redaction patterns are too many; join them with | until there are at most {most}")]
    TooManyPatterns {
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// More values than can be masked.
    #[error("{bytes} bytes of values are more than the {most} that can be masked")]
    TooManyValues {
        /// How many bytes they have.
        bytes: usize,
        /// How many they may have.
        most: usize,
    },
    /// A search automaton that would take too much memory.
    #[error("the redaction rules need too much memory: {detail}; register fewer or shorter values")]
    TooLarge {
        /// What the library said.
        detail: String,
    },
}
