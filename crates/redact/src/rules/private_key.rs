//! Private keys: the line that announces one, and the body behind it, which is masked as it goes.
//!
//! A body differs from other text by its words: lines of base64 are long, and what is between them is space, quotes,
//! escapes. A header that is only mentioned in a text has no such body, and then nothing is masked.

use crate::class::{BASE64, Class, DIGIT, SPACE};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What begins a key, for the prefilter.
pub(crate) const HINTS: &[&str] = &["-----BEGIN ", "---- BEGIN ", "Private-Lines:"];

/// Longest label of a key.
const LABEL: usize = 48;
static LABEL_BYTES: Class = Class::of(b"A-Z0-9 ");

/// The body of the key that is announced between `start` and `end`.
pub(crate) fn find(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::PrivateKey) {
        return None;
    }
    let body = if view.is(start, b"-----BEGIN ") {
        after_label(view, end, b"-----")?
    } else if view.is(start, b"---- BEGIN ") {
        after_label(view, end, b"----")?
    } else {
        let number = view.run(end, &SPACE, 4);
        let stop = view.run(number, &DIGIT, 4);
        (stop > number).then_some(stop)?
    };
    Some(Found::open(Rule::PrivateKey, body, Tail::KeyBody))
}

/// Behind the label of a private key and the dashes after it.
fn after_label(view: &View, from: usize, dashes: &[u8]) -> Option<usize> {
    let stop = view.run(from, &LABEL_BYTES, LABEL);
    let label = view.slice(from, stop).trim_ascii_end();
    let private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    (private && view.is(stop, dashes)).then_some(stop + dashes.len())
}

/// How a key begins that was put into base64 once more, as clusters keep it: `-----BEGI`.
pub(crate) const ENCODED: &str = "LS0tLS1CRUdJTi";
/// How much of it is decoded to know that it is private.
const ENCODED_LOOK: usize = 96;
static ENCODED_BODY: Class = Class::of(b"a-zA-Z0-9+/");
/// Lengths of lines into which tools break base64.
const ENCODED_LINES: [usize; 2] = [64, 76];

/// A private key in base64 that begins at `start`.
pub(crate) fn encoded(view: &View, start: usize, _end: usize) -> Option<Found> {
    if !view.rules().has(Rule::PrivateKey) || !view.is(start, ENCODED.as_bytes()) || !view.boundary(start) {
        return None;
    }
    // Without the padding, so that less of it decodes to less of the same.
    let stop = view.run(start, &ENCODED_BODY, ENCODED_LOOK);
    let whole = &view.slice(start, stop)[..(stop - start) / 4 * 4];
    let decoded = STANDARD.decode(whole).unwrap_or_default();
    let private = memchr::memmem::find(&decoded, b"PRIVATE KEY").is_some();
    let broken = ENCODED_LINES.contains(&(stop - start)) && view.at(stop).is_none_or(|byte| byte == b'\r');
    let tail = if broken { Tail::KeyBody } else { Tail::Class(&BASE64) };
    private.then(|| Found::open(Rule::PrivateKey, start, tail))
}

/// How much of a body must be seen to take the next step.
pub(crate) const STEP: usize = 384;
/// Shortest line of base64, but for the last.
const LINE: usize = 16;

/// What lines are made of.
pub(crate) static BODY: Class = Class::of(b"a-zA-Z0-9+/=_");
/// Headers that may come before the first line.
const HEADERS: &[&[u8]] =
    &[b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:", b"Charset:", b"MessageID:", b"Subject:"];

/// What comes next in a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line, which continues while bytes are of [`BODY`], and up to `solid` in any case.
    Line { start: usize, solid: usize },
    /// A header, which is text like any other.
    Header { end: usize },
    /// A mask in the place of the body.
    Masked { end: usize },
    /// The body is over, or there is none.
    Over,
}

/// What comes next in a body at `at`, where its `first` line is looked for or another, and how many bytes were looked at. It
/// looks at no more than [`STEP`] bytes; if there are fewer, the text ends there.
pub(crate) fn next(text: &[u8], at: usize, first: bool) -> (Next, usize) {
    let text = &text[..text.len().min(at + STEP)];
    let start = between(text, at);
    if first && let Some(end) = header_end(text, start) {
        return (Next::Header { end }, end - at);
    }
    if text[start..].starts_with(crate::MASK) {
        // A mask in the place of the first line is what this rule left, or another; behind it nothing is left to mask.
        let end = start + crate::MASK.len();
        return (if first { Next::Masked { end } } else { Next::Line { start, solid: end } }, end - at);
    }
    let stop = text[start..].iter().position(|byte| !BODY.has(*byte)).map_or(text.len(), |length| start + length);
    if stop - start >= LINE {
        return (Next::Line { start, solid: start }, stop - at);
    }
    let after = between(text, stop);
    let last = stop > start && (stop == text.len() || text[after..].starts_with(b"----"));
    // The names of headers are compared too.
    (if last { Next::Line { start, solid: start } } else { Next::Over }, after - at + HEADERS.len())
}

/// Where the next line may begin: behind space, quotes, escapes, the marks of a quotation or a patch, line numbers.
fn between(text: &[u8], at: usize) -> usize {
    let mut next = at;
    while next < text.len() {
        let rest = &text[next..];
        let second = rest.get(1).copied().unwrap_or(0);
        let length = match rest[0] {
            b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b',' | b'|' | b'>' | b'#' => 1,
            b'\\' if matches!(second, b'n' | b'r' | b't') => 2,
            b'\\' if matches!(second, b'\\' | b'\n' | b'\r') => 1,
            b'+' | b'.' if matches!(second, b' ' | b'\r' | b'\n' | b'"' | b'\'') => 1,
            b'-' if BODY.has(second) || second == crate::MASK[0] => 1,
            b'0'..=b'9' => line_number(rest),
            _ => 0,
        };
        if length == 0 {
            break;
        }
        next += length;
    }
    next
}

/// The length of a line number with what follows it.
fn line_number(text: &[u8]) -> usize {
    const DIGITS: usize = 6;
    let digits = text.iter().take(DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
    if matches!(text.get(digits), Some(b' ' | b'\t' | b':' | b'|')) { digits + 1 } else { 0 }
}

/// The end of the header at `at`: that of its line. One with a mask in it was longer, and may not have been seen to end.
fn header_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if !HEADERS.iter().any(|header| rest.starts_with(header)) {
        return None;
    }
    let end = memchr::memchr3(b'\n', b'\r', b'\\', rest)?;
    memchr::memmem::find(&rest[..end], crate::MASK).is_none().then_some(at + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(text: &str, first: bool) -> Option<usize> {
        match next(text.as_bytes(), 0, first).0 {
            Next::Line { start, .. } => Some(start),
            Next::Header { end } => start(&text[end..], first).map(|start| end + start),
            Next::Masked { .. } | Next::Over => None,
        }
    }

    #[test]
    fn lines_are_found_behind_what_stands_between() {
        for between in
            ["\n", "\r\n", " ", "\\n", "\\\\n", "\" +\n  \"", "\n> ", "\n  12  ", "\n-", "\nVersion: x y\n\n"]
        {
            let text = format!("{between}MIIEvQIBADANBgkq\n");
            assert_eq!(start(&text, true), Some(between.len()), "{between:?}");
        }
    }

    #[test]
    fn other_text_is_no_line() {
        for text in [" is how a key begins", "\") {\n", "\n\n-----END", "", "\n***\n", "\nshort line\n"] {
            assert_eq!(start(text, true), None, "{text:?}");
        }
    }

    #[test]
    fn the_last_line_may_be_short() {
        assert_eq!(start("\nab==\n-----END", false), Some(1));
        assert_eq!(start("\nab==", false), Some(1));
        assert_eq!(start("\nab== and more", false), None);
    }
}
