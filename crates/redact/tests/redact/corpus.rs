//! The corpus: texts with secrets in them, of which none may be missed, and texts without, which must stay as they are.

use crate::template::{self, Case};
use shellkeep_redact::{Config, Finding, Redactor, Rules};
use std::collections::BTreeSet;

/// A redactor for a case: telephone numbers are looked for in all of them, national ids where the case is about one.
fn redactor(case: &Case) -> Redactor {
    let is_optional = Rules::default().with([case.rule.as_str()]).is_ok_and(|rules| rules != Rules::default());
    let optional =
        std::iter::once("phone").chain(is_optional.then_some(case.rule.as_str())).map(str::to_owned).collect();
    Redactor::new(&Config { optional, ..Config::default() }).unwrap()
}

fn in_pieces<'t>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'t [u8]>) -> String {
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    pieces.into_iter().for_each(|piece| stream.push(piece, &mut out));
    stream.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// Every case that does not come out as it should, with what came out.
fn wrong(cases: &[Case], check: impl Fn(&Case) -> Option<String>) -> String {
    let told =
        cases.iter().filter_map(|case| check(case).map(|got| format!("{}: {}\n      {got}", case.rule, case.text)));
    told.collect::<Vec<_>>().join("\n")
}

fn none(wrong: String) {
    assert!(wrong.is_empty(), "{} cases:\n{wrong}", wrong.lines().count() / 2);
}

#[test]
fn the_corpus_is_as_large_as_promised() {
    let (positives, negatives) = (template::positives(), template::negatives());
    assert!(positives.len() >= 300 && negatives.len() >= 300, "{} and {}", positives.len(), negatives.len());
    let all: BTreeSet<&str> = Rules::names().map(|(name, _)| name).collect();
    let tested: BTreeSet<&str> = positives.iter().map(|case| case.rule.as_str()).collect();
    let untested: Vec<&&str> =
        all.difference(&tested).filter(|name| !matches!(**name, "registered" | "extra")).collect();
    assert!(untested.is_empty(), "no case for {untested:?}");
}

#[test]
fn secrets_are_masked() {
    none(wrong(&template::positives(), |case| {
        let got = redactor(case).redact_str(&case.text);
        (got != case.masked()).then_some(got)
    }));
}

#[test]
fn findings_say_what_and_where() {
    none(wrong(&template::positives(), |case| {
        let expected: Vec<_> = case.secrets.clone();
        let found = redactor(case).find(case.text.as_bytes());
        let right = found.iter().map(|finding| finding.range.clone()).eq(expected)
            && found.iter().any(|finding: &Finding| finding.rule == case.rule);
        (!right).then(|| format!("{found:?}"))
    }));
}

#[test]
fn other_text_stays_as_it_is() {
    none(wrong(&template::negatives(), |case| {
        let got = redactor(case).redact_str(&case.text);
        (got != case.text).then_some(got)
    }));
}

#[test]
fn secrets_are_masked_wherever_the_text_is_cut() {
    none(wrong(&template::positives(), |case| {
        let (redactor, text) = (redactor(case), case.text.as_bytes());
        let cut = |at: usize| in_pieces(&redactor, [&text[..at], &text[at..]]);
        (0..=text.len()).map(cut).find(|got| *got != case.masked())
    }));
}

#[test]
fn secrets_are_masked_byte_by_byte() {
    none(wrong(&template::positives(), |case| {
        let got = in_pieces(&redactor(case), case.text.as_bytes().chunks(1));
        (got != case.masked()).then_some(got)
    }));
}

#[test]
fn masking_twice_is_masking_once() {
    let cases: Vec<Case> = template::positives().into_iter().chain(template::negatives()).collect();
    none(wrong(&cases, |case| {
        let redactor = redactor(case);
        let once = redactor.redact_str(&case.text);
        let twice = redactor.redact_str(&once);
        (twice != once).then_some(twice)
    }));
}
