//! Values given at run time: registered secrets, and the values of variables whose names look secret. They are masked
//! wherever they stand, before any rule looks at the text.

use crate::config::ConfigError;
use crate::names::Quick;
use crate::variants;
use aho_corasick::{AhoCorasick, Input, MatchKind};
use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::ops::Range;

/// Shortest value that is masked; a shorter one would be found everywhere.
const SHORTEST: usize = 6;
/// Shortest encoded form of a value.
const SHORTEST_FORM: usize = 8;
/// Longer values are looked for piece by piece.
const PIECE: usize = 256;
/// Longest piece: a piece and the rest behind it.
pub(crate) const LONGEST: usize = 2 * PIECE - 1;
/// Most bytes of values that nobody registered, such as those of variables with secret names: a command chooses how many
/// there are, and to look for a byte of one takes some thirty bytes of memory.
pub const MOST_FOUND: usize = 512 << 10;
/// Of those, the shortest are looked for in all forms while they have this many bytes together, and the others only as they
/// are: all forms of a value are about thirty times as long as it is. Keys and tokens are short, and hundreds of them fit.
pub const ALL_FORMS: usize = 8 << 10;
/// Progress worth a round when a line has no end yet.
const ROUND: usize = 512;
/// The most text that is held back.
pub(crate) const HELD: usize = LONGEST + ROUND;

/// Values that are common and tell nothing.
const COMMON: &[&str] = &[
    "localhost",
    "password",
    "changeme",
    "example",
    "default",
    "disabled",
    "enabled",
    "development",
    "production",
    "staging",
    "testing",
    "username",
    "undefined",
    "unknown",
    "secret",
    "private",
    "public",
    "admin123",
    "letmein",
    "qwerty",
    "foobar",
    "string",
    "object",
    "number",
    "boolean",
    "integer",
    "0.0.0.0",
    "127.0.0.1",
    "postgres",
    "mysql",
    "sqlite",
    "application",
    "github",
    "gitlab",
    "docker",
    "ubuntu",
    "debian",
    "python",
    "nodejs",
    "windows",
    "master",
    "develop",
    "release",
    "latest",
    "stable",
    "always",
    "required",
    "optional",
    "anonymous",
    "nobody",
    "notset",
    "not-set",
    "http://",
    "https://",
    "/dev/null",
    "bearer",
    "digest",
    "placeholder",
    "redacted",
];

/// Why a value given at run time is not masked. As text, a sentence about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmaskable {
    /// It is shorter than six bytes.
    Short,
    /// It has several parts, and each of them is.
    ShortParts,
    /// A word that tells nothing.
    CommonWord,
    /// `aaaaaa`, `123456`, `987654`.
    Series,
    /// The first or last line of a key.
    KeyFrame,
}

impl Unmaskable {
    /// Whether it could be masked, and would mask much else.
    pub fn is_only_common(self) -> bool {
        !matches!(self, Self::Short | Self::ShortParts)
    }
}

impl fmt::Display for Unmaskable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it is shorter than 6 bytes",
            Self::ShortParts => "each of its lines, or of its parts between stars, is shorter than 6 bytes",
            Self::CommonWord => "it is a common word",
            Self::Series => "its characters repeat or follow each other, as in aaaaaa or 123456",
            Self::KeyFrame => "it is the line before or after a key, and not the key",
        })
    }
}

/// Whether a value given at run time can be masked: not if it is shorter than six bytes or so common that every text would
/// be full of masks.
pub fn is_maskable(value: &[u8]) -> bool {
    pieces(value, Taken::Telling).next().is_some()
}

/// Why a value given at run time is not masked; `None` if it is.
pub fn why_not_maskable(value: &[u8]) -> Option<Unmaskable> {
    if is_maskable(value) {
        return None;
    }
    Some(match pieces(value, Taken::All).find_map(common) {
        Some(why) => why,
        None if value.trim_ascii().len() < SHORTEST => Unmaskable::Short,
        None => Unmaskable::ShortParts,
    })
}

/// Every text that is looked for to find these values: what they are, line by line, and their encoded forms. For those who
/// look themselves; a text has at least six bytes, and a long value is cut into several.
pub fn forms_of<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Vec<Vec<u8>> {
    forms(values, Taken::Telling)
}

fn forms<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>, taken: Taken) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = values.into_iter().flat_map(|value| needles_of(value.as_ref(), taken)).collect();
    forms.sort();
    forms.dedup();
    forms
}

/// The same for values that nobody registered. An error if they are more than can be looked for.
fn forms_of_found<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Result<Vec<Vec<u8>>, ConfigError> {
    let mut values: Vec<V> = values.into_iter().filter(|value| is_maskable(value.as_ref())).collect();
    let bytes: usize = values.iter().map(|value| value.as_ref().len()).sum();
    if bytes > MOST_FOUND {
        return Err(ConfigError::TooManyValues { bytes, most: MOST_FOUND });
    }
    values.sort_by_key(|value| value.as_ref().len());
    let mut so_far = 0;
    let forms = values.iter().flat_map(|value| {
        let value: &[u8] = value.as_ref();
        so_far += value.len();
        match so_far <= ALL_FORMS {
            true => needles_of(value, Taken::Telling),
            false => pieces(value, Taken::Telling).flat_map(in_pieces).collect(),
        }
    });
    Ok(forms.collect())
}

/// Which values are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Those that tell something.
    Telling,
    /// All that are long enough, also common ones.
    All,
}

/// The parts of a value that are looked for: its lines, without what a mask could be mistaken for.
fn pieces(value: &[u8], taken: Taken) -> impl Iterator<Item = &[u8]> {
    let lines = value.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii);
    let is_taken = move |piece: &&[u8]| piece.len() >= SHORTEST && (taken == Taken::All || common(piece).is_none());
    lines.flat_map(without_stars).filter(is_taken)
}

/// The parts of a line between masks. A value that held a mask, or began with a star, would be found where there is none
/// once something beside it was masked.
fn without_stars(line: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(at) = memchr::memmem::find(rest, crate::MASK) {
        parts.push(&rest[..at]);
        rest = &rest[at + crate::MASK.len()..];
    }
    parts.push(rest);
    parts.into_iter().map(trim_stars).collect()
}

fn trim_stars(part: &[u8]) -> &[u8] {
    let start = part.iter().position(|byte| *byte != b'*').unwrap_or(part.len());
    let end = part.iter().rposition(|byte| *byte != b'*').map_or(start, |at| at + 1);
    &part[start..end]
}

/// What makes a piece tell nothing.
fn common(piece: &[u8]) -> Option<Unmaskable> {
    let is_known = COMMON.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(piece));
    let is_even = piece.windows(3).all(|three| three[1].wrapping_sub(three[0]) == three[2].wrapping_sub(three[1]));
    match () {
        () if is_known => Some(Unmaskable::CommonWord),
        () if is_even => Some(Unmaskable::Series),
        () if piece.starts_with(b"-----") => Some(Unmaskable::KeyFrame),
        () => None,
    }
}

/// What is masked before any rule looks at the text.
#[derive(Debug)]
pub(crate) enum Secrets {
    /// These values.
    Values(Values),
    /// Everything between line breaks: there are more values than can be looked for.
    Everything,
}

/// Values to look for.
#[derive(Debug)]
pub(crate) struct Values {
    automaton: AhoCorasick,
    beginnings: Beginnings,
    /// What is looked for, in order.
    needles: Vec<Vec<u8>>,
}

impl Secrets {
    /// Makes ready to look for values that somebody registered, and for others; nothing if none of them can be masked.
    pub(crate) fn new<V: AsRef<[u8]>, F: AsRef<[u8]>>(
        registered: impl IntoIterator<Item = V>,
        taken: Taken,
        found: impl IntoIterator<Item = F>,
    ) -> Result<Option<Self>, ConfigError> {
        let mut needles = forms(registered, taken);
        needles.extend(forms_of_found(found)?);
        needles.sort();
        needles.dedup();
        if needles.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&needles)
            .map_err(|error| ConfigError::TooLarge { detail: error.to_string() })?;
        Ok(Some(Self::Values(Values { automaton, beginnings: Beginnings::new(&needles), needles })))
    }

    /// How many bytes at the end of a text may be the beginning of a value.
    pub(crate) fn begun(&self, text: &[u8]) -> usize {
        match self {
            Self::Values(values) => values.begun(text),
            Self::Everything => 0,
        }
    }

    /// The first thing to mask that begins in `range`.
    fn find(&self, text: &[u8], range: Range<usize>, looked: &mut u64) -> Option<Range<usize>> {
        match self {
            Self::Values(values) => values.find(text, range, looked),
            Self::Everything => line(text, range),
        }
    }
}

/// The first line that begins in `range`, or goes on there, without its end.
fn line(text: &[u8], range: Range<usize>) -> Option<Range<usize>> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let start = range.start + text.get(range)?.iter().position(|byte| !is_end(byte))?;
    let end = text[start..].iter().position(is_end).map_or(text.len(), |length| start + length);
    Some(start..end)
}

impl Values {
    /// How many bytes at the end of a text may be the beginning of a value.
    fn begun(&self, text: &[u8]) -> usize {
        let is_beginning = |end: &[u8]| {
            let place = self.needles.partition_point(|needle| needle.as_slice() < end);
            self.needles.get(place).is_some_and(|needle| needle.starts_with(end))
        };
        let most = text.len().min(LONGEST);
        (1..=most).rev().find(|length| is_beginning(&text[text.len() - length..])).unwrap_or(0)
    }

    /// The first value that begins in `range`, the longest of those that begin at the same place.
    fn find(&self, text: &[u8], range: Range<usize>, looked: &mut u64) -> Option<Range<usize>> {
        let mut from = range.start;
        while let Some(at) = self.beginnings.next(text, from..range.end) {
            // Where the text is like the beginning of a value, a stretch of it is looked through for all of them. What begins
            // near the end of the stretch may continue behind it, and is looked at with the next.
            let stretch = text.len().min(at + STRETCH);
            let sure = if stretch == text.len() { stretch } else { stretch - LONGEST };
            let found = self.automaton.find(Input::new(text).range(at..stretch));
            *looked += (found.map_or(stretch, |found| found.end()) - at) as u64;
            if let Some(found) = found.filter(|found| found.start() < sure) {
                return (found.start() < range.end).then(|| found.range());
            }
            from = sure;
        }
        None
    }
}

/// How the values begin: a table that says of most places of a text that none begins there.
#[derive(Debug)]
struct Beginnings {
    /// A bit for each hash of four bytes.
    table: Box<[u64; TABLE / 64]>,
    /// The first bytes of each, as a number.
    exact: HashSet<u64, BuildHasherDefault<Quick>>,
}

/// Bits of the table; it fits into the nearest cache.
const TABLE: usize = 1 << 17;
/// How much text is looked through for all values at a time.
const STRETCH: usize = 4 * LONGEST;

impl Beginnings {
    fn new(needles: &[Vec<u8>]) -> Self {
        let mut table = Box::new([0; TABLE / 64]);
        let mut exact = HashSet::default();
        for needle in needles {
            if let (Some(four), Some(six)) = (four(needle), six(needle)) {
                table[four / 64] |= 1 << (four % 64);
                exact.insert(six);
            }
        }
        Self { table, exact }
    }

    /// The first place in `range` at which a value may begin.
    fn next(&self, text: &[u8], range: Range<usize>) -> Option<usize> {
        let places = text.get(range.clone())?.len();
        let windows = text[range.start..].windows(4).take(places);
        windows.enumerate().find_map(|(n, window)| {
            let at = range.start + n;
            let hash = four(window)?;
            let may = self.table[hash / 64] & (1 << (hash % 64)) != 0;
            (may && six(&text[at..]).is_some_and(|six| self.exact.contains(&six))).then_some(at)
        })
    }
}

/// A hash of the first four bytes.
#[inline]
fn four(text: &[u8]) -> Option<usize> {
    let four = u32::from_le_bytes(*text.first_chunk()?);
    Some((four.wrapping_mul(0x9e37_79b1) >> (32 - TABLE.trailing_zeros())) as usize)
}

/// The first six bytes, which every value has.
fn six(text: &[u8]) -> Option<u64> {
    let first: &[u8; SHORTEST] = text.first_chunk()?;
    Some(first.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Everything that is looked for to find one value.
fn needles_of(value: &[u8], taken: Taken) -> Vec<Vec<u8>> {
    let whole = value.trim_ascii();
    let several = whole.contains(&b'\n');
    // A value of several lines is found line by line, but in base64 it is one.
    let is_whole = several && pieces(whole, taken).next().is_some();
    let encoded = if is_whole { variants::all(whole) } else { Vec::new() };
    let encoded = encoded.into_iter().filter(|form| !form.contains(&b'\n'));
    let lines = pieces(value, taken).flat_map(|piece| {
        let forms = variants::all(piece).into_iter();
        forms.filter(move |form| form == piece || form.len() >= SHORTEST_FORM)
    });
    let forms: Vec<Vec<u8>> = lines.chain(encoded).collect();
    let kept = forms.iter().flat_map(|form| without_stars(form)).filter(|form| form.len() >= SHORTEST);
    kept.flat_map(in_pieces).collect()
}

/// Pieces of a long value, so that little text is held back to find it.
fn in_pieces(value: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while rest.len() > LONGEST {
        let cut = (PIECE..PIECE + 4).find(|at| rest[*at] & 0xc0 != 0x80).unwrap_or(PIECE);
        pieces.push(rest[..cut].to_vec());
        rest = &rest[cut..];
    }
    pieces.push(rest.to_vec());
    pieces
}

/// A value that was masked: the position of its mask in the result, and its original position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) mask: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The search for values, between two pieces of text.
#[derive(Default)]
pub(crate) struct Filter {
    text: Vec<u8>,
    /// Up to here the text was passed.
    pos: usize,
    /// Where `text` begins in the whole, and how long the result is.
    base: u64,
    written: u64,
    /// Behind the last line break.
    lines: usize,
    /// The end of the last value, in the whole.
    last: Option<u64>,
    looked: u64,
}

impl Filter {
    /// Takes more text and gives it with the values masked. With `last`, there is no more after it.
    pub(crate) fn feed(
        &mut self,
        secrets: &Secrets,
        bytes: &[u8],
        last: bool,
        out: &mut Vec<u8>,
        edits: &mut Vec<Edit>,
    ) {
        if let Some(at) = memchr::memrchr(b'\n', bytes) {
            self.lines = self.text.len() + at + 1;
        }
        self.text.extend_from_slice(bytes);
        let far = self.text.len().saturating_sub(LONGEST);
        let ready = match () {
            () if last => self.text.len(),
            () if far >= self.pos + ROUND => far.max(self.lines),
            () => self.lines,
        };
        while self.pos < ready {
            let found = secrets.find(&self.text, self.pos..ready, &mut self.looked);
            self.write(found.as_ref().map_or(ready, |found| found.start), out);
            if let Some(found) = found {
                self.mask(found.end, out, edits);
            }
        }
        let passed = self.pos;
        self.text.drain(..passed);
        self.base += passed as u64;
        (self.pos, self.lines) = (0, self.lines.saturating_sub(passed));
    }

    /// How much text is here and not given out.
    pub(crate) fn held(&self) -> usize {
        self.text.len()
    }

    /// How many bytes were looked at because a value might begin there.
    pub(crate) fn looked(&self) -> u64 {
        self.looked
    }

    fn write(&mut self, to: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text[self.pos..to]);
        self.written += (to - self.pos) as u64;
        self.pos = to;
    }

    /// Masks up to `end`. Values side by side, and the pieces of a long one, have one mask.
    fn mask(&mut self, end: usize, out: &mut Vec<u8>, edits: &mut Vec<Edit>) {
        let (start, end_in_whole) = (self.base + self.pos as u64, self.base + end as u64);
        match edits.last_mut() {
            Some(edit) if self.last == Some(start) => edit.end = end_in_whole,
            _ if self.last == Some(start) => {}
            _ => {
                edits.push(Edit { mask: self.written, start, end: end_in_whole });
                out.extend_from_slice(crate::MASK);
                self.written += crate::MASK.len() as u64;
            }
        }
        self.last = Some(end_in_whole);
        self.pos = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_common_values_are_not_taken() {
        for value in [
            "",
            "abc",
            "12345",
            "true",
            "localhost",
            "aaaaaaaa",
            "123456",
            "Password",
            "-----BEGIN PRIVATE KEY-----",
            "******",
        ] {
            assert!(!is_maskable(value.as_bytes()), "{value}");
        }
        for value in ["hunter2!", "correct horse", "short\nlonger line", "112233"] {
            assert!(is_maskable(value.as_bytes()), "{value}");
        }
    }

    /// `abcdefghijk` and `aaaaaaaa` were refused as shorter than 6 bytes or a common word, which they are not.
    #[test]
    fn the_reason_is_the_real_one() {
        for (value, why) in [
            ("abc", Unmaskable::Short),
            ("  abc  ", Unmaskable::Short),
            ("abc\ndef\nghi", Unmaskable::ShortParts),
            ("******", Unmaskable::ShortParts),
            ("Password", Unmaskable::CommonWord),
            ("abcdefghijk", Unmaskable::Series),
            ("aaaaaaaa", Unmaskable::Series),
            ("123456", Unmaskable::Series),
            ("-----BEGIN PRIVATE KEY-----", Unmaskable::KeyFrame),
        ] {
            assert_eq!(why_not_maskable(value.as_bytes()), Some(why), "{value}");
            assert_eq!(forms([value], Taken::All).is_empty(), !why.is_only_common(), "{value}");
        }
        assert_eq!(why_not_maskable(b"hunter2!"), None);
    }

    #[test]
    fn stars_do_not_begin_or_part_a_value() {
        let parts = |value: &'static str| without_stars(value.as_bytes());
        assert_eq!(parts("**abcdef*"), [b"abcdef"]);
        assert_eq!(parts("abc*def"), [b"abc*def"]);
        assert_eq!(parts("abcdef****ghijkl"), [&b"abcdef"[..], b"ghijkl"]);
    }

    #[test]
    fn long_values_are_cut_between_letters() {
        let long = "ä".repeat(1000);
        let pieces = in_pieces(long.as_bytes());
        assert!(pieces.iter().all(|piece| piece.len() <= LONGEST && std::str::from_utf8(piece).is_ok()));
        assert_eq!(pieces.concat(), long.as_bytes());
    }
}
