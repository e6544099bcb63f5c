//! A piece of a text, with its secrets masked as they are in the whole text: what a mask covers is never shown in part,
//! wherever the piece begins and ends.

use shellkeep_redact::{MASK, Redactor, Stream};
use std::ops::Range;

/// How much of the text before and behind a piece is looked at: more than a rule looks at, and than a private key has.
pub const AROUND: usize = 32 << 10;
const _: () = assert!(AROUND > Stream::MAX_HELD, "a line that is too long to wait for is not known as such");

/// What masks a text that is read piece by piece.
pub struct PieceMask {
    pub redactor: Redactor,
    /// Where the text that is kept begins. If that is not 0, its first line is only the rest of one.
    pub first: u64,
}

/// A piece of a text as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub bytes: Vec<u8>,
    /// Where in the text it ends: before a secret that the end of the piece would cut, which is left to the next one.
    pub end: usize,
}

/// Masks a piece of a text. If the text `is_torn`, it begins within a line: a secret in the rest of that line cannot be
/// recognised, so all of it is masked.
pub fn show(redactor: &Redactor, text: &[u8], piece: Range<usize>, is_torn: bool) -> Shown {
    if piece.is_empty() {
        return Shown { bytes: Vec::new(), end: piece.end };
    }
    let masks = masks(redactor, text, is_torn);
    let cut = masks.iter().find(|mask| mask.start < piece.end && piece.end < mask.end);
    let end = match cut {
        Some(cut) if cut.start > piece.start => cut.start,
        Some(cut) => cut.end,
        None => piece.end,
    };
    let (mut bytes, mut from) = (Vec::new(), piece.start);
    for mask in masks.iter().filter(|mask| mask.start < end && piece.start < mask.end) {
        bytes.extend_from_slice(text.get(from..mask.start).unwrap_or_default());
        bytes.extend_from_slice(MASK);
        from = mask.end;
    }
    bytes.extend_from_slice(text.get(from..end).unwrap_or_default());
    Shown { bytes, end }
}

/// What is masked, in order; no two overlap.
fn masks(redactor: &Redactor, text: &[u8], is_torn: bool) -> Vec<Range<usize>> {
    let rest_of_line = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let torn = Some(0..rest_of_line).filter(|rest| is_torn && !rest.is_empty());
    let found = redactor.find(text).into_iter().map(|finding| finding.range);
    let mut masks: Vec<Range<usize>> = Vec::new();
    for next in torn.into_iter().chain(found) {
        match masks.last_mut() {
            Some(last) if next.start < last.end => last.end = last.end.max(next.end),
            _ => masks.push(next),
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"one horse-battery two\nthree horse-battery four\n";

    fn redactor() -> Redactor {
        Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap()
    }

    fn shown(text: &[u8], piece: Range<usize>, is_torn: bool) -> (String, usize) {
        let Shown { bytes, end } = show(&redactor(), text, piece, is_torn);
        (String::from_utf8(bytes).unwrap(), end)
    }

    /// Each page was masked by itself: one that ended within a secret showed its head, and the next one its rest.
    #[test]
    fn pages_of_any_length_show_no_part_of_a_secret_and_join_to_the_masked_text() {
        let whole = redactor().redact_str(std::str::from_utf8(TEXT).unwrap());
        for length in 1..TEXT.len() {
            let (mut joined, mut at) = (String::new(), 0);
            while at < TEXT.len() {
                let (text, end) = shown(TEXT, at..TEXT.len().min(at + length), false);
                assert!(end > at && !text.is_empty(), "{length} at {at}");
                joined.push_str(&text);
                at = end;
            }
            assert_eq!(joined, whole, "{length}");
        }
    }

    #[test]
    fn a_piece_that_begins_within_a_secret_begins_with_its_mask() {
        for start in 4..17 {
            assert_eq!(shown(TEXT, start..21, false), ("*** two".to_owned(), 21), "{start}");
        }
        assert_eq!(shown(TEXT, 17..21, false), (" two".to_owned(), 21));
        assert_eq!(shown(TEXT, 6..9, false), ("***".to_owned(), 17), "all of the piece is in it");
        assert_eq!(shown(TEXT, 6..6, false), (String::new(), 6));
    }

    #[test]
    fn the_rest_of_a_line_whose_beginning_is_gone_is_masked() {
        assert_eq!(shown(&TEXT[9..], 0..20, true), ("***\nthree ".to_owned(), 19));
        assert_eq!(shown(b"battery", 0..7, true), ("***".to_owned(), 7));
        assert_eq!(shown(b"\nplain\n", 0..7, true), ("\nplain\n".to_owned(), 7));
    }
}
