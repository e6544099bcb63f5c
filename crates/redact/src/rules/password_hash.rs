//! Hashes of passwords, as systems and databases keep them: `$6$salt$hash`. With one, passwords can be tried offline.

use crate::class::{Class, WORD};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;

/// How hashes begin.
pub(crate) const HINTS: &[&str] = &[
    "$1$",
    "$5$",
    "$6$",
    "$y$",
    "$2a$",
    "$2b$",
    "$2y$",
    "$apr1$",
    "$argon2i$",
    "$argon2d$",
    "$argon2id$",
    "$scrypt$",
    "$pbkdf2-sha256$",
    "$pbkdf2-sha512$",
];

/// What salt and hash are made of.
static LETTERS: Class = Class::of(b"a-zA-Z0-9./");
static ALL: Class = Class::of(b"a-zA-Z0-9./$=,+_-");
/// Longest salt, or number of rounds.
const SALT: usize = 32;
/// Shortest hash of those that have parameters.
const LONG: usize = 60;

/// The hash that begins at `start`. Its beginning stays, since it shows which kind it is.
pub(crate) fn find(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::PasswordHash) || !view.boundary(start) {
        return None;
    }
    let tail = Tail::Class(&ALL);
    let found = match view.slice(start, end) {
        b"$1$" | b"$apr1$" => is_hash(view, end, 22),
        b"$5$" => is_hash(view, behind_rounds(view, end), 43),
        b"$6$" => is_hash(view, behind_rounds(view, end), 86),
        b"$2a$" | b"$2b$" | b"$2y$" => is_hash(view, end, 53),
        b"$y$" => behind_part(view, end).is_some_and(|salt| is_hash(view, salt, 43)),
        _ => {
            view.at(start + 2).is_some_and(|byte| byte.is_ascii_lowercase()) && view.run(end, &ALL, LONG) - end == LONG
        }
    };
    found.then(|| Found::open(Rule::PasswordHash, end, tail))
}

/// Whether a salt is at `at`, and behind it a hash of this length.
fn is_hash(view: &View, at: usize, length: usize) -> bool {
    let Some(hash) = behind_part(view, at) else { return false };
    let stop = view.run(hash, &LETTERS, length);
    stop - hash == length && !view.at(stop).is_some_and(|byte| WORD.has(byte) || byte == b'$')
}

/// Behind the part at `at` and the dollar that ends it.
fn behind_part(view: &View, at: usize) -> Option<usize> {
    let stop = view.run(at, &LETTERS, SALT);
    (stop > at && view.at(stop) == Some(b'$')).then_some(stop + 1)
}

/// The position after `rounds=5000$`, if it is there.
fn behind_rounds(view: &View, at: usize) -> usize {
    let number = at + b"rounds=".len();
    if view.is(at, b"rounds=") { behind_part(view, number).unwrap_or(at) } else { at }
}
