//! Payment card numbers: 13 to 19 digits with a known beginning and a right check digit, in one piece or in the groups
//! that are printed on cards.

use crate::checksum;
use crate::found::Found;
use crate::rules::groups::{self, Groups};
use crate::rules::{Rule, phone};
use crate::view::View;

/// The card that begins with the first group.
pub(crate) fn find(view: &View, groups: &Groups) -> Option<Found> {
    if !view.rules().has(Rule::Card) {
        return None;
    }
    let lengths = groups.lengths();
    if lengths[0] >= 13 {
        return whole(view, groups);
    }
    if lengths[0] != 4 {
        return None;
    }
    // The longer groupings first, so that their beginnings are not taken for the whole.
    let groupings: &[&[usize]] =
        &[&[4, 4, 4, 4, 3], &[4, 4, 4, 4, 2], &[4, 4, 4, 4, 1], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];
    groupings.iter().find_map(|grouping| grouped(view, groups, grouping))
}

/// A card in one piece.
fn whole(view: &View, groups: &Groups) -> Option<Found> {
    let (start, end) = (groups.start(0), groups.end(0));
    let fits = groups::may_begin(view, start, b".-+_$#~", b"") && groups::may_end(view, end, b".-");
    (fits && is_card(view, groups, 1)).then(|| Found::span(Rule::Card, start, end))
}

/// A card in groups, with the same separator between all of them.
fn grouped(view: &View, groups: &Groups, grouping: &[usize]) -> Option<Found> {
    let count = grouping.len();
    let separators = groups.separators(count);
    let separator = *separators.first()?;
    let same = matches!(separator, b' ' | b'-') && separators.iter().all(|other| *other == separator);
    if groups.lengths()[..count] != *grouping || !same {
        return None;
    }
    let (start, end) = (groups.start(0), groups.end(count - 1));
    let fits = groups::may_begin(view, start, b".-+_$#~", b" ") && groups::may_end(view, end, &[separator, b'.']);
    (fits && is_card(view, groups, count)).then(|| Found::span(Rule::Card, start, end))
}

fn is_card(view: &View, groups: &Groups, count: usize) -> bool {
    let mut place = [0; 24];
    let digits = groups.digits(view, count, &mut place);
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    // Of the numbers with more than 16 digits in one piece, most are ids. Only UnionPay's cards are common among them.
    let known = digits.len() <= 16 || count > 1 || digits.starts_with(&[6, 2]) || is_named(view, groups.start(0));
    varied && known && known_issuer(digits) && checksum::luhn(digits)
}

/// Whether a word before the number says that it is a card's.
fn is_named(view: &View, start: usize) -> bool {
    let words: &[&[u8]] = &[b"card", b"cardnumber", b"number", b"pan", b"cc", b"visa", b"maestro", b"credit", b"debit"];
    phone::word_before(view, start).is_some_and(|(_, word)| words.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Whether cards begin so and have this many digits, by the ranges that the networks publish.
fn known_issuer(digits: &[u8]) -> bool {
    let length = digits.len();
    let first = |count: usize| checksum::number(&digits[..count.min(length)]);
    match first(6) {
        // Visa.
        400_000..=499_999 => matches!(length, 13 | 16 | 19),
        // Mastercard.
        510_000..=559_999 | 222_100..=272_099 => length == 16,
        // American Express.
        340_000..=349_999 | 370_000..=379_999 => length == 15,
        // Diners Club.
        300_000..=305_999 | 309_500..=309_599 | 360_000..=369_999 | 380_000..=399_999 => matches!(length, 14 | 16),
        // JCB.
        352_800..=358_999 => (16..=19).contains(&length),
        // Discover, UnionPay, RuPay.
        601_100..=601_199 | 644_000..=659_999 | 620_000..=629_999 | 810_000..=819_999 => (16..=19).contains(&length),
        // Maestro.
        501_800..=501_899
        | 502_000..=502_099
        | 503_800..=503_899
        | 589_300..=589_399
        | 630_400..=630_499
        | 675_900..=675_999
        | 676_100..=676_399 => (13..=19).contains(&length),
        // Mir.
        220_000..=220_499 => (16..=19).contains(&length),
        _ => false,
    }
}
