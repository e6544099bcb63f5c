//! Numbers: groups of digits with separators between them. They may be cards, telephone numbers or national ids. Dates, versions, addresses and counters look much the same, so each kind asks for more than a length.

use crate::class::DIGIT;
use crate::found::Found;
use crate::rules::groups::{Groups, LONGEST};
use crate::rules::{card, national, phone};
use crate::view::View;

/// Fewest digits of any number that is masked.
const FEWEST: usize = 7;

/// A number that begins with the digit at `at`, where a word begins.
pub(crate) fn find(view: &View, at: usize) -> Option<Found> {
    if !may_stand_alone(view, at) && !phone::is_named(view, at) {
        return None;
    }
    let groups = Groups::read(view, at);
    let digits: usize = (0..groups.count()).map(|group| groups.length(group)).sum();
    if digits < FEWEST {
        return None;
    }
    card::find(view, &groups).or_else(|| national::find(view, &groups)).or_else(|| phone::find(view, &groups))
}

/// Whether a number that has begun earlier continues at `at` with another group: a date, a version, a fraction.
#[inline]
pub(crate) fn goes_on(text: &[u8], floor: usize, at: usize) -> bool {
    at >= floor + 2
        && matches!(text[at - 1], b'.' | b'-' | b'_')
        && text[at - 2].is_ascii_digit()
        && text[at].is_ascii_digit()
}

/// Whether what is there may be a number without a name. By what is before it: one with a sign or with digits before it
/// has begun earlier, but for a card in one piece.
fn may_stand_alone(view: &View, at: usize) -> bool {
    let before = view.before(at);
    if matches!(before, Some(b'.' | b'-' | b'_' | b'#' | b'$' | b'~')) {
        return false;
    }
    let length = view.run(at, &DIGIT, LONGEST + 1) - at;
    let digit = || at.checked_sub(1).and_then(|at| view.before(at)).is_some_and(|byte| byte.is_ascii_digit());
    let behind_digit = before == Some(b' ') && length < 13 && digit();
    let more = view.at(at + length).is_some_and(|byte| matches!(byte, b' ' | b'-' | b'.' | b'/' | b'(' | b')'));
    if length < FEWEST && !more {
        return false;
    }
    let part_of_path = before == Some(b'/') && length < 13 && length != 4;
    !behind_digit && !part_of_path && (view.rules().has_national() || may_be_known(view, at, length))
}

/// Whether the first group looks like that of a card or of a telephone number without a name. Most numbers end here.
fn may_be_known(view: &View, at: usize, length: usize) -> bool {
    match (view.at(at), length) {
        // `+49`, `(030)`.
        _ if matches!(view.before(at), Some(b'+' | b'(')) => true,
        // `030`, `0049`, `1-800`, `415-555`, `4111 1111`, and cards in one piece.
        (Some(b'0'), 2..=6) | (Some(b'1'), 1) | (_, 3 | 13..=LONGEST) => true,
        (Some(b'2'..=b'6' | b'8'), 4) => true,
        _ => false,
    }
}
