//! Passwords in URLs and connection strings: `scheme://user:password@host`.

use crate::class::{Class, WORD};
use crate::found::Found;
use crate::rules::Rule;
use crate::rules::value;
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
    let stop = view.run(from, &AUTHORITY, USER_INFO);
    let authority = view.slice(from, stop);
    let host = memchr::memrchr(b'@', authority)?;
    let user_info = &authority[..host];
    let Some(colon) = memchr::memchr(b':', user_info) else {
        return key_as_user(view, from, user_info);
    };
    let (user, password) = (&user_info[..colon], &user_info[colon + 1..]);
    // A mask in there was put by another rule, and what is left beside it must stay as it is.
    let masked = user.contains(&b'*') || memchr::memmem::find(password, crate::MASK).is_some();
    let start = from + colon + 1;
    if password.is_empty() || masked || value::is_template(view, start) {
        return None;
    }
    Some(Found::span(Rule::UrlPassword, start, from + host))
}

fn key_as_user(view: &View, from: usize, user: &[u8]) -> Option<Found> {
    let key = user.len() >= KEY_AS_USER
        && user.iter().all(|byte| WORD.has(*byte))
        && user.iter().any(u8::is_ascii_digit);
    key.then(|| Found::span(Rule::UrlPassword, from, from + user.len())).filter(|_| view.at(from + user.len()).is_some())
}
