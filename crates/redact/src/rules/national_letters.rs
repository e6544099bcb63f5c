//! National ids with letters in them. Off unless named.

use crate::class::{Class, DIGIT, UPPER_ALNUM};
use crate::found::Found;
use crate::rules::{Rule, national};
use crate::view::View;

/// Where the id that begins there ends.
type End = fn(&View, usize) -> Option<usize>;

/// The id that begins at `at`, where a word begins.
pub(crate) fn find(view: &View, at: usize) -> Option<Found> {
    let kinds: &[(Rule, End)] = &[
        (Rule::UkNino, uk_nino),
        (Rule::InPan, in_pan),
        (Rule::EsDni, es_dni),
        (Rule::ItCodiceFiscale, it_codice_fiscale),
        (Rule::CnResidentId, cn_resident_id),
    ];
    let on = kinds.iter().filter(|(rule, _)| view.rules().has(*rule));
    on.filter_map(|(rule, end)| end(view, at).map(|end| Found::span(*rule, at, end))).next()
}

/// The word at `at`, if it has `length` capitals and digits.
fn word<'v>(view: &View<'v>, at: usize, length: usize) -> Option<&'v [u8]> {
    let stop = view.run(at, &UPPER_ALNUM, length + 1);
    (stop - at == length && is_end(view, stop)).then(|| view.slice(at, stop))
}

/// Whether an id may end at `at`. A mask stands for what may have continued the word: an id inside of an escape sequence
/// was not one before the number behind the sequence was masked.
fn is_end(view: &View, at: usize) -> bool {
    !view.word_at(at) && !view.is(at, crate::MASK)
}

/// Whether the bytes are letters (`A`) and digits (`0`) as in `pattern`.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let fits = |(byte, kind): (&u8, &u8)| if *kind == b'A' { byte.is_ascii_uppercase() } else { byte.is_ascii_digit() };
    text.len() == pattern.len() && text.iter().zip(pattern).all(fits)
}

static NINO_FIRST: Class = Class::of(b"A-CEGHJ-PR-TW-Z");
static NINO_SECOND: Class = Class::of(b"A-CEGHJ-NPR-TW-Z");

/// Two letters, six digits, a letter from A to D; together or in pairs.
fn uk_nino(view: &View, at: usize) -> Option<usize> {
    let mut text = [0; 9];
    let mut from = at;
    for (index, place) in text.iter_mut().enumerate() {
        if index > 0 && index % 2 == 0 && view.at(from) == Some(b' ') {
            from += 1;
        }
        *place = view.at(from)?;
        from += 1;
    }
    let refused: &[&[u8]] = &[b"BG", b"GB", b"NK", b"KN", b"TN", b"NT", b"ZZ"];
    let letters = NINO_FIRST.has(text[0]) && NINO_SECOND.has(text[1]) && !refused.contains(&&text[..2]);
    let fits = letters && is_like(&text, b"AA000000A") && text[8] <= b'D';
    (fits && is_end(view, from)).then_some(from)
}

fn in_pan(view: &View, at: usize) -> Option<usize> {
    let text = word(view, at, 10)?;
    (is_like(text, b"AAAAA0000A") && b"ABCFGHJLPT".contains(&text[3])).then_some(at + 10)
}

/// Eight digits and a letter, or seven between two letters; the last letter is the remainder by 23.
fn es_dni(view: &View, at: usize) -> Option<usize> {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let text = word(view, at, 9)?;
    let first = match text[0] {
        letter @ b'X'..=b'Z' => letter - b'X',
        digit => digit.wrapping_sub(b'0'),
    };
    let rest = is_like(&text[1..], b"0000000A") && first < 10;
    let number =
        text[1..8].iter().fold(usize::from(first), |sum, digit| sum * 10 + usize::from(digit.wrapping_sub(b'0')));
    (rest && LETTERS[number % 23] == text[8]).then_some(at + 9)
}

/// Sixteen letters and digits with a check letter.
fn it_codice_fiscale(view: &View, at: usize) -> Option<usize> {
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let text = word(view, at, 16)?;
    if !is_like(text, b"AAAAAA00A00A000A") {
        return None;
    }
    let value = |byte: u8| u32::from(if byte.is_ascii_digit() { byte - b'0' } else { byte - b'A' });
    let weight = |(index, byte): (usize, &u8)| {
        let value = value(*byte);
        if index % 2 == 0 { ODD[value as usize] } else { value }
    };
    let sum: u32 = text[..15].iter().enumerate().map(weight).sum();
    (sum % 26 == value(text[15])).then_some(at + 16)
}

/// Seventeen digits and an X.
fn cn_resident_id(view: &View, at: usize) -> Option<usize> {
    let stop = view.run(at, &DIGIT, 18);
    if stop - at != 17 || !matches!(view.at(stop), Some(b'X' | b'x')) || !is_end(view, stop + 1) {
        return None;
    }
    let mut digits = [10; 18];
    view.slice(at, stop).iter().zip(&mut digits).for_each(|(byte, digit)| *digit = byte - b'0');
    national::cn_resident_id(&digits).then_some(stop + 1)
}
