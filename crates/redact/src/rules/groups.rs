//! Groups of digits with separators between them, and where a number may begin and end.

use crate::class::{DIGIT, WORD};
use crate::view::View;

/// Most groups of one number.
pub(crate) const GROUPS: usize = 8;
/// Most digits of one group; a longer one is none of ours.
pub(crate) const LONGEST: usize = 19;
/// Groups of digits with one separator between two of them.
pub(crate) struct Groups {
    count: usize,
    /// Where each group begins and ends.
    spans: [(usize, usize); GROUPS],
    /// What is before each group but the first: a separator, or `)` for a bracket that closes, `(` for one that opens.
    separators: [u8; GROUPS],
}

impl Groups {
    /// The groups that begin at `at`.
    pub(crate) fn read(view: &View, at: usize) -> Self {
        let mut groups = Self { count: 0, spans: [(0, 0); GROUPS], separators: [0; GROUPS] };
        let (mut at, mut separator) = (at, 0);
        while groups.count < GROUPS {
            let stop = view.run(at, &DIGIT, LONGEST + 1);
            // A group that continues as a word is not one.
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

/// What is between two groups at `at`, and where the next group begins. Brackets stand around the first or the second
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

/// Whether a number may end at `end`. It may not if a word continues, if one of `separators` and another digit follow, or if
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
