//! JSON web tokens: a header, a payload and a signature, each in base64 and each beginning with a JSON object.

use crate::class::{TOKEN, TOKEN_DOT};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Shortest header (`{"alg":"…"}`) and payload, without the `eyJ` that the header begins with.
const LEAST: usize = 10;
/// Of a header longer than the window (some carry certificates) this much is decoded to know it.
const LONG: usize = 400;

/// Decodes what is there of a piece of base64.
const DECODER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A token that begins with the `eyJ` at `start`.
pub(crate) fn find(view: &View, start: usize, end: usize) -> Option<Found> {
    // A dash or a dot before it would make it a later part of something longer. It would also let a text of nothing but
    // `eyJ-` be looked through once for each of them.
    let inside = matches!(view.before(start), Some(b'-' | b'.'));
    if !view.rules().has(Rule::Jwt) || inside || !view.is(start, b"eyJ") || !view.boundary(start) {
        return None;
    }
    let header = view.run(end, &TOKEN, usize::MAX);
    let found = if header - end >= LONG {
        names_an_algorithm(view.slice(start, start + LONG))
    } else {
        let payload = header + 1;
        header - end >= LEAST && view.at(header) == Some(b'.') && view.run(payload, &TOKEN, LEAST) - payload == LEAST
    };
    let stop = view.run(header, &TOKEN_DOT, usize::MAX);
    let dots = view.slice(header, stop).iter().rev().take_while(|byte| **byte == b'.').count();
    let whole = !view.is_open(stop);
    let solid = if whole { stop - dots } else { stop };
    let tail = Tail::Class(if whole { &crate::class::WORD } else { &TOKEN_DOT });
    found.then_some(Found { rule: Rule::Jwt, start, solid, tail })
}

/// Whether a piece of base64 holds a JSON object that is the header of a token.
fn names_an_algorithm(encoded: &[u8]) -> bool {
    let whole = &encoded[..encoded.len() / 4 * 4];
    let decoded = DECODER.decode(whole).unwrap_or_default();
    [&b"\"alg\""[..], b"\"enc\"", b"\"kid\"", b"\"x5c\""]
        .iter()
        .any(|key| memchr::memmem::find(&decoded, key).is_some())
}
