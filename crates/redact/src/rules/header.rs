//! What is in headers: bearer tokens, basic authentication, cookies. A header that is written as one
//! (`Authorization: …`) is found by its name; `Bearer` and `Basic` are found in other text too.

use crate::class::{BASE64, Class, LINE, REST, SPACE};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::rules::value::{self, Opening};
use crate::view::View;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Shortest bearer token outside of a header; shorter ones are words of a sentence.
const BEARER: usize = 16;
/// How much of one is looked at.
const BEARER_LOOK: usize = 64;
/// Shortest credentials of basic authentication: `a:b` is four bytes in base64.
const BASIC: usize = 4;
/// How much of it is decoded to look for the colon between user and password.
const BASIC_LOOK: usize = 256;

static BEARER_BYTES: Class = Class::of(b"a-zA-Z0-9._~+/=:-");
static BASE64_BODY: Class = Class::of(b"a-zA-Z0-9+/");
static SCHEME: Class = Class::of(b"a-zA-Z0-9_-");

const DECODER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Schemes whose credentials are a list with quotes in it; they continue to the end of the line.
const LISTS: &[&[u8]] = &[b"Digest", b"AWS4-HMAC-SHA256", b"OAuth", b"Hawk"];
/// Other schemes; what follows is one word.
const SCHEMES: &[&[u8]] = &[
    b"Bearer",
    b"Basic",
    b"Token",
    b"ApiKey",
    b"Api-Key",
    b"Key",
    b"Bot",
    b"Negotiate",
    b"NTLM",
    b"JWT",
    b"SSWS",
    b"GoogleLogin",
    b"PRIVATE-TOKEN",
    b"MAC",
    b"DPoP",
    b"GenieKey",
    b"Splunk",
];

/// A bearer token after the word `Bearer` that ends at `end`.
pub(crate) fn bearer(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::Bearer) || !view.boundary(start) {
        return None;
    }
    let from = view.run(end, &SPACE, 4);
    if from == end {
        return None;
    }
    let stop = view.run(from, &BEARER_BYTES, BEARER_LOOK);
    let text = view.slice(from, stop);
    let random = || text.iter().any(u8::is_ascii_digit) || value::is_random(text);
    (text.len() >= BEARER && random()).then(|| Found::open(Rule::Bearer, from, Tail::Class(&BEARER_BYTES)))
}

/// Basic authentication after the word `Basic` that ends at `end`: base64 with a colon in it.
pub(crate) fn basic(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::BasicAuth) || !view.boundary(start) {
        return None;
    }
    let from = view.run(end, &SPACE, 4);
    // Without the padding, so that less of it decodes to less of the same.
    let stop = view.run(from, &BASE64_BODY, BASIC_LOOK);
    let whole = &view.slice(from, stop)[..(stop - from) / 4 * 4];
    let user = DECODER.decode(whole).is_ok_and(|decoded| has_user(&decoded));
    (from > end && stop - from >= BASIC && user).then(|| Found::open(Rule::BasicAuth, from, Tail::Class(&BASE64)))
}

/// Whether a user and a colon come first. Without a user, some of the password must be text too.
fn has_user(decoded: &[u8]) -> bool {
    let printable = |bytes: &[u8]| bytes.iter().all(|byte| (0x20..0x7f).contains(byte) || *byte >= 0x80);
    let Some(colon) = memchr::memchr(b':', decoded) else { return false };
    match colon {
        0 => decoded.get(1..9).is_some_and(printable),
        colon => printable(&decoded[..colon]),
    }
}

/// The credentials of an `Authorization` header, whose value begins at `opening`. The scheme stays.
pub(crate) fn authorization(view: &View, opening: &Opening) -> Option<Found> {
    let scheme_end = view.run(opening.value, &SCHEME, 24);
    let scheme = view.slice(opening.value, scheme_end);
    let is_in = |list: &[&[u8]]| list.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let after = view.run(scheme_end, &SPACE, 4);
    let (rule, listed) = match () {
        () if is_in(LISTS) => (Rule::AuthHeader, true),
        () if scheme.eq_ignore_ascii_case(b"Bearer") => (Rule::Bearer, false),
        () if scheme.eq_ignore_ascii_case(b"Basic") => (Rule::BasicAuth, false),
        () => (Rule::AuthHeader, false),
    };
    if !view.rules().has(rule) {
        return None;
    }
    if after == scheme_end || !(is_in(SCHEMES) || is_in(LISTS)) {
        return value::weak(view, opening).then(|| Found::open(rule, opening.value, opening.tail()));
    }
    let named = opening.from(after);
    let tail = if listed { Tail::Class(&LINE) } else { named.tail() };
    value::credentials(view, &named).then(|| Found::open(rule, after, tail))
}

/// What a cookie is judged by: without a mask, which would bring nearer what was out of sight.
static COOKIE: Class = Class::visible_but(b"\"'`\\*");
/// How much of a cookie is looked at for the `=` that every cookie has.
const COOKIE_LOOK: usize = 64;

/// The cookies of a header, whose value begins at `opening`.
pub(crate) fn cookie(view: &View, opening: &Opening) -> Option<Found> {
    let stop = view.run(opening.value, &COOKIE, COOKIE_LOOK);
    let text = view.slice(opening.value, stop);
    // No name of a cookie has a space in it: `cookie: str | None = None` has a type.
    let is_name = |before: &[u8]| !before.trim_ascii_start().iter().any(u8::is_ascii_whitespace);
    let name = memchr::memchr(b'=', text).and_then(|equals| text[..equals].rsplit(|byte| *byte == b';').next());
    let pair = name.is_some_and(is_name);
    (view.rules().has(Rule::Cookie) && pair && !value::is_template(view, opening.value))
        .then(|| Found::open(Rule::Cookie, opening.value, opening.tail_of(&REST)))
}
