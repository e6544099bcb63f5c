//! A name and its value as two entries: `"name": "DB_PASSWORD", "value": "…"`, as the environment of containers and the
//! parameters of clouds are written in JSON and YAML.

use crate::class::{BARE, Class, IDENTIFIER, NAME};
use crate::found::Found;
use crate::names::{self, Kind};
use crate::rules::Rule;
use crate::rules::assignment::{Separator, Sign};
use crate::rules::value::{self, Manner, Opening};
use crate::view::View;

/// Longest parts, from the word `value` back to the key of the name. Together they are no more than a rule may look back.
const KEY: usize = 12;
const SPACE_BETWEEN: usize = 32;
const NAME_LENGTH: usize = 32;
const SIGN: usize = 4;

/// What is between the two entries.
static BETWEEN: Class = Class::of(b" \t\r\n,\"'\\");
/// What is around the sign between a key and its name.
static AROUND: Class = Class::of(b" \"'\\");

/// The value of the entry whose key ends with the `value` between `start` and `end`.
pub(crate) fn find(view: &View, start: usize, end: usize) -> Option<Found> {
    let separator = Separator::after(view, end)?;
    match separator.sign {
        Sign::Equals | Sign::Colon => {}
        Sign::Element => return element(view, start, end),
        Sign::Space | Sign::Is | Sign::Call => return None,
    }
    let name = name_before(view, view.back(start, &IDENTIFIER, KEY))?;
    judged(view, name, separator.value, Manner::Loose)
}

/// The value at `at`, if its name says that it is a secret and it looks like one.
fn judged(view: &View, name: &[u8], at: usize, manner: Manner) -> Option<Found> {
    let opening = Opening::at(view, at, &BARE);
    view.count(names::EFFORT);
    let found = match names::classify(name) {
        Kind::Strong => value::strong(view, &opening, manner),
        Kind::Plain => false,
        Kind::Weak | Kind::Authorization | Kind::Cookie => value::weak(view, &opening),
    };
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// The name in the entry before the one whose key begins at `key`.
fn name_before<'v>(view: &View<'v>, key: usize) -> Option<&'v [u8]> {
    let end = view.back(key, &BETWEEN, SPACE_BETWEEN);
    let start = view.back(end, &NAME, NAME_LENGTH);
    let sign_end = view.back(start, &AROUND, SIGN);
    if end == key || start == end || !matches!(view.before(sign_end), Some(b':' | b'=')) {
        return None;
    }
    let key_end = view.back(sign_end - 1, &AROUND, SIGN);
    let is_key = view.ends(key_end, b"name") || view.ends(key_end, b"key");
    is_key.then(|| view.slice(start, end))
}

/// The text of the element between `start` and `end`, behind another that holds its name:
/// `<name>secret.key</name><value>…</value>`, `<key>apiKey</key><string>…</string>`.
pub(crate) fn element(view: &View, start: usize, end: usize) -> Option<Found> {
    let (open, value) = if view.at(start) == Some(b'<') { (start, end) } else { (start.checked_sub(1)?, end + 1) };
    let before = view.back(open, &BREAKS, SPACE_BETWEEN);
    let closing: &[&[u8]] = &[b"</name>", b"</key>"];
    let closed = closing.iter().find(|closing| view.ends(before, closing))?;
    let name_end = before - closed.len();
    let name_start = view.back(name_end, &NAME, NAME_LENGTH);
    if view.before(name_start) != Some(b'>') || view.at(open) != Some(b'<') {
        return None;
    }
    judged(view, view.slice(name_start, name_end), value, Manner::Element)
}

static BREAKS: Class = Class::of(b" \t\r\n");
