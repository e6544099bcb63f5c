//! Linear time, shown by counting and not by a clock: how many bytes the rules look at, for each byte of the text, on texts
//! that are made to keep them busy.

use crate::template;
use proptest::prelude::*;
use shellkeep_redact::{Config, Redactor, Rules};
use std::sync::LazyLock;

/// Most bytes that rules may look at for each byte of any text. The one pass over the text comes on top. At a nanosecond for
/// each, this is 30 MB/s on the worst text.
const MOST: u64 = 32;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let national =
        Rules::names().map(|(name, _)| name.to_owned()).filter(|name| !Rules::default().contains(name)).collect();
    Redactor::new(&Config { national_ids: national, ..Config::default() }).unwrap()
});

/// Bytes looked at for each byte of the text, times a hundred.
fn effort(text: &[u8]) -> u64 {
    let (mut stream, mut out) = (REDACTOR.stream(), Vec::new());
    stream.push(text, &mut out);
    // The end of a line lets everything before it be looked at.
    stream.push(b"\n", &mut out);
    let work = stream.work();
    work.looked * 100 / work.bytes.max(1)
}

/// Texts of some length, made of one thing over and over.
const BUSY: &[&str] = &[
    "@",
    "a@",
    "a@a.",
    "a@a.a",
    "a.",
    "://",
    "://a",
    "://a:",
    "a://b:c",
    "eyJ",
    "eyJ-",
    "eyJ.",
    "eyJaaaaaaaaaa.",
    "eyJ ",
    "sk-",
    "sk-ant-",
    "ghp_",
    "AKIA",
    "AC",
    "AC0",
    "SK",
    "M",
    "M-",
    "M.",
    "N.a.",
    "xoxb-",
    "key-",
    "key",
    "key=",
    "key: ",
    "_key=",
    "a_key=",
    "token",
    "token=",
    "token =",
    "token: a1",
    "token=a1",
    "token='",
    "token=\"a",
    "x_token=\"1a ",
    "password",
    "password=",
    "password:",
    "password=a,",
    "password: a b ",
    "password='a",
    "secret_",
    "secret-",
    "secret.",
    "secret\\\"",
    "passwordpassword=",
    "Authorization: ",
    "Authorization:Bearer ",
    "Bearer ",
    "Bearer a",
    "Basic ",
    "Basic a",
    "basic aaaa",
    "Cookie: ",
    "Cookie:a",
    " -u",
    " -u a",
    " -u a:",
    "--user ",
    "--user=a:",
    "mysql ",
    "mysql -p",
    "sshpass -p ",
    "openssl a",
    "redis-cli  ",
    "docker login ",
    "identified by ",
    "identified by '",
    "login a password ",
    "0",
    "1 ",
    "1-",
    "1.",
    "1/",
    "12 ",
    "12-",
    "123 ",
    "1234 ",
    "1234-",
    "(1) ",
    "+1",
    "+1 ",
    "+49 ",
    "+49",
    "00",
    "001 ",
    "01 ",
    "01-",
    "4111 ",
    "4111-",
    "41111111111111111111",
    "4111111111111 ",
    "tel 1 ",
    "tel:1",
    "tel 123 ",
    "A1",
    "AB1",
    "AB 12 ",
    "X1",
    "Z1234567",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY----- a ",
    "-----BEGIN PRIVATE KEY-----\nVersion: ",
    "-----BEGIN A ",
    "Private-Lines: 1",
    "Private-Lines:1 ",
    ".atlasv1.",
    "aaaaaaaaaaaaaa.atlasv1.",
    "Q~",
    "1Q~",
    "aaa1Q~",
    ":AA",
    "1:AA",
    "12345678:AA",
    "hooks.slack.com/services/",
    "SG.",
    "SG.a",
    "A3-",
    "A3-a",
    "PMAK-",
    "v1.0-",
    "pat",
    "pat1",
    "CCIPAT_",
    "1//0",
    "%3D",
    "\\n",
    "\\n1",
    "\u{1b}[1m",
    "\u{1b}[1;1",
    "[1m",
    "\\u0026",
    "*",
    "**",
    "***",
    "* ",
    "=",
    ":",
    "\"",
    "'",
    "\\",
    " ",
    "\n",
    "\t",
    "a",
    "A",
    "é",
    "中",
    "_",
    "-",
    ".",
    "<password>",
    "<a>",
    "</password>",
    "token%3D",
    "token[",
    "token\"]",
    "token  ",
    "token          = ",
    "a=1&token=1&",
    "dt0c01.",
    "glsa_",
    "eyJrIjoi",
    "ops_eyJ",
    "Digest ",
    "Authorization: Digest ",
    "key-0123456789abcdef0123456789abcde",
    "AKIA0123456789ABCDE",
    "sk-aaaaaaaaaaaaaaaaaaaa-",
    "gsk_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-",
];

#[test]
fn no_repetition_keeps_the_rules_busy() {
    let measure = |text: &&'static str| (effort(text.repeat(4000 / text.len()).as_bytes()), *text);
    let mut all: Vec<(u64, &str)> = BUSY.iter().map(measure).collect();
    all.sort_unstable();
    let worst = &all[all.len() - 20..];
    assert!(worst[19].0 <= MOST * 100, "too many hundredths for each byte: {worst:?}");
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
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

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
        let cases = template::positives();
        let text = &cases[index.index(cases.len())].text;
        let cut: String = text.chars().take(text.chars().count() * keep / 100).collect();
        let effort = effort(cut.repeat(5000 / cut.len().max(1)).as_bytes());
        prop_assert!(effort <= MOST * 100, "{} hundredths for each byte of {:?}", effort, cut);
    }
}
