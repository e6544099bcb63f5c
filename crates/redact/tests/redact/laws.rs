//! The laws: masking twice is masking once, masking in pieces is masking the whole, UTF-8 stays UTF-8, and little is held
//! back. Shown on random bytes, and on texts made of what the rules look for, put together in every senseless way.

use crate::template;
use proptest::prelude::*;
use shellkeep_redact::{Config, Pattern, Redactor, Rules, Stream};
use std::sync::LazyLock;

/// Everything there is: all rules, national ids, patterns, values.
static ALL: LazyLock<Redactor> = LazyLock::new(|| {
    let pattern = |name: &str, regex: &str| Pattern { name: name.to_owned(), regex: regex.to_owned() };
    let national =
        Rules::names().map(|(name, _)| name.to_owned()).filter(|name| !Rules::default().contains(name)).collect();
    let config = Config {
        optional: national,
        extra: vec![
            pattern("staff", r"EMP-\d{4}(?:-\w{2})?"),
            pattern("ticket", r"#[0-9]{3,6}"),
            pattern("any", r"x.y"),
            pattern("long", r"(?i)zz[a-z ]{1,30}z"),
        ],
        ..Config::default()
    };
    let values = [
        "hunter2hunter",
        "pa ss/wo+rd",
        "st*ar**red",
        "***starred***",
        "ünïcödé-secret",
        "EMP-12",
        "a\"b\\c&d<e>",
        "4111 11",
    ];
    Redactor::new(&config).unwrap().with_secrets(values).unwrap()
});

static DEFAULT: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&Config::default()).unwrap());

/// Pieces of which texts are made.
const ATOMS: &[&str] = &[
    "password",
    "PASSWORD",
    "token",
    "api_key",
    "secret",
    "key",
    "auth",
    "Authorization",
    "Cookie",
    "pwd",
    "--token",
    "--password",
    "=",
    ":",
    ": ",
    " = ",
    "\"",
    "'",
    "`",
    "\\\"",
    "\\n",
    "\\",
    ",",
    ";",
    "&",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "***",
    "*",
    "**",
    "****",
    "$",
    "${",
    "%",
    "%3D",
    "%s",
    "@",
    "#",
    "!",
    "?",
    ".",
    "..",
    "-",
    "--",
    "_",
    "/",
    "://",
    "+",
    "~",
    "|",
    "::",
    "->",
    "é",
    "ß",
    "中",
    "\u{1b}[31m",
    "\u{1b}[0m",
    "\\u0026",
    "Bearer ",
    "Basic ",
    "dXNlcjpwYXNz",
    "basic",
    "bearer",
    concat!("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789"),
    concat!("hf_", "abcdefghijklmnopqrstuvwxyzabcdefgh"),
    "sk-",
    "sk-ant-",
    "AKIA",
    concat!("AKIA", "ABCDEFGHIJKLMNOP"),
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9",
    concat!("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxIn0x.abcdefghij"),
    "AC",
    "SK",
    "0123456789abcdef0123456789abcdef",
    "xoxb-1234567890",
    "key-",
    "Q~",
    "1Q~",
    ":AA",
    "123456789",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "M",
    "ann",
    "x.com",
    "example.com",
    "ann@example.com",
    "git",
    "com",
    "co",
    "png",
    "http",
    "https",
    "postgres",
    "user:pw@host",
    "user",
    "hunter2",
    "hunter2hunter",
    "pa ss/wo+rd",
    "st*ar**red",
    "starred",
    "ünïcödé-secret",
    "cGEgc3Mvd28rcmQ=",
    "EMP-1234",
    "EMP-12",
    "EMP-1234-ab",
    "#1234",
    "#",
    "x.y",
    "xéy",
    "zz z",
    "zza bz",
    "0",
    "1",
    "4",
    "7",
    "00",
    "01",
    "30",
    "49",
    "123",
    "555",
    "415",
    "0100",
    "1234",
    "2671",
    "4111",
    "1111",
    "12345",
    "123456",
    "1234567",
    "4111111111111111",
    "4111 1111 1111 1111",
    "+49",
    "+1",
    "030",
    "0049",
    "415-555-2671",
    "123-45-6789",
    "86095742719",
    "AB123456C",
    "ABCPE1234F",
    "12345678Z",
    "X",
    concat!("-----BEGIN ", "PRIVATE KEY-----"),
    concat!("-----END ", "PRIVATE KEY-----"),
    "-----BEGIN ",
    concat!("MIIEvQIB", "ADANBgkqhkiG9w0BAQEFAASC"),
    "MIIE",
    "Version: ",
    "Private-Lines: 3",
    "curl",
    " -u ",
    "--user",
    "mysql",
    " -p",
    "sshpass",
    "redis-cli",
    " -a ",
    "login ",
    "identified by ",
    "phone",
    "create user ",
    "setPassword(",
    "\"\"\"",
    ": str = ",
    " | ",
    "let ",
    "smbclient -U ",
    "ann%",
    ":5432:",
    ":ann:",
    "tel",
    "null",
    "true",
    "the",
    "is",
    "abc",
    "a1b2c3d4",
    "secretword",
    "os",
    "self",
    "hooks.slack.com/services/",
    "T00000000/B00000000/X",
    ".atlasv1.",
    "abcdefghijklmn",
    "SG.",
    "v1.0-",
    "realm",
    "Digest ",
    "<password>",
    "</password>",
    "name: ",
    "value: ",
    "\"value\":",
    "\"name\":",
    "</name>",
    "<value>",
    "</key>",
    "<string>",
    " is ",
    "API key",
    "密码",
    "：",
    "是",
    "echo ",
    " | ",
    "sudo -S",
    "chpasswd",
    "\" -> \"",
    "?code=",
    "&sig=",
    "AZDO",
    "$6$",
    "$1$",
    "abcdefghij$",
    "abcdefghijklmnopqrstuv",
    concat!("LS0tLS1CRUdJTi", "BQUklWQVRFIEtFWS0tLS0t"),
    "-storepass",
    "requirepass ",
    "login",
    "user ",
    "$ecr3t",
    "!Ref ",
    "v1.2",
    "QmFzZVNpeHR5Rm91clRleHQ",
    "\u{1b}[01;31m\u{1b}[K",
    "\u{1b}[m\u{1b}[K",
    "\u{1b}[",
    "\r",
    "ghp_abcdefghijkl",
    "mnopqrstuvwxyz0123456789",
    "Z2hwX2FiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6MDEyMzQ1Njc4OQ",
    "Z2hwX2FiY2RlZmdoaWpr",
    "cGFzc3dvcmQ9aHVudGVyMmh1bnRlcg==",
    "70617373776f72643d68756e74657232",
    "\n00000000  67 68 70 5f 61 62 63 64  65 66 67 68 69 6a 6b 6c  |ghp_abcdefghijkl|\n",
    "\n00000010  6d 6e 6f 70 71 72 73 74  75 76 77 78 79 7a 30 31  |mnopqrstuvwxyz01|\n",
    "\n00000020: 3233 3435 3637 3839 3031 3233 0a            234567890123.\n",
    "00000030  34 31 31 31 20 31 31 31  31",
    "00000000  20 20 70 61 73 73 77 6f  72 64 3d 68 75 6e 74 65  |  password=hunte|\n",
    "00000010  72 32 0a                                          |r2.|\n",
    "\neyJrIjogInBhc3N3b3JkPWh1bnRlcjJodW50ZXIiLCAiYSI6ICJhYWFhYWFh\n",
    "\nZ2hwX2FiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6MDEyMzQ1Njc4OSBhbmQg\n",
    "bW9yZSB0ZXh0IGhlcmU=\n",
];

fn atoms() -> impl Strategy<Value = String> {
    let atom = (0..ATOMS.len()).prop_map(|index| ATOMS[index].to_owned());
    prop::collection::vec(atom, 0..24).prop_map(|atoms| atoms.concat())
}

/// A text of atoms, cases of the corpus, and long runs that go beyond every window.
fn text() -> impl Strategy<Value = String> {
    static CASES: LazyLock<Vec<String>> = LazyLock::new(|| {
        template::positives().into_iter().chain(template::negatives()).map(|case| case.text).collect()
    });
    let case = (0..CASES.len()).prop_map(|index| CASES[index].clone());
    let run = (0..ATOMS.len(), 1..400_usize).prop_map(|(index, count)| ATOMS[index].repeat(count));
    let part = prop_oneof![6 => atoms(), 2 => case, 1 => run];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

/// Places to cut a text, as parts of its length.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(0..10_000_usize, 0..12),
        (1..40_usize).prop_map(|count| (0..count).map(|n| n * 10_000 / count).collect()),
    ]
}

fn in_pieces(redactor: &Redactor, text: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut * text.len() / 10_000).chain([0, text.len()]).collect();
    places.sort_unstable();
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    for pair in places.windows(2) {
        stream.push(&text[pair[0]..pair[1]], &mut out);
        assert!(stream.held() <= Stream::MAX_HELD, "{} bytes are held back", stream.held());
    }
    stream.finish(&mut out);
    out
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(600), max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn masking_twice_is_masking_once(text in text()) {
        for redactor in [&*ALL, &*DEFAULT] {
            let once = redactor.redact(text.as_bytes());
            prop_assert_eq!(lossy(&redactor.redact(&once)), lossy(&once));
        }
    }

    #[test]
    fn masking_random_bytes_twice_is_masking_them_once(bytes in bytes()) {
        let once = ALL.redact(&bytes);
        prop_assert_eq!(ALL.redact(&once), once);
    }

    #[test]
    fn masking_in_pieces_is_masking_the_whole(text in text(), cuts in cuts()) {
        for redactor in [&*ALL, &*DEFAULT] {
            let whole = redactor.redact(text.as_bytes());
            prop_assert_eq!(lossy(&in_pieces(redactor, text.as_bytes(), &cuts)), lossy(&whole));
        }
    }

    #[test]
    fn masking_random_bytes_in_pieces_is_masking_the_whole(bytes in bytes(), cuts in cuts()) {
        prop_assert_eq!(in_pieces(&ALL, &bytes, &cuts), ALL.redact(&bytes));
    }

    #[test]
    fn text_stays_text(text in text()) {
        prop_assert!(String::from_utf8(ALL.redact(text.as_bytes())).is_ok());
    }

    #[test]
    fn findings_are_what_is_masked(text in text()) {
        let findings = DEFAULT.find(text.as_bytes());
        let (mut masked, mut from) = (Vec::new(), 0);
        for finding in &findings {
            prop_assert!(from <= finding.range.start && finding.range.start < finding.range.end, "{:?}", findings);
            masked.extend(&text.as_bytes()[from..finding.range.start]);
            masked.extend(shellkeep_redact::MASK);
            from = finding.range.end;
        }
        masked.extend(&text.as_bytes()[from..]);
        prop_assert_eq!(lossy(&masked), DEFAULT.redact_str(&text));
    }
}

/// Texts that changed when they were masked again, each by a way in which one mask can uncover another: a name judged once
/// that a mask cut in two, a limit that a mask brought nearer, a sign behind a mask that belonged to what was before it.
const ONCE_WRONG: &[&str] = &[
    concat!("key-AB123456C--token-----BEGIN AKIA", "ghp_", "abcdefghijklmnopqrstuvwxyz0123456789password"),
    concat!(
        "Cookie://4111 1111 1111 1111-----BEGIN ",
        "PRIVATE KEY-----4111 1111 1111 1111postgres..Bearer dXNlcjpwYXNzann@example.compassword#1234,cGE="
    ),
    "rediss://default:A3skdGVUkT2hb5lF2xy6@cache:6379hunter2hunterann@example.com=",
    "<password>curlhunter2hunterzz z$",
    concat!("-----BEGIN ", "PRIVATE KEY-----#1234:AKIA"),
    concat!("-----BEGIN ", "PRIVATE KEY-----#123 -pdXNlcjpwYXNz_"),
    "://0123456789abcdef0123456789abcdef@user:pw@host",
    concat!("Bearer AKIA", "ABCDEFGHIJKLMNOP*\" -> \"AC="),
    concat!(
        "LS0tLS1CRUdJTi",
        "BQUklWQVRFIEtFWS0tLS0tcGEgc3Mvd28rcmQ=eyJhbGciOiJIUzI1NiJ9",
        ".eyJzdWIiOiIxIn0x.abcdefghij"
    ),
    "****\u{1b}[12345678Z4111111111111111",
];

#[test]
fn what_changed_once_when_masked_again_does_not() {
    for text in ONCE_WRONG {
        let once = ALL.redact_str(text);
        assert_eq!(ALL.redact_str(&once), once, "{text}");
    }
}

/// How many cases a law is tried on; more when asked for by `PROPTEST_CASES`.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
