//! Numbers: groups of digits with separators between them, from which cards, telephone numbers and national ids are told
//! apart. Dates, versions, addresses and counters look much the same, so each kind asks for more than a length.

use crate::class::{DIGIT, WORD};
use crate::found::Found;
use crate::rules::{card, national, phone};
use crate::view::View;

/// Most groups of one number.
pub(crate) const GROUPS: usize = 8;
/// Most digits of one group; a longer one is none of ours.
pub(crate) const LONGEST: usize = 19;
/// Fewest digits of any number that is masked.
const FEWEST: usize = 7;

/// Groups of digits with one separator between two of them.
pub(crate) struct Groups {
    count: usize,
    /// Where each group begins and ends.
    spans: [(usize, usize); GROUPS],
    /// What stands before each group but the first: a separator, or `)` for a bracket that closes, `(` for one that opens.
    separators: [u8; GROUPS],
}

impl Groups {
    /// The groups that begin at `at`.
    fn read(view: &View, at: usize) -> Self {
        let mut groups = Self { count: 0, spans: [(0, 0); GROUPS], separators: [0; GROUPS] };
        let (mut at, mut separator) = (at, 0);
        while groups.count < GROUPS {
            let stop = view.run(at, &DIGIT, LONGEST + 1);
            // A group that goes on as a word is none.
            if stop == at || stop - at > LONGEST || view.word_at(stop) {
                break;
            }
            groups.spans[groups.count] = (at, stop);
            groups.separators[groups.count] = separator;
            groups.count += 1;
            let Some((kind, next)) = separator_at(view, stop, groups.count) else { break };
            (separator, at) = (kind, next);
        }
        groups
    }

    /// How many groups there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many digits the group has.
    pub(crate) fn length(&self, group: usize) -> usize {
        let (start, end) = self.spans[group];
        end - start
    }

    /// The lengths of the first groups.
    pub(crate) fn lengths(&self) -> [usize; GROUPS] {
        std::array::from_fn(|group| if group < self.count { self.length(group) } else { 0 })
    }

    /// Where the group begins.
    pub(crate) fn start(&self, group: usize) -> usize {
        self.spans[group].0
    }

    /// Where the group ends.
    pub(crate) fn end(&self, group: usize) -> usize {
        self.spans[group].1
    }

    /// The separators between the first `count` groups.
    pub(crate) fn separators(&self, count: usize) -> &[u8] {
        self.separators.get(1..count.min(self.count)).unwrap_or_default()
    }

    /// The digits of the first `count` groups together, as values; as many as fit.
    pub(crate) fn digits<'d>(&self, view: &View, count: usize, into: &'d mut [u8; 24]) -> &'d [u8] {
        let mut length = 0;
        for group in 0..count.min(self.count) {
            for byte in view.slice(self.start(group), self.end(group)) {
                if let Some(place) = into.get_mut(length) {
                    *place = byte - b'0';
                    length += 1;
                }
            }
        }
        &into[..length]
    }
}

/// What stands between two groups at `at`, and where the next group begins. Brackets stand around the first or the second
/// group only.
fn separator_at(view: &View, at: usize, groups: usize) -> Option<(u8, usize)> {
    let digit = |at: usize| view.at(at).is_some_and(|byte| byte.is_ascii_digit());
    let first = view.at(at)?;
    let (kind, next) = match (first, view.at(at + 1)) {
        (b')', Some(b' ' | b'-')) if groups < 3 => (b')', at + 2),
        (b')', _) if groups < 3 => (b')', at + 1),
        (b' ', Some(b'(')) if groups == 1 => (b'(', at + 2),
        (b'(', _) if groups == 1 => (b'(', at + 1),
        (b' ' | b'-' | b'.' | b'/', _) => (first, at + 1),
        _ => return None,
    };
    digit(next).then_some((kind, next))
}

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

/// Whether a number that has begun earlier goes on at `at` with another group: a date, a version, a fraction.
#[inline]
pub(crate) fn goes_on(text: &[u8], floor: usize, at: usize) -> bool {
    at >= floor + 2
        && matches!(text[at - 1], b'.' | b'-' | b'_')
        && text[at - 2].is_ascii_digit()
        && text[at].is_ascii_digit()
}

/// Whether what is there may be a number without a name. By what stands before it: one with a sign or with digits before it
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

/// Whether a number may end at `end`. It may not if a word goes on, if one of `separators` and another digit follow, or if
/// a colon and a word do (a time, a port, a token). A mask counts as the digit that it may have been.
pub(crate) fn may_end(view: &View, end: usize, separators: &[u8]) -> bool {
    let Some(next) = view.at(end) else { return true };
    let second = view.at(end + 1);
    let digit = second.is_some_and(|byte| byte.is_ascii_digit() || byte == b'*');
    let word = second.is_some_and(|byte| WORD.has(byte) || byte == b'*');
    !(WORD.has(next) || (digit && separators.contains(&next)) || (word && next == b':'))
}

/// Whether a number may begin at `start`: not behind one of `refused`, and not behind a digit and one of `separators`.
pub(crate) fn may_begin(view: &View, start: usize, refused: &[u8], separators: &[u8]) -> bool {
    let Some(before) = view.before(start) else { return true };
    let digit = || start.checked_sub(1).and_then(|at| view.before(at)).is_some_and(|byte| byte.is_ascii_digit());
    !(refused.contains(&before) || (separators.contains(&before) && digit()))
}
