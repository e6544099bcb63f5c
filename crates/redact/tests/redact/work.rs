//! Linear time, shown by counting and not by a clock: how many bytes the rules look at, for each byte of the text, on texts
//! that are made to keep them busy.

use crate::busy::BUSY;
use crate::laws::cases;
use crate::template;
use proptest::prelude::*;
use shellkeep_redact::{Config, Pattern, Redactor, Rules};
use std::sync::LazyLock;

/// Most bytes that rules may look at for each byte of any text. The one pass over the text comes on top. At a nanosecond for
/// each, this is 30 MB/s on the worst text.
pub const MOST: u64 = 32;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let national =
        Rules::names().map(|(name, _)| name.to_owned()).filter(|name| !Rules::default().contains(name)).collect();
    Redactor::new(&Config { optional: national, ..Config::default() }).unwrap()
});

static CASES: LazyLock<Vec<template::Case>> = LazyLock::new(template::positives);

/// Bytes looked at for each byte of the text, times a hundred.
pub fn effort(text: &[u8]) -> u64 {
    let (mut stream, mut out) = (REDACTOR.stream(), Vec::new());
    stream.push(text, &mut out);
    // The end of a line lets everything before it be looked at.
    stream.push(b"\n", &mut out);
    let work = stream.work();
    work.looked * 100 / work.bytes.max(1)
}

#[test]
fn no_repetition_keeps_the_rules_busy() {
    let measure = |text: &&'static str| (effort(text.repeat(4000 / text.len()).as_bytes()), *text);
    let mut all: Vec<(u64, &str)> = BUSY.iter().map(measure).collect();
    all.sort_unstable();
    let worst = &all[all.len() - 20..];
    assert!(worst[19].0 <= MOST * 100, "too many hundredths for each byte: {worst:?}");
}

/// Values and patterns that nearly match, and masks without end: neither is looked through again for each of them.
#[test]
fn values_and_patterns_that_nearly_match_are_cheap() {
    let pattern = |regex: &str| Pattern { name: regex.to_owned(), regex: regex.to_owned() };
    let extra = vec![pattern("a[ab]{1,200}c"), pattern("x[a-z@. ]{1,200}#"), pattern("[0-9]{1,99}-z")];
    let redactor = Redactor::new(&Config { extra, ..Config::default() }).unwrap();
    let redactor = redactor.with_secrets(["ab".repeat(250), "a@b.co ".repeat(70), "0123456789".repeat(40)]).unwrap();
    for text in ["ab", "abab ", "x@y.co ", "a@b.co", "xa@b.co ", "0123456789", "9-", "x ", "abx@y.co ", "012345678 9"] {
        for (times, newline) in [(4000, ""), (40_000, ""), (4000, "\n")] {
            let (mut stream, mut out) = (redactor.stream(), Vec::new());
            stream.push(format!("{text}{newline}").repeat(times).as_bytes(), &mut out);
            let work = stream.work();
            // Each of the three patterns may look at everything, and behind each mask at what it could match.
            let most = 3 * 2 + 3 * 256 / text.len() as u64 + MOST;
            assert!(work.looked <= most * work.bytes, "{text:?}: {work:?}");
        }
    }
}

/// Twice the text is twice the work, whatever the text is: nothing is looked through again because more came.
#[test]
fn work_grows_with_the_text_and_not_faster() {
    for text in BUSY {
        let work = |times: usize| {
            let text = text.repeat(times * 2000 / text.len());
            effort(text.as_bytes())
        };
        let (short, long) = (work(1), work(8));
        assert!(long <= short * 5 / 4 + 50, "{text:?}: {short} and {long} hundredths for each byte");
    }
}

#[test]
fn ordinary_text_is_cheap() {
    let source = include_str!("template.rs").repeat(4);
    let logs: String = (0..2000)
        .map(|n| format!("{{\"ts\":\"2024-01-02T03:04:{:02}.123Z\",\"level\":\"info\",\"msg\":\"request {n} took {} ms\",\"id\":\"{:08x}\"}}\n", n % 60, n * 7 % 1000, n * 77_777))
        .collect();
    for (name, text) in [("source", source), ("logs", logs)] {
        let effort = effort(text.as_bytes());
        assert!(effort <= 400, "{name}: {effort} hundredths for each byte");
    }
}

fn parts() -> impl Strategy<Value = Vec<String>> {
    let busy = (0..BUSY.len()).prop_map(|index| BUSY[index].to_owned());
    let cut = (0..BUSY.len(), 0..8_usize).prop_map(|(index, at)| BUSY[index].chars().take(at).collect());
    prop::collection::vec(prop_oneof![3 => busy, 1 => cut], 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    /// Anything put together from busy parts, over and over.
    #[test]
    fn no_mixture_keeps_the_rules_busy(parts in parts()) {
        let part = parts.concat();
        let text = part.repeat(5000 / part.len().max(1));
        let effort = effort(text.as_bytes());
        prop_assert!(effort <= MOST * 100, "{} hundredths for each byte", effort);
    }

    /// Cases of the corpus, cut short and repeated: rules that nearly match.
    #[test]
    fn no_secret_that_is_cut_short_keeps_the_rules_busy(index in any::<prop::sample::Index>(), keep in 0..100_usize) {
        let text = &CASES[index.index(CASES.len())].text;
        let cut: String = text.chars().take(text.chars().count() * keep / 100).collect();
        let effort = effort(cut.repeat(5000 / cut.len().max(1)).as_bytes());
        prop_assert!(effort <= MOST * 100, "{} hundredths for each byte of {:?}", effort, cut);
    }
}
