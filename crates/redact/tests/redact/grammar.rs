//! Documents that a grammar makes: settings, manifests, headers, commands and logs with secrets at known places, between
//! lines without any, dressed as they turn up in the wild. No secret may come through, what is none must, the laws hold, and
//! the work stays in proportion, also for a document that is torn to pieces and put together again.

use crate::laws::cases;
use crate::template::{self, Random};
use crate::work::{MOST, effort};
use proptest::prelude::*;
use shellkeep_redact::{Config, Redactor, Stream};
use std::sync::LazyLock;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&Config::default()).unwrap());

/// Texts around a value. `$N` is its name in small letters, `$C` the name in capitals, `$V` the value.
const ENTRIES: &[&str] = &[
    "$C=$V\n",
    "export $C=$V\n",
    "export $C=\"$V\"\n",
    "$C='$V' make\n",
    "$N: $V\n",
    "  $N: \"$V\"\n",
    "    $N: '$V'\n",
    "- $C=$V\n",
    "$N = $V\n",
    "$N = \"$V\"\n",
    "$N=$V\n",
    "app.$N=$V\n",
    "$N := `$V`\n",
    "{\"id\": 7, \"$N\": \"$V\", \"on\": true}\n",
    "{\n  \"$N\": \"$V\"\n}\n",
    "{\"$N\":\"$V\"}\n",
    "{'$N': '$V'}\n",
    "GET /x?a=1&$N=$V&b=2 HTTP/1.1\n",
    "X-$N: $V\n",
    "< x-$N: $V\n",
    "tool --$N $V --on\n",
    "tool --$N=$V\n",
    "docker run -e $C=$V image\n",
    "<$N>$V</$N>\n",
    "<item $N=\"$V\"/>\n",
    "cfg[\"$N\"] = \"$V\"\n",
    "'$N' => '$V',\n",
    "Server=db;$N=$V;Port=1\n",
    "\x1b[1m$N\x1b[0m: $V\n",
    "+$N: $V\n",
];
/// Texts with a name and a value apart, which are not the same on one line.
const PAIRS: &[&str] = &[
    "- name: $C\n  value: $V\n",
    "{\"name\": \"$C\", \"value\": \"$V\"}\n",
    "{\n  \"Name\": \"$C\",\n  \"Value\": \"$V\"\n}\n",
    "<name>$N</name>\n<value>$V</value>\n",
    "machine h\n  login u\n  password $V\n",
];
/// Texts that need no name.
const PLACES: &[&str] = &[
    "postgres://ann:$V@db:5432/app\n",
    "url=https://ann:$V@host/x?y=1\n",
    "Authorization: Bearer $V\n",
    "curl -H 'Authorization: Bearer $V' https://x\n",
    "curl -u ann:$V https://x\n",
    "echo $V | sudo -S true\n",
    "CREATE USER u IDENTIFIED BY '$V'\n",
    "ALTER USER u PASSWORD '$V'\n",
];
const NAMES: &[&str] =
    &["password", "db_password", "secret", "client_secret", "api_key", "secret_access_key", "passphrase"];
/// Values that are secrets by themselves, as templates.
const TOKENS: &[&str] = &[
    "ghp_{alnum:36}",
    "sk-ant-api03-{token:95}",
    "glpat-{token:20}",
    "xoxb-{digits:12}-{digits:12}-{alnum:24}",
    "AKIA{upper:16}",
    "{jwt}",
    "hf_{alnum:34}",
    "sk_live_{alnum:24}",
];
/// Other values.
const VALUES: &[&str] = &["{alnum:12}", "{hex:32}", "{alnum:40}", "p{alnum:8}", "t{token:23}", "{letters:5}{digits:3}"];
/// Names and values that are no secrets.
const PLAIN: &[(&str, &str)] = &[
    ("user", "ann"),
    ("port", "8080"),
    ("token_type", "opaque"),
    ("max_tokens", "4096"),
    ("version", "1.22.333"),
    ("commit", "0123456789abcdef0123456789abcdef01234567"),
    ("started", "2024-01-02T03:04:05Z"),
    ("secret_name", "db-credentials-1"),
    ("password_file", "/run/x1"),
];
/// What a whole document may be dressed in.
#[derive(Debug, Clone, Copy)]
enum Dress {
    Plain,
    /// With carriage returns.
    Crlf,
    /// Behind a time and a level.
    Logged,
    /// In a quotation.
    Quoted,
    /// As a string in JSON.
    Json,
}

/// A part of a document, and what it hides and shows.
#[derive(Debug, Clone)]
struct Part {
    text: String,
    secret: Option<String>,
    shown: Option<String>,
}

/// A text with its name and its value.
fn filled(entry: &str, name: &str, value: &str) -> String {
    entry.replace("$N", name).replace("$C", &name.to_uppercase()).replace("$V", value)
}

fn secret_part(entries: &'static [&'static str]) -> impl Strategy<Value = Part> {
    let value = prop_oneof![0..TOKENS.len(), (0..VALUES.len()).prop_map(|index| index + TOKENS.len())];
    (0..entries.len(), 0..NAMES.len(), value, any::<u32>()).prop_map(move |(entry, name, value, seed)| {
        let form = TOKENS.iter().chain(VALUES).nth(value).unwrap();
        let value = template::expand_with(form, &mut Random::seeded(&seed.to_string())).text;
        Part { text: filled(entries[entry], NAMES[name], &value), secret: Some(value), shown: None }
    })
}

fn plain_part() -> impl Strategy<Value = Part> {
    (0..ENTRIES.len(), 0..PLAIN.len()).prop_map(|(entry, plain)| {
        let (name, value) = PLAIN[plain];
        Part { text: filled(ENTRIES[entry], name, value), secret: None, shown: Some(value.to_owned()) }
    })
}

fn noise() -> impl Strategy<Value = Part> {
    static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let cases = template::negatives().into_iter().filter(|case| case.rule.is_empty());
        // A quote or a bracket that stays open belongs to what follows it.
        let whole = cases.map(|case| case.text).filter(|text| !text.contains(['"', '\'', '`', '<', '\n', '*', ':']));
        // A plus means something else when it is not at the start of a line any more.
        whole.filter(|text| !text.contains("PRIVATE KEY") && !text.starts_with('+')).collect()
    });
    (0..LINES.len(), 1..4_usize).prop_map(|(line, times)| {
        let line = &LINES[line];
        Part { text: format!("{line}\n").repeat(times), secret: None, shown: Some(line.clone()) }
    })
}

fn document() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        5 => secret_part(ENTRIES),
        2 => secret_part(PAIRS),
        3 => secret_part(PLACES),
        3 => plain_part(),
        4 => noise(),
    ];
    prop::collection::vec(part, 1..14)
}

fn dress() -> impl Strategy<Value = Dress> {
    prop_oneof![
        3 => Just(Dress::Plain),
        1 => Just(Dress::Crlf),
        1 => Just(Dress::Logged),
        1 => Just(Dress::Quoted),
        1 => Just(Dress::Json),
    ]
}

fn dressed(text: &str, dress: Dress) -> String {
    let each = |before: &str| text.lines().map(|line| format!("{before}{line}\n")).collect();
    match dress {
        Dress::Plain => text.to_owned(),
        Dress::Crlf => text.replace('\n', "\r\n"),
        Dress::Logged => each("2024-01-02T03:04:05.678Z INFO app: "),
        Dress::Quoted => each("> "),
        Dress::Json => {
            let escaped =
                text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\x1b', "\\u001b");
            format!("{{\"level\":\"info\",\"output\":\"{escaped}\"}}\n")
        }
    }
}

/// Whether an entry means the same in this dress: one of several lines does not if something comes between them.
fn keeps_meaning(part: &Part, dress: Dress) -> bool {
    let lines = part.text.trim_end().contains('\n');
    match dress {
        Dress::Plain | Dress::Crlf => true,
        Dress::Logged | Dress::Quoted | Dress::Json => !lines,
    }
}

fn in_pieces(text: &str, size: usize) -> String {
    let (mut stream, mut out) = (REDACTOR.stream(), Vec::new());
    for piece in text.as_bytes().chunks(size) {
        stream.push(piece, &mut out);
        assert!(stream.held() <= Stream::MAX_HELD, "{} bytes are held back", stream.held());
    }
    stream.finish(&mut out);
    String::from_utf8(out).unwrap()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: cases(400),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn documents_lose_their_secrets_and_nothing_else(parts in document(), dress in dress(), size in 1..200_usize) {
        let parts: Vec<Part> = parts.into_iter().filter(|part| keeps_meaning(part, dress)).collect();
        let text = dressed(&parts.iter().map(|part| part.text.as_str()).collect::<String>(), dress);
        let masked = REDACTOR.redact_str(&text);
        for part in &parts {
            if let Some(secret) = &part.secret {
                prop_assert!(!masked.contains(secret.as_str()), "{:?} is left in\n{}\nof\n{}", secret, masked, text);
            }
            if let Some(shown) = &part.shown {
                prop_assert!(masked.contains(shown.as_str()), "{:?} is gone from\n{}\nof\n{}", shown, masked, text);
            }
        }
        prop_assert_eq!(&REDACTOR.redact_str(&masked), &masked);
        prop_assert_eq!(in_pieces(&text, size), masked);
        prop_assert!(effort(text.as_bytes()) <= MOST * 100, "{} hundredths for each byte of\n{}", effort(text.as_bytes()), text);
    }

    /// Scraps of documents, put together at random and repeated: the laws hold where no meaning is left.
    #[test]
    fn scraps_of_documents_keep_the_laws(
        parts in prop::collection::vec((document(), dress(), 0..100_usize, 1..100_usize), 1..5),
        size in 1..600_usize,
        times in 1..30_usize,
    ) {
        let scrap = |(document, dress, from, length): &(Vec<Part>, Dress, usize, usize)| {
            let text = dressed(&document.iter().map(|part| part.text.as_str()).collect::<String>(), *dress);
            let letters: Vec<char> = text.chars().collect();
            letters.iter().skip(letters.len() * from / 100).take(*length).collect::<String>()
        };
        let text = parts.iter().map(scrap).collect::<String>().repeat(times);
        let masked = REDACTOR.redact_str(&text);
        prop_assert_eq!(&REDACTOR.redact_str(&masked), &masked);
        prop_assert_eq!(in_pieces(&text, size), masked);
        prop_assert!(effort(text.as_bytes()) <= MOST * 100, "{} hundredths for each byte of {:?}", effort(text.as_bytes()), text);
    }
}
