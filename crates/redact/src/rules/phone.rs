//! Telephone numbers: international ones, the common national forms, and any number behind a word like `phone`.

use crate::class::{Class, LETTER};
use crate::found::Found;
use crate::rules::Rule;
use crate::rules::groups::{self, Groups};
use crate::view::View;

/// Digits of a whole number with its country, by ITU E.164.
const MOST: usize = 15;
/// Fewest digits of a number with its country, so that a sum with a plus is none.
const FEWEST_INTERNATIONAL: usize = 9;
/// The same for one in one piece, at the start of a line.
const FEWEST_IN_PATCH: usize = 11;
/// Fewest digits of a number behind a word that says what it is.
const FEWEST_NAMED: usize = 7;
/// Digits of national numbers with their leading zero.
const NATIONAL: std::ops::RangeInclusive<usize> = 9..=12;

/// Country codes of one and two digits; the others have three.
const SHORT_CODES: &[u64] = &[
    1, 7, 20, 27, 30, 31, 32, 33, 34, 36, 39, 40, 41, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56, 57, 58, 60,
    61, 62, 63, 64, 65, 66, 81, 82, 84, 86, 90, 91, 92, 93, 94, 95, 98,
];
/// First two digits of country codes of three digits.
const LONG_CODES: &[u64] =
    &[21, 22, 23, 24, 25, 26, 29, 35, 37, 38, 42, 50, 59, 67, 68, 69, 80, 85, 87, 88, 96, 97, 99];

/// Words behind which a number is a telephone number.
const WORDS: &[&[u8]] = &[
    b"tel",
    b"phone",
    b"telephone",
    b"mobile",
    b"cell",
    b"cellphone",
    b"fax",
    b"whatsapp",
    b"sms",
    b"call",
    b"dial",
    b"telefon",
    b"handy",
    b"msisdn",
    b"phonenumber",
    b"mobilenumber",
    b"phoneno",
];

/// The telephone number that begins with the first group.
pub(crate) fn find(view: &View, groups: &Groups) -> Option<Found> {
    if !view.rules().has(Rule::Phone) {
        return None;
    }
    let start = groups.start(0);
    if view.before(start) == Some(b'+') {
        return international(view, groups, start - 1);
    }
    let bracket = view.before(start) == Some(b'(') && groups.separators(2) == b")";
    let begin = if bracket { start - 1 } else { start };
    let end = national(view, groups, begin, bracket).or_else(|| named(view, groups, begin))?;
    (!bracket || view.boundary(begin)).then(|| Found::span(Rule::Phone, begin, end))
}

/// `+49 30 1234567`
fn international(view: &View, groups: &Groups, plus: usize) -> Option<Found> {
    // A plus behind a word or another sign is arithmetic.
    let alone = view.boundary(plus) && !matches!(view.before(plus), Some(b'+' | b')' | b']' | b'.'));
    let mut place = [0; 24];
    let america = groups.digits(view, 1, &mut place).first() == Some(&1);
    // `+9999-12-31` is a date.
    if groups.length(0) >= 4 && view.at(groups.end(0)) == Some(b'-') {
        return None;
    }
    let (mut total, mut end) = (0, None);
    for group in 0..groups.count() {
        total += groups.length(group);
        let enough = if america { total == 11 } else { (FEWEST_INTERNATIONAL..=MOST).contains(&total) };
        if enough {
            end = Some((group + 1, groups.end(group)));
        }
    }
    let (count, end) = end?;
    let digits = groups.digits(view, count, &mut place);
    let valid = if america { is_american(&digits[1..]) } else { known_country(digits) };
    let country = is_country(&digits[..groups.length(0)]);
    // At the start of a line, a plus is that of a patch more often than not.
    let in_patch = matches!(view.before(plus), None | Some(b'\n'));
    let plain = if count == 1 { digits.len() >= FEWEST_IN_PATCH } else { country };
    let written = may_be_separated(groups, count, country) && (!in_patch || plain);
    (alone && valid && written).then(|| Found::span(Rule::Phone, plus, end))
}

/// Whether the groups of an international number are parted as people do it. A dot is after the country, if at all, but
/// in America; slashes are for dates.
fn may_be_separated(groups: &Groups, count: usize, country: bool) -> bool {
    let separators = groups.separators(count);
    let dots = separators.iter().filter(|separator| **separator == b'.').count();
    let behind_country = dots == 1 && count == 2 && country && groups.length(1) >= 6;
    let american = groups.length(0) == 1 && groups.lengths()[1..4] == [3, 3, 4];
    !separators.contains(&b'/') && (dots == 0 || behind_country || american)
}

/// Whether these digits are the code of a country, and no more than that.
fn is_country(digits: &[u8]) -> bool {
    let code = crate::checksum::number(digits);
    match digits.len() {
        1 => matches!(code, 1 | 7),
        2 => SHORT_CODES.contains(&code),
        3 => LONG_CODES.contains(&(code / 10)),
        _ => false,
    }
}

fn known_country(digits: &[u8]) -> bool {
    let first = |count: usize| crate::checksum::number(&digits[..count.min(digits.len())]);
    if digits.first() == Some(&0) {
        return false;
    }
    SHORT_CODES.contains(&first(2)) || first(1) == 7 || LONG_CODES.contains(&first(2))
}

/// Whether ten digits are a number of North America: area and exchange do not begin with 0 or 1.
fn is_american(digits: &[u8]) -> bool {
    digits.len() == 10 && digits[0] > 1 && digits[3] > 1
}

/// The end of a national number in one of the forms that are hardly anything else.
fn national(view: &View, groups: &Groups, begin: usize, bracket: bool) -> Option<usize> {
    let lengths = groups.lengths();
    let start = groups.start(0);
    let (first, second) = (view.at(start), if lengths[0] > 1 { view.at(start + 1) } else { None });
    let fits = |count: usize, separators: &[u8]| {
        let end = groups.end(count - 1);
        let begins = groups::may_begin(view, begin, b".-/+_:#$~", b" ") || bracket;
        (begins && groups::may_end(view, end, separators)).then_some(end)
    };
    if let Some(count) = american(view, groups, bracket) {
        return fits(count, b"-.");
    }
    if (first, second) == (Some(b'0'), Some(b'0')) {
        return abroad(view, groups).and_then(|count| fits(count, b" -./"));
    }
    let bracketed = bracket && (2..=5).contains(&lengths[0]) && matches!(lengths[1..3], [3..=5, 4]);
    if bracketed && NATIONAL.contains(&(lengths[0] + lengths[1] + lengths[2])) {
        return fits(3, b"-. ");
    }
    let mobile_with_dashes = lengths[..3] == [3, 4, 4] && first == Some(b'1') && groups.separators(3) == b"--";
    if mobile_with_dashes && second > Some(b'2') {
        return fits(3, b"-");
    }
    (first == Some(b'0') && second > Some(b'0'))
        .then(|| with_zero(view, groups, bracket))
        .flatten()
        .and_then(|count| fits(count, b" -./"))
}

/// How many groups a number of North America has: `415-555-2671`, `(415) 555-2671`, `1-415-555-2671`.
fn american(view: &View, groups: &Groups, bracket: bool) -> Option<usize> {
    let count = match groups.lengths() {
        [3, 3, 4, ..] => 3,
        [1, 3, 3, 4, ..] if !bracket => 4,
        _ => return None,
    };
    let separators = groups.separators(count);
    let local = &separators[count - 3..];
    let signs = match local {
        [b')', b'-' | b' ' | b'.'] => true,
        [a @ (b'-' | b'.'), b] => a == b,
        _ => false,
    };
    let country = count == 3 || matches!(separators[0], b'-' | b'.' | b'(' | b' ');
    let mut place = [0; 24];
    let digits = groups.digits(view, count, &mut place);
    let one = count == 3 || digits.first() == Some(&1);
    (signs && country && one && is_american(&digits[count - 3..])).then_some(count)
}

/// How many groups a number with `00` and a country has: `0049 30 1234567`.
fn abroad(view: &View, groups: &Groups) -> Option<usize> {
    let mut place = [0; 24];
    let count = groups.count();
    let digits = groups.digits(view, count, &mut place);
    // Tables of numbers with leading zeros look like it, but there the second begins with a zero too.
    let second = count > 1 && view.at(groups.start(1)).is_some_and(|byte| byte != b'0');
    let fits = (4..=6).contains(&groups.length(0)) && (11..=17).contains(&digits.len());
    (second && fits && groups.length(count - 1) >= 3 && known_country(&digits[2..])).then_some(count)
}

/// How many groups a number with a leading zero has: `030/1234567`, `01 23 45 67 89`, `020 7946 0958`.
fn with_zero(view: &View, groups: &Groups, bracket: bool) -> Option<usize> {
    let lengths = groups.lengths();
    let count = groups.count();
    let total: usize = lengths.iter().sum();
    let separators = groups.separators(count);
    let same = separators.iter().skip(1).all(|other| *other == separators[separators.len() - 1]);
    let first_fits = separators.first().is_some_and(|first| match first {
        b')' => bracket,
        b'/' => true,
        sign => matches!(sign, b' ' | b'-' | b'.') && separators.last() == Some(sign),
    });
    let groups_fit = match count {
        2 => lengths[1] >= 5,
        3..=5 => lengths[1..count].iter().all(|length| *length >= 2),
        _ => false,
    };
    // Pairs of digits are French numbers, and lines of a hex dump.
    let pairs = lengths[..count].iter().all(|length| *length == 2);
    let french = !pairs || (count == 5 && !between_pairs(view, groups));
    (same && first_fits && groups_fit && french && (2..=6).contains(&lengths[0]) && NATIONAL.contains(&total))
        .then_some(count)
}

/// Whether another pair of hex digits is next to the number; a mask counts as one.
fn between_pairs(view: &View, groups: &Groups) -> bool {
    let (start, end) = (groups.start(0), groups.end(groups.count() - 1));
    let hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit() || byte == b'*');
    let before = |by: usize| start.checked_sub(by).and_then(|at| view.before(at));
    (view.before(start) == Some(b' ') && hex(before(1)) && hex(before(2)))
        || (view.at(end) == Some(b' ') && hex(view.at(end + 1)) && hex(view.at(end + 2)))
}

static BETWEEN: Class = Class::of(b" :=\"'._(>#\\-");

/// Whether a word before the number at `at` says that it is a telephone's.
pub(crate) fn is_named(view: &View, at: usize) -> bool {
    // The cheap test comes first: what is right before most numbers says that they have no such name.
    let second = at.checked_sub(1).and_then(|at| view.before(at));
    let may_have = view.before(at).is_some_and(|byte| BETWEEN.has(byte));
    may_have && second.is_some_and(|byte| LETTER.has(byte) || BETWEEN.has(byte)) && has_name(view, at)
}

/// The end of a number behind a word that says what it is.
fn named(view: &View, groups: &Groups, begin: usize) -> Option<usize> {
    let mut total = 0;
    let mut end = None;
    for group in 0..groups.count() {
        total += groups.length(group);
        if (FEWEST_NAMED..=MOST).contains(&total) {
            end = Some(groups.end(group));
        }
    }
    end.filter(|_| is_named(view, begin))
}

/// The word of letters before `at`, and where it begins.
pub(crate) fn word_before<'v>(view: &View<'v>, at: usize) -> Option<(usize, &'v [u8])> {
    let end = view.back(at, &BETWEEN, 6);
    let start = view.back(end, &LETTER, 16);
    (start < end && end < at).then(|| (start, view.slice(start, end)))
}

/// Whether the last word before `at`, or the one before it, names a telephone.
fn has_name(view: &View, at: usize) -> bool {
    let mut at = at;
    for _ in 0..2 {
        let Some((start, word)) = word_before(view, at) else { return false };
        if WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            return true;
        }
        let number = [&b"number"[..], b"no", b"nr", b"num"].iter().any(|known| known.eq_ignore_ascii_case(word));
        let camel = word.len() > 6 && word[word.len() - 6..].eq_ignore_ascii_case(b"number");
        if !number && !camel {
            return false;
        }
        at = start;
    }
    false
}
