//! Secrets that do not stand there as they are: coloured, in base64, in hex digits, in a dump.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use shellkeep_redact::{Config, Redactor};

/// A token that a rule finds, a value that is registered, and what else may be hidden.
const TOKEN: &str = concat!("ghp_", "a1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
const VALUE: &str = "correct-horse-battery";

fn redactor() -> Redactor {
    Redactor::new(&Config::default()).unwrap().with_secrets([VALUE]).unwrap()
}

/// The rows of `hexdump -C`.
fn hexdump(bytes: &[u8]) -> String {
    let row = |(number, row): (usize, &[u8])| {
        let pairs: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = pairs.split_at(pairs.len().min(8));
        let hex = format!("{:<23}  {:<23}", left.join(" "), right.join(" "));
        format!("{:08x}  {hex}  |{}|\n", number * 16, letters(row))
    };
    bytes.chunks(16).enumerate().map(row).collect()
}

/// The rows of `xxd`.
fn xxd(bytes: &[u8]) -> String {
    let row = |(number, row): (usize, &[u8])| {
        let groups: Vec<String> =
            row.chunks(2).map(|two| two.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        format!("{:08x}: {:<39}  {}\n", number * 16, groups.join(" "), letters(row))
    };
    bytes.chunks(16).enumerate().map(row).collect()
}

fn letters(row: &[u8]) -> String {
    row.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' }).collect()
}

/// As `grep --color` shows it when a part of it is what was looked for.
fn coloured(text: &str, from: usize, to: usize) -> String {
    format!("{}\x1b[01;31m\x1b[K{}\x1b[m\x1b[K{}", &text[..from], &text[from..to], &text[to..])
}

#[test]
fn colours_within_a_secret_do_not_hide_it() {
    let redactor = redactor();
    for secret in [TOKEN, VALUE] {
        for (from, to) in [(0, 4), (3, 9), (5, 6), (10, 15), (1, secret.len() - 1), (12, secret.len())] {
            let text = format!("config.yml:3:  {}, next\n", coloured(secret, from, to));
            let masked = redactor.redact_str(&text);
            assert!(masked.starts_with("config.yml:3:  ") && masked.ends_with(", next\n"), "{masked:?}");
            assert!(masked.contains("***"), "{masked:?}");
            let bare: String = masked.split("\x1b[01;31m\x1b[K").collect::<Vec<_>>().join("");
            let bare = bare.replace("\x1b[m\x1b[K", "");
            assert_eq!(bare, "config.yml:3:  ***, next\n", "{from}..{to} of {secret}");
        }
    }
    // The name is coloured and the value is not.
    let text = "\x1b[01;31m\x1b[Kpass\x1b[m\x1b[Kword=hunter2-hunter\n";
    assert_eq!(redactor.redact_str(text), "\x1b[01;31m\x1b[Kpass\x1b[m\x1b[Kword=***\n");
}

#[test]
fn base64_and_hex_digits_do_not_hide_it() {
    let redactor = redactor();
    let json = format!("{{\"user\": \"ann\", \"token\": \"{TOKEN}\"}}");
    for hidden in [TOKEN.to_owned(), format!("export GH={TOKEN}"), json, "password=hunter2-hunter".to_owned()] {
        for encoded in [STANDARD.encode(&hidden), URL_SAFE_NO_PAD.encode(&hidden), hex(hidden.as_bytes())] {
            for (before, behind) in [("", "\n"), ("data: ", "\n"), ("\"", "\",\n"), ("x=", " y\n")] {
                let bare = encoded.trim_end_matches('=');
                let masked = redactor.redact_str(&format!("{before}{encoded}{behind}"));
                assert!(masked.contains("***") && !masked.contains(&bare[..12]), "{hidden}: {masked:?}");
                assert!(masked.starts_with(before) && masked.ends_with(behind), "{masked:?}");
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_token_in_lines_of_base64_is_found_wherever_it_is_broken() {
    let redactor = redactor();
    for before in 20..90 {
        let text = format!("{} {TOKEN} and so on, and so on", "lorem ".repeat(20).split_at(before).0);
        let encoded = STANDARD.encode(&text);
        for width in [64, 76] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let masked = redactor.redact_str(&format!("begin\n{}\nend of it\n", lines.join("\n")));
            assert!(masked.starts_with("begin\n***\n") && masked.ends_with("\nend of it\n"), "{before}: {masked}");
        }
    }
}

#[test]
fn a_dump_does_not_hide_it() {
    let redactor = redactor();
    for secret in [TOKEN, VALUE, "password=hunter2-hunter"] {
        for before in 0..20 {
            let text = format!("{} {secret} behind it", "x".repeat(before));
            for dump in [hexdump(text.as_bytes()), xxd(text.as_bytes())] {
                let masked = redactor.redact_str(&format!("$ show\n{dump}$ next\n"));
                let rows: Vec<&str> = masked.lines().collect();
                assert!(rows[1].starts_with("00000000") && rows[1].ends_with("***"), "{masked}");
                assert!(
                    rows.len() == dump.lines().count() + 2
                        && rows.iter().skip(1).rev().skip(1).all(|row| row.ends_with("***")),
                    "{masked}"
                );
                assert_eq!((rows[0], rows[rows.len() - 1]), ("$ show", "$ next"));
            }
        }
    }
}

#[test]
fn what_was_in_disguise_is_told_with_its_rule_and_place() {
    let text = format!("a: {}\n{}", STANDARD.encode(TOKEN), coloured(TOKEN, 2, 9));
    let found = redactor().find(text.as_bytes());
    let kinds: Vec<&str> = found.iter().map(|finding| finding.rule).collect();
    assert_eq!(kinds, ["github", "github"]);
    assert_eq!(found[0].range, 3..3 + STANDARD.encode(TOKEN).len());
    assert_eq!(found[1].range.end, text.len());
}
