//! Passwords in URLs and connection strings: `scheme://user:password@host`.

use crate::class::{Class, WORD};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::rules::value::{self, Opening};
use crate::view::View;

/// Longest user and password together.
const USER_INFO: usize = 384;
/// A user without a password of at least this length, with a digit in it, is a key (Sentry, old GitHub tokens).
const KEY_AS_USER: usize = 20;

/// What may stand before the host.
static AUTHORITY: Class = Class::visible_but(b" \"'`\\/?#<>()[]{}|");

/// The password after the `://` that ends at `from`.
pub(crate) fn find(view: &View, _start: usize, from: usize) -> Option<Found> {
    if !view.rules().has(Rule::UrlPassword) {
        return None;
    }
    if let Some(key) = key_as_user(view, from) {
        return Some(key);
    }
    let stop = view.run(from, &AUTHORITY, USER_INFO);
    let authority = view.slice(from, stop);
    // A mask was put by another rule. There is no password in its place, and nothing is known of what follows.
    let known = memchr::memmem::find(authority, crate::MASK).unwrap_or(authority.len());
    let host = memchr::memrchr(b'@', &authority[..known])?;
    let user_info = &authority[..host];
    let colon = memchr::memchr(b':', user_info)?;
    let (user, password) = (&user_info[..colon], &user_info[colon + 1..]);
    let start = from + colon + 1;
    if password.is_empty() || user.contains(&b'*') || value::is_template(view, start) {
        return None;
    }
    Some(Found::span(Rule::UrlPassword, start, from + host))
}

/// A user that is a key: one long word with a digit in it.
fn key_as_user(view: &View, from: usize) -> Option<Found> {
    let stop = view.run(from, &WORD, USER_INFO);
    let digit = view.slice(from, stop).iter().any(u8::is_ascii_digit);
    (stop - from >= KEY_AS_USER && digit && view.at(stop) == Some(b'@'))
        .then(|| Found::span(Rule::UrlPassword, from, stop))
}

/// Shortest signature or key in a query.
const QUERY: usize = 24;
static QUERY_BYTES: Class = Class::of(b"a-zA-Z0-9%+/=_-");

/// The signature of a shared address, or the key of a function, as parameters of a query: `&sig=…`, `?code=…`.
pub(crate) fn query(view: &View, start: usize, end: usize) -> Option<Found> {
    let parameter = match view.before(start) {
        Some(b'?' | b'&' | b';') => true,
        Some(byte) => WORD.has(byte) && view.boundary(start),
        None => false,
    };
    let enough = parameter && view.run(end, &QUERY_BYTES, QUERY) - end == QUERY;
    let random = enough && value::is_random(view.slice(end, end + QUERY));
    (random && view.rules().has(Rule::Azure)).then(|| Found::open(Rule::Azure, end, Tail::Class(&QUERY_BYTES)))
}

/// The ports by which lines of `.pgpass` are noticed: PostgreSQL's own, the next ones, and PgBouncer's.
pub(crate) const PORTS: &[&str] = &[":5432:", ":5433:", ":5434:", ":6432:"];
/// Longest host, name of a database, and user.
const FIELD: usize = 64;

/// A host or a pattern for any.
static HOST: Class = Class::of(b"a-zA-Z0-9_.*/-");
static FIELD_BYTES: Class = Class::visible_but(b" :\"'`\\");
static FIELD_REST: Class = Class::visible_but(b" \"'`");

/// The password at the end of a line of `.pgpass`, whose port is between `start` and `end`:
/// `host:5432:database:user:password`.
pub(crate) fn password_file(view: &View, start: usize, end: usize) -> Option<Found> {
    let host = view.back(start, &HOST, FIELD);
    let begins = matches!(view.before(host), None | Some(b'\n' | b' ' | b'"' | b'\''));
    if host == start || !begins || !view.rules().has(Rule::UrlPassword) {
        return None;
    }
    let database = view.run(end, &FIELD_BYTES, FIELD);
    let user = view.run(database + 1, &FIELD_BYTES, FIELD);
    let colon = |at: usize| view.at(at) == Some(b':');
    if !colon(database) || !colon(user) || database == end || user == database + 1 {
        return None;
    }
    let masked = memchr::memmem::find(view.slice(host, user), crate::MASK).is_some();
    let opening = Opening::at(view, user + 1, &FIELD_REST);
    let stop = view.run(user + 1, &FIELD_REST, FIELD);
    let whole = stop - user > FIELD || matches!(view.at(stop), None | Some(b'\r' | b'"' | b'\''));
    (!masked && opening.is_bare() && whole && value::credentials(view, &opening))
        .then(|| Found::open(Rule::UrlPassword, opening.value, opening.tail()))
}
