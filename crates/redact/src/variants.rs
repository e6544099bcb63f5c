//! The forms in which a value may turn up: as it is, escaped for JSON, for a URL or for a shell, in base64, in hex digits.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Shortest line of a broken text in base64 that is looked for by itself.
const LEAST_LINE: usize = 12;

/// Every form of a value, without those that are the same.
pub(crate) fn all(value: &[u8]) -> Vec<Vec<u8>> {
    let json = json(value, false);
    let upper = |byte: u8| format!("%{byte:02X}");
    let mut forms = vec![
        value.to_vec(),
        json.clone(),
        json_with_slashes(&json),
        self::json(value, true),
        self::json(&json, false),
        url(value, b"-._~", upper),
        url(value, b"-._~", |byte| format!("%{byte:02x}")),
        url(value, b"-._*", |byte| if byte == b' ' { "+".to_owned() } else { upper(byte) }),
        url(value, b"-._~!$'()*,;:@/", upper),
        shell(value),
        with_backslashes(value, SHELL_SIGNS),
        with_backslashes(value, b"$`\"\\!"),
        with_backslashes(value, b"$`\"\\"),
        with_backslashes(value, b"'\\"),
        html(value, &[(b'&', "&amp;"), (b'<', "&lt;"), (b'>', "&gt;"), (b'"', "&quot;")]),
        html(value, &[(b'&', "&amp;"), (b'<', "&lt;"), (b'>', "&gt;"), (b'"', "&#34;"), (b'\'', "&#39;")]),
        html(value, &[(b'&', "&amp;"), (b'<', "&lt;"), (b'>', "&gt;"), (b'"', "&quot;"), (b'\'', "&apos;")]),
        hex(value, |byte| format!("{byte:02x}")),
        hex(value, |byte| format!("{byte:02X}")),
    ];
    forms.extend(in_base64(value));
    forms.sort();
    forms.dedup();
    forms
}

/// As in a JSON string. With `ascii`, other letters are escaped too, as some writers do.
fn json(value: &[u8], ascii: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let Ok(text) = std::str::from_utf8(value) else { return value.to_vec() };
    for letter in text.chars() {
        match letter {
            '"' => out.extend(b"\\\""),
            '\\' => out.extend(b"\\\\"),
            '\t' => out.extend(b"\\t"),
            '\r' => out.extend(b"\\r"),
            '\u{8}' => out.extend(b"\\b"),
            '\u{c}' => out.extend(b"\\f"),
            _ if (letter as u32) < 0x20 || (ascii && !letter.is_ascii()) => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    out.extend(format!("\\u{unit:04x}").into_bytes());
                }
            }
            _ => out.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    out
}

/// JSON in which slashes are escaped, as PHP writes it.
fn json_with_slashes(json: &[u8]) -> Vec<u8> {
    json.iter().flat_map(|byte| if *byte == b'/' { vec![b'\\', b'/'] } else { vec![*byte] }).collect()
}

/// As in a URL: `escaped` writes every byte but letters, digits and those in `plain`.
fn url(value: &[u8], plain: &[u8], escaped: impl Fn(u8) -> String) -> Vec<u8> {
    let one = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() || plain.contains(byte) => vec![*byte],
        byte => escaped(*byte).into_bytes(),
    };
    value.iter().flat_map(one).collect()
}

/// As between single quotes in a shell.
fn shell(value: &[u8]) -> Vec<u8> {
    value.iter().flat_map(|byte| if *byte == b'\'' { b"'\\''".to_vec() } else { vec![*byte] }).collect()
}

/// What `printf %q` and completion put a backslash before.
const SHELL_SIGNS: &[u8] = b" \t'\"\\|&;()<>!{}*[]?^$`,";

/// With a backslash before each of `signs`: as in a shell without quotes or with double ones, or as Python shows a text.
fn with_backslashes(value: &[u8], signs: &[u8]) -> Vec<u8> {
    value.iter().flat_map(|byte| if signs.contains(byte) { vec![b'\\', *byte] } else { vec![*byte] }).collect()
}

/// As in HTML and XML, by these names for signs.
fn html(value: &[u8], names: &[(u8, &str)]) -> Vec<u8> {
    let name = |byte: &u8| names.iter().find(|(sign, _)| sign == byte).map(|(_, name)| name.as_bytes().to_vec());
    value.iter().flat_map(|byte| name(byte).unwrap_or_else(|| vec![*byte])).collect()
}

/// In hex digits.
fn hex(value: &[u8], digits: fn(&u8) -> String) -> Vec<u8> {
    value.iter().flat_map(|byte| digits(byte).into_bytes()).collect()
}

/// In base64, alone or within something longer. There are three ways in which its bytes may lie there; of each, what does
/// not depend on the neighbours is taken, and of the first also the whole.
fn in_base64(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for engine in [STANDARD, URL_SAFE] {
        let whole = engine.encode(value);
        forms.push(whole.trim_end_matches('=').as_bytes().to_vec());
        // Tools break a long text into lines of 64 or 76.
        for line in [64, 76] {
            let lines =
                whole.as_bytes().chunks(line).filter(|part| part.len() >= LEAST_LINE && part.len() < whole.len());
            forms.extend(lines.map(<[u8]>::to_vec));
        }
        forms.push(whole.into_bytes());
        for before in 0..3 {
            let shifted: Vec<u8> = std::iter::repeat_n(0, before).chain(value.iter().copied()).collect();
            let encoded = engine.encode(&shifted).into_bytes();
            // Bits of the neighbours are in the letters before the first whole one and behind the last.
            let first = (before * 8).div_ceil(6);
            let last = shifted.len() * 8 / 6;
            forms.push(encoded.get(first..last).unwrap_or_default().to_vec());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(value: &str, form: &str) -> bool {
        all(value.as_bytes()).iter().any(|known| known == form.as_bytes())
    }

    #[test]
    fn values_are_known_in_every_dress() {
        assert!(holds("a\"b\\c/d", "a\\\"b\\\\c/d"));
        assert!(holds("a\"b\\c/d", "a\\\"b\\\\c\\/d"));
        assert!(holds("a\"b", "a\\\\\\\"b"));
        assert!(holds("pä", "p\\u00e4"));
        assert!(holds("a b&c", "a%20b%26c"));
        assert!(holds("a b&c", "a+b%26c"));
        assert!(holds("a/b", "a%2fb"));
        assert!(holds("it's", "it'\\''s"));
        assert!(holds("a&b", "a&amp;b"));
        assert!(holds("a'b", "a&#39;b"));
        assert!(holds("a b$c!", "a\\ b\\$c\\!"));
        assert!(holds("a b$c!", "a b\\$c!"));
        assert!(holds("it's", "it\\'s"));
        assert!(holds("kJ", "6b4a") && holds("kJ", "6B4A"));
    }

    #[test]
    fn long_base64_is_found_line_by_line() {
        let value: String = (0..100).map(|n| char::from(b'a' + n % 26)).collect();
        let encoded = STANDARD.encode(&value);
        for line in
            encoded.as_bytes().chunks(76).chain(encoded.as_bytes().chunks(64)).filter(|line| line.len() >= LEAST_LINE)
        {
            assert!(holds(&value, std::str::from_utf8(line).unwrap()), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn base64_is_found_wherever_it_lies() {
        let value = "correct-horse";
        for before in 0..6 {
            for behind in 0..6 {
                let text = format!("{}{value}{}", "x".repeat(before), "y".repeat(behind));
                let encoded = STANDARD.encode(text);
                let found = all(value.as_bytes())
                    .iter()
                    .any(|form| form.len() > 8 && encoded.contains(&*String::from_utf8_lossy(form)));
                assert!(found, "{before} bytes before, {behind} behind");
            }
        }
    }
}
