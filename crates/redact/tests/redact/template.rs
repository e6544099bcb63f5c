//! Cases of the corpus. Secrets are made when a test runs, from a kind and a length, so that no file here holds one.
//!
//! `{hex:40}` is forty random hex digits, `{card:4:16}` a card that begins with 4, `{jwt}` a token, `{begin:X}` and `{end:X}`
//! the frame of a key, `{key64:X}` a key in base64, `[[…]]` what must be masked. `⏎` is a line break, `␍` a carriage return,
//! `→` a tab, `␛` an escape character.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::ops::Range;

/// A text and what must be masked in it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The rule that must find it, or the national ids to look for in a case with nothing to find.
    pub rule: String,
    pub text: String,
    pub secrets: Vec<Range<usize>>,
}

impl Case {
    /// The text with its secrets masked.
    pub fn masked(&self) -> String {
        let mut out = String::new();
        let mut from = 0;
        for secret in &self.secrets {
            out.push_str(&self.text[from..secret.start]);
            out.push_str("***");
            from = secret.end;
        }
        out + &self.text[from..]
    }
}

/// Cases with something to find.
pub fn positives() -> Vec<Case> {
    lines(include_str!("corpus/positive.txt")).map(positive).collect()
}

/// Cases with nothing to find.
pub fn negatives() -> Vec<Case> {
    lines(include_str!("corpus/negative.txt"))
        .map(|line| match line.strip_prefix('@').and_then(|rest| rest.split_once('\t')) {
            Some((rule, text)) => Case { rule: rule.to_owned(), ..expand(text) },
            None => expand(line),
        })
        .collect()
}

fn positive(line: &str) -> Case {
    let (rule, text) = line.split_once('\t').unwrap_or_else(|| panic!("no tab in {line:?}"));
    Case { rule: rule.to_owned(), ..expand(text) }
}

fn lines(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# "))
}

/// Fills in a template.
pub fn expand(template: &str) -> Case {
    expand_with(template, &mut Random::seeded(template))
}

/// The same with other random text.
pub fn expand_with(template: &str, random: &mut Random) -> Case {
    let (mut text, mut secrets, mut open) = (String::new(), Vec::new(), None);
    let mut rest = template;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[[") {
            open = Some(text.len());
            rest = after;
        } else if let (Some(after), Some(start)) = (rest.strip_prefix("]]"), open) {
            secrets.push(start..text.len());
            open = None;
            rest = after;
        } else if let Some((made, after)) = rest.strip_prefix('{').and_then(|rest| placeholder(rest, random)) {
            text.push_str(&made);
            rest = after;
        } else {
            text.push(match letter {
                '⏎' => '\n',
                '→' => '\t',
                '␛' => '\x1b',
                '␍' => '\r',
                other => other,
            });
            rest = &rest[letter.len_utf8()..];
        }
    }
    assert!(open.is_none(), "an open [[ in {template:?}");
    Case { rule: String::new(), text, secrets }
}

/// What a placeholder stands for, and what follows it; nothing if it is none.
fn placeholder<'t>(rest: &'t str, random: &mut Random) -> Option<(String, &'t str)> {
    let (inside, after) = rest.split_once('}')?;
    let mut parts = inside.split(':');
    let kind = parts.next()?;
    let numbers: Vec<&str> = parts.collect();
    let length = |index: usize| numbers.get(index).and_then(|number| number.parse::<usize>().ok());
    let made = match kind {
        "jwt" => random.jwt(),
        "begin" => format!("-----BEGIN {}-----", numbers.first()?),
        "end" => format!("-----END {}-----", numbers.first()?),
        "pem" => (0..length(0)?).map(|_| random.string(BASE64, 64) + numbers.get(1).unwrap_or(&"\n")).collect(),
        "key64" => random.pem_in_base64(numbers.first()?, length(1)),
        "card" => random.card(numbers.first()?, length(1)?),
        "basic" => STANDARD.encode(format!("{}:{}", random.string(LOWER, 5), random.string(ALNUM, 9))),
        _ => random.string(alphabet(kind)?, length(0)?),
    };
    Some((made, after))
}

const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const BASE64: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";

fn alphabet(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "alnum" => ALNUM,
        "hex" => "0123456789abcdef",
        "HEX" => "0123456789ABCDEF",
        "upper" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "base32" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "lower" => "abcdefghijklmnopqrstuvwxyz0123456789",
        "letters" => LOWER,
        "cases" => &ALNUM[..52],
        "digits" => "0123456789",
        "base64" => BASE64,
        "token" => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
        _ => return None,
    })
}

/// Random text that is the same in every run.
pub struct Random(u64);

impl Random {
    pub fn seeded(text: &str) -> Self {
        Self(
            text.bytes()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    /// Letters of an alphabet. The last is a letter or a digit and one is a digit, as in nearly every random token.
    fn string(&mut self, alphabet: &str, length: usize) -> String {
        let letters = alphabet.as_bytes();
        let mut text: Vec<u8> = (0..length).map(|_| letters[self.below(letters.len())]).collect();
        if letters.contains(&b'2') && length > 4 {
            text[length / 2] = b'2';
        }
        while text.last().is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
            text.pop();
            text.push(letters[self.below(letters.len())]);
        }
        String::from_utf8(text).unwrap()
    }

    fn jwt(&mut self) -> String {
        let header =
            URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","typ":"JWT","kid":"{}"}}"#, self.string(ALNUM, 8)));
        let payload = URL_SAFE_NO_PAD.encode(format!(r#"{{"sub":"{}","iat":1516239022}}"#, self.string(ALNUM, 10)));
        format!("{header}.{payload}.{}", self.string(ALNUM, 43))
    }

    /// A block of a key in base64 once more, in lines of this length or in one.
    fn pem_in_base64(&mut self, label: &str, line: Option<usize>) -> String {
        let lines: String = (0..4).map(|_| self.string(BASE64, 64) + "\n").collect();
        let encoded = STANDARD.encode(format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n"));
        let lines = encoded.as_bytes().chunks(line.unwrap_or(encoded.len()));
        lines.map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n")
    }

    fn card(&mut self, prefix: &str, length: usize) -> String {
        loop {
            let number = prefix.to_owned() + &self.string("0123456789", length - prefix.len());
            let sum: u32 = number.bytes().rev().enumerate().map(|(n, byte)| double(n, u32::from(byte - b'0'))).sum();
            if sum.is_multiple_of(10) {
                return number;
            }
        }
    }
}

fn double(place: usize, digit: u32) -> u32 {
    if place.is_multiple_of(2) { digit } else { digit * 2 / 10 + digit * 2 % 10 }
}
