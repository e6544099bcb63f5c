//! National ids that are made of digits only. Off unless named, because without its country a number of nine or eleven
//! digits is any number.

use crate::checksum::{luhn, mod_11_2, mod_11_10, number, verhoeff, weighted};
use crate::found::Found;
use crate::rules::groups::{Groups, may_begin, may_end};
use crate::rules::{Rule, phone};
use crate::view::View;

/// One kind of id: the groupings it is written in, with the separators that may stand between the groups, and its test.
struct Id {
    rule: Rule,
    forms: &'static [(&'static [usize], &'static [u8])],
    valid: fn(&[u8]) -> bool,
}

const IDS: &[Id] = &[
    Id { rule: Rule::UsSsn, forms: &[(&[3, 2, 4], b"- ")], valid: us_ssn },
    Id { rule: Rule::DeSteuerId, forms: &[(&[11], b""), (&[2, 3, 3, 3], b" ")], valid: de_steuer_id },
    Id {
        rule: Rule::FrInsee,
        forms: &[(&[15], b""), (&[13, 2], b" "), (&[1, 2, 2, 2, 3, 3, 2], b" ")],
        valid: fr_insee,
    },
    Id { rule: Rule::InAadhaar, forms: &[(&[12], b""), (&[4, 4, 4], b" -")], valid: in_aadhaar },
    Id { rule: Rule::CnResidentId, forms: &[(&[18], b"")], valid: cn_resident_id },
    Id { rule: Rule::BrCpf, forms: &[(&[11], b""), (&[3, 3, 3, 2], b".-")], valid: br_cpf },
    Id { rule: Rule::PlPesel, forms: &[(&[11], b"")], valid: pl_pesel },
    Id { rule: Rule::NlBsn, forms: &[(&[9], b""), (&[4, 2, 3], b". ")], valid: nl_bsn },
    Id { rule: Rule::ChAhv, forms: &[(&[13], b""), (&[3, 4, 4, 2], b".")], valid: ch_ahv },
    Id { rule: Rule::CaSin, forms: &[(&[3, 3, 3], b"- ")], valid: ca_sin },
    Id { rule: Rule::KrRrn, forms: &[(&[6, 7], b"-")], valid: kr_rrn },
    Id { rule: Rule::ZaId, forms: &[(&[13], b"")], valid: za_id },
];

/// The id that begins with the first group.
pub(crate) fn find(view: &View, groups: &Groups) -> Option<Found> {
    if !view.rules().has_national() {
        return None;
    }
    let on = IDS.iter().filter(|id| view.rules().has(id.rule));
    let found = on.filter_map(|id| id.forms.iter().find_map(|form| matches(view, groups, id, form)));
    found.map(|(rule, end)| Found::span(rule, groups.start(0), end)).next().or_else(|| named_ssn(view, groups))
}

fn matches(view: &View, groups: &Groups, id: &Id, form: &(&[usize], &[u8])) -> Option<(Rule, usize)> {
    let (lengths, allowed) = *form;
    let count = lengths.len();
    if groups.count() < count || groups.lengths()[..count] != *lengths {
        return None;
    }
    let separators = groups.separators(count);
    let same = allowed == b".-" || separators.iter().all(|separator| *separator == separators[0]);
    if !same || !separators.iter().all(|separator| allowed.contains(separator)) {
        return None;
    }
    let mut place = [0; 24];
    let valid = (id.valid)(groups.digits(view, count, &mut place));
    let (start, end) = (groups.start(0), groups.end(count - 1));
    let alone = may_begin(view, start, b".-+/_#$~", b" ") && may_end(view, end, b"-./");
    (valid && alone).then_some((id.rule, end))
}

/// Nine digits without separators, behind a word that says what they are.
fn named_ssn(view: &View, groups: &Groups) -> Option<Found> {
    let word = phone::word_before(view, groups.start(0)).map(|(_, word)| word)?;
    let named = [&b"ssn"[..], b"security", b"social"].iter().any(|known| known.eq_ignore_ascii_case(word));
    let mut place = [0; 24];
    let fits = groups.length(0) == 9 && us_ssn(groups.digits(view, 1, &mut place));
    let alone = may_end(view, groups.end(0), b"-./");
    (view.rules().has(Rule::UsSsn) && named && fits && alone)
        .then(|| Found::span(Rule::UsSsn, groups.start(0), groups.end(0)))
}

fn us_ssn(digits: &[u8]) -> bool {
    let (area, group, serial) = (number(&digits[..3]), number(&digits[3..5]), number(&digits[5..]));
    !matches!(area, 0 | 666 | 900..) && group > 0 && serial > 0
}

/// Eleven digits, of which one among the first ten comes twice or three times.
fn de_steuer_id(digits: &[u8]) -> bool {
    let count = |digit: u8| digits[..10].iter().filter(|other| **other == digit).count();
    let distinct = (0..10).filter(|digit| count(*digit) > 0).count();
    let most = (0..10).map(count).max().unwrap_or(0);
    digits[0] != 0 && matches!(distinct, 8 | 9) && (2..=3).contains(&most) && mod_11_10(digits)
}

/// Sex, year, month, place, and a key of two digits.
fn fr_insee(digits: &[u8]) -> bool {
    let (body, key) = (number(&digits[..13]), number(&digits[13..]));
    let month = number(&digits[3..5]);
    matches!(digits[0], 1 | 2 | 3 | 4 | 7 | 8) && matches!(month, 1..=12 | 20..=42 | 50..) && key == 97 - body % 97
}

fn in_aadhaar(digits: &[u8]) -> bool {
    digits[0] > 1 && verhoeff(digits)
}

/// Place, date of birth, serial, check digit.
pub(crate) fn cn_resident_id(digits: &[u8]) -> bool {
    let (year, month, day) = (number(&digits[6..10]), number(&digits[10..12]), number(&digits[12..14]));
    (1900..2100).contains(&year) && is_day(month, day) && mod_11_2(digits)
}

fn is_day(month: u64, day: u64) -> bool {
    (1..=12).contains(&month) && (1..=31).contains(&day)
}

fn br_cpf(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let weights: Vec<u32> = (2..=count as u32 + 1).rev().collect();
        weighted(&digits[..count], &weights) * 10 % 11 % 10 == u32::from(digits[count])
    };
    digits.iter().any(|digit| *digit != digits[0]) && check(9) && check(10)
}

/// Date of birth with the century in the month, serial, check digit.
fn pl_pesel(digits: &[u8]) -> bool {
    let (month, day) = (number(&digits[2..4]) % 20, number(&digits[4..6]));
    is_day(month, day) && weighted(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
}

fn nl_bsn(digits: &[u8]) -> bool {
    let sum = weighted(&digits[..8], &[9, 8, 7, 6, 5, 4, 3, 2]);
    number(digits) > 0 && sum % 11 == u32::from(digits[8]) % 11
}

/// A number of the EAN whose country is 756.
fn ch_ahv(digits: &[u8]) -> bool {
    digits.starts_with(&[7, 5, 6]) && weighted(digits, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]).is_multiple_of(10)
}

fn ca_sin(digits: &[u8]) -> bool {
    !matches!(digits[0], 0 | 8) && luhn(digits)
}

/// Date of birth, a digit for sex and century. The check digit was dropped in 2020.
fn kr_rrn(digits: &[u8]) -> bool {
    is_day(number(&digits[2..4]), number(&digits[4..6])) && (1..=8).contains(&digits[6])
}

/// Date of birth, serial, citizenship, check digit.
fn za_id(digits: &[u8]) -> bool {
    is_day(number(&digits[2..4]), number(&digits[4..6])) && digits[10] < 3 && luhn(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_digit).map(|byte| byte - b'0').collect()
    }

    #[test]
    fn check_digits_are_checked() {
        type Check = fn(&[u8]) -> bool;
        let cases: &[(Check, &str)] = &[
            (de_steuer_id, "86095742719"),
            (fr_insee, "2 55 08 14 168 025 38"),
            (br_cpf, "529.982.247-25"),
            (pl_pesel, "44051401359"),
            (nl_bsn, "111222333"),
            (ch_ahv, "756.9217.0769.85"),
            (ca_sin, "130 692 544"),
            (za_id, "8001015009087"),
        ];
        for (valid, text) in cases {
            let mut digits = digits(text);
            assert!(valid(&digits), "{text}");
            let last = digits.len() - 1;
            digits[last] = (digits[last] + 1) % 10;
            assert!(!valid(&digits), "{text} with another check digit");
        }
    }

    #[test]
    fn ranges_are_checked() {
        assert!(us_ssn(&digits("123-45-6789")));
        for text in ["000-45-6789", "666-45-6789", "900-45-6789", "123-00-6789", "123-45-0000"] {
            assert!(!us_ssn(&digits(text)), "{text}");
        }
        assert!(kr_rrn(&digits("900101-1234567")) && !kr_rrn(&digits("901301-1234567")));
        assert!(!br_cpf(&digits("111.111.111-11")) && !de_steuer_id(&digits("11111111111")));
    }
}
