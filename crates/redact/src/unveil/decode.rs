//! Reading what hides a text: colours within it, base64, hex digits, the rows of a dump. Each is recognised by looking at
//! few bytes, because nearly no text hides anything.

use crate::MASK;
use crate::class::{Class, WORD};

/// What base64 is written with, in either alphabet, without the signs that fill up its end.
pub(super) static BASE64: Class = Class::of(b"A-Za-z0-9+/_-");

/// Longest row of a dump: 16 bytes in hex digits and as letters, and an offset.
pub(super) const LONGEST_ROW: usize = 128;
/// Digits of the offset in front of a row. A number of fewer is any number.
const OFFSET_DIGITS: std::ops::RangeInclusive<usize> = 6..=16;
/// Bytes of a row.
const ROW_BYTES: usize = 16;
/// Shortest run that is decoded: fewer bytes hold no token.
pub(super) const SHORTEST_RUN: usize = 24;
/// How many of the first bytes must be text. Of random bytes, one in five thousand is.
const FIRST_BYTES: usize = 9;

/// How the frame of a key begins in base64. Such a key has a rule of its own.
const FRAME: &[u8] = b"LS0tLS1";

/// A line without its escape sequences, and where each of its bytes was.
pub(super) struct Stripped {
    pub(super) text: Vec<u8>,
    pub(super) places: Vec<usize>,
}

/// The line without escape sequences, if one stands within something that is not a blank.
pub(super) fn strip(line: &[u8]) -> Option<Stripped> {
    memchr::memchr(ESCAPE, line)?;
    // How long the line was before something in it was masked is not known, and with that not whether it was looked at.
    if memchr::memmem::find(line, MASK).is_some() {
        return None;
    }
    let (mut text, mut places) = (Vec::with_capacity(line.len()), Vec::with_capacity(line.len()));
    let (mut at, mut splits) = (0, false);
    while at < line.len() {
        match escape(&line[at..]) {
            0 => {
                text.push(line[at]);
                places.push(at);
                at += 1;
            }
            length => {
                at += length;
                let goes_on = line.get(at).is_some_and(|byte| *byte > b' ' && *byte != ESCAPE);
                splits |= goes_on && text.last().is_some_and(|byte| *byte > b' ');
            }
        }
    }
    splits.then_some(Stripped { text, places })
}

const ESCAPE: u8 = 0x1b;
/// Longest escape sequence.
const LONGEST_ESCAPE: usize = 24;

/// The length of the escape sequence that begins here: `ESC [ 31 m` and the like. Not by `vte`: masks are placed by byte
/// offsets in the original text, which its parser does not report.
fn escape(text: &[u8]) -> usize {
    let Some((&ESCAPE, rest)) = text.split_first() else { return 0 };
    let Some((b'[', rest)) = rest.split_first() else { return 0 };
    // No sign that a mask has: a mask must not become part of a sequence.
    let is_parameter = |byte: &&u8| matches!(byte, b'0'..=b';' | b'?');
    let parameters = rest.iter().take(LONGEST_ESCAPE).take_while(is_parameter).count();
    match rest.get(parameters) {
        Some(0x40..=0x7e) => parameters + 3,
        _ => 0,
    }
}

/// The text that a run of base64 or hex digits hides, if it looks like text.
pub(super) fn run(run: &[u8]) -> Option<Vec<u8>> {
    let hex = run.len().is_multiple_of(2) && run.iter().all(u8::is_ascii_hexdigit);
    let from_hex =
        || hex.then(|| run.chunks_exact(2).filter_map(pair).collect()).filter(|text: &Vec<u8>| is_text(text));
    from_hex().or_else(|| base64(run))
}

/// The text that base64 hides, if it looks like text.
pub(super) fn base64(run: &[u8]) -> Option<Vec<u8>> {
    let beginning = decode(run.get(..FIRST_BYTES / 3 * 4)?);
    let is_hidden = is_text(&beginning) && !run.starts_with(FRAME);
    is_hidden.then(|| decode(run))
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() >= FIRST_BYTES
        && bytes[..FIRST_BYTES].iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

fn decode(run: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(run.len() / 4 * 3 + 2);
    for four in run.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, byte| bits << 6 | u32::from(value(*byte))) << (6 * (4 - four.len()));
        let [_, first, second, third] = bits.to_be_bytes();
        out.extend_from_slice(&[first, second, third][..four.len() * 6 / 8]);
    }
    out
}

fn value(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        _ => 63,
    }
}

fn pair(two: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    Some(digit(two.first()?)? << 4 | digit(two.get(1)?)?)
}

/// The first run at or after `from` that is long enough to be decoded and not longer than `most`: where it begins and ends.
/// A run that touches a mask is passed over: what it was before is not known. `before` is before the text.
pub(super) fn next_run(text: &[u8], from: usize, most: usize, before: Option<u8>) -> Option<(usize, usize)> {
    // A run that is long enough has a byte at one of these places.
    let mut probe = from + SHORTEST_RUN - 1;
    while let Some(byte) = text.get(probe) {
        if !BASE64.has(*byte) {
            probe += SHORTEST_RUN;
            continue;
        }
        let start = text[from..probe].iter().rposition(|byte| !BASE64.has(*byte)).map_or(from, |at| from + at + 1);
        let end = text[probe..].iter().position(|byte| !BASE64.has(*byte)).map_or(text.len(), |at| probe + at);
        let previous = start.checked_sub(1).map_or(before, |at| text.get(at).copied());
        let touches = previous == Some(b'*') || text.get(end) == Some(&b'*');
        if (SHORTEST_RUN..=most).contains(&(end - start)) && !touches {
            return Some((start, end));
        }
        probe = end + SHORTEST_RUN;
    }
    None
}

/// Where the run at the end of the text begins, with the signs that may fill it up: it may continue.
pub(super) fn open_run(text: &[u8]) -> usize {
    let filled = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let run = text[..text.len() - filled].iter().rev().take_while(|byte| BASE64.has(**byte)).count();
    text.len() - filled - run
}

/// A row of a dump as `hexdump -C`, `xxd` and `od -t x1` write it: where its digits begin, and its bytes.
pub(super) fn dump_row(line: &[u8]) -> Option<(usize, Vec<u8>)> {
    let is_masked = || memchr::memmem::find(line, MASK).is_some();
    if line.len() > LONGEST_ROW || !line.first()?.is_ascii_hexdigit() || is_masked() {
        return None;
    }
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let colon = usize::from(line.get(digits) == Some(&b':'));
    let start = digits + colon + line[digits + colon..].iter().take_while(|byte| **byte == b' ').count();
    if !OFFSET_DIGITS.contains(&digits) || start == digits + colon || start > digits + colon + 2 {
        return None;
    }
    let (mut at, mut bytes) = (start, Vec::new());
    while bytes.len() < ROW_BYTES {
        let Some(byte) = line.get(at..at + 2).and_then(pair) else { break };
        bytes.push(byte);
        at += 2;
        let gap = line[at..].iter().take_while(|byte| **byte == b' ').count();
        if gap > 2 {
            break;
        }
        at += gap;
    }
    // A group that is not whole, or a word that begins like one, is no row; nor what may have been one before it was masked.
    let is_clean = match line.get(at) {
        None => true,
        Some(b'*') => false,
        Some(byte) => !WORD.has(*byte) || bytes.len() == ROW_BYTES || line[at - 1] == b' ',
    };
    (is_clean && !bytes.is_empty()).then_some((start, bytes))
}

/// Whether a line is nothing but base64, as tools break it into lines; its digits without what fills up the end.
pub(super) fn base64_row(line: &[u8], is_first: bool) -> Option<&[u8]> {
    /// Lines of a text that was broken have 64 or 76 letters.
    const FIRST_ROW: usize = 60;
    let bare = line.strip_suffix(b"==").or_else(|| line.strip_suffix(b"=")).unwrap_or(line);
    let least = if is_first { FIRST_ROW } else { 2 };
    let is_row = line.len() <= LONGEST_ROW && line.len() >= least && (!is_first || line.len().is_multiple_of(4));
    (is_row && bare.iter().all(|byte| BASE64.has(*byte))).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_dumps_are_read() {
        let rows = [
            "00000000  67 68 70 5f 61 62 63 64  65 66 67 68 69 6a 6b 6c  |ghp_abcdefghijkl|",
            "00000000: 6768 705f 6162 6364 6566 6768 696a 6b6c  ghp_abcdefghijkl",
            "000000 67 68 70 5f 61 62 63 64 65 66 67 68 69 6a 6b 6c",
        ];
        for row in rows {
            assert_eq!(dump_row(row.as_bytes()).unwrap().1, b"ghp_abcdefghijkl", "{row}");
        }
        assert_eq!(dump_row(b"00000010  6d 6e 0a                                          |mn.|").unwrap().1, b"mn\n");
        assert_eq!(dump_row(b"00000010: 6d6e 0a                                  mn.").unwrap().1, b"mn\n");
        for line in ["00000010", "deadbeef is a number", "12:30 meeting", "cafe  latte", "1234"] {
            assert!(dump_row(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn colours_within_words_are_taken_off() {
        let stripped = strip(b"a\x1b[01;31m\x1b[Kbc\x1b[m\x1b[Kd").unwrap();
        assert_eq!((stripped.text.as_slice(), stripped.places.as_slice()), (&b"abcd"[..], &[0, 12, 13, 20][..]));
        assert!(strip(b"\x1b[31mred\x1b[0m and plain").is_none(), "nothing is split");
        assert!(strip(b"plain").is_none());
    }

    #[test]
    fn runs_are_found_and_decoded() {
        let line = b"key: Z2hwX2FiY2RlZmdoaWprbG1ub3A= rest";
        let (start, end) = next_run(line, 0, 100, None).unwrap();
        assert_eq!(run(&line[start..end]).unwrap(), b"ghp_abcdefghijklmnop");
        assert!(next_run(line, end, 100, None).is_none());
        assert!(run(b"d2f1a9c04b7e8d3f5a6b1c2d3e4f5061").is_none(), "a hash is no text");
        assert_eq!(run(b"6768705f6162636465666768696a6b6c").unwrap(), b"ghp_abcdefghijkl");
    }
}
