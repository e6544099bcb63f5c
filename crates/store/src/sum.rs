//! Checksums of what is stored. A line, row or file whose checksum does not match is damaged: it is reported as such
//! and never used. CRC-32 finds every change of up to 32 bits in a row and all but one in four billion of the others;
//! it protects against disks and accidents, not against a forger (recordings have a keyed chain for that).
//!
//! A file holds a JSON object; its checksum is the object's last field, `"sum"`, and covers all bytes before it.

use crc32fast::Hasher;

/// How a file ends without spaces: `,"sum":"` and 8 digits and `"}`. The name and the value may be surrounded by
/// spaces.
const NAME: &[u8] = b"\"sum\"";

/// Where a checksum is looked for: more than its field takes up, indented.
const FIELD_BYTES: usize = 64;

/// A file's bytes as they were before they were sealed.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsealed {
    /// The checksum was there and matched.
    Checked(Vec<u8>),
    /// There was none, as in files that an older program wrote.
    Without(Vec<u8>),
    /// It was there and did not match.
    Broken,
}

/// The message for a checksum that does not match.
pub const MISMATCH: &str = "its checksum does not match";

/// The message for a missing checksum.
pub const MISSING: &str = "its checksum is missing";

/// The checksum of some bytes.
pub fn of(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Adds the checksum to a JSON object, compact or indented.
pub fn seal(mut object: Vec<u8>) -> Vec<u8> {
    let indented = object.ends_with(b"\n}");
    object.truncate(object.len().saturating_sub(if indented { 2 } else { 1 }));
    let sum = of(&object);
    let (before, colon, after) = if indented { ("\n  ", ": ", "\n}\n") } else { ("", ":", "}\n") };
    // An object without fields needs no comma; all that are stored have some.
    let comma = if object.ends_with(b"{") { "" } else { "," };
    object.extend_from_slice(format!("{comma}{before}\"sum\"{colon}\"{sum:08x}\"{after}").as_bytes());
    object
}

/// Takes the checksum off again and compares it.
pub fn unseal(mut bytes: Vec<u8>) -> Unsealed {
    let Some((end, sum)) = field(&bytes) else { return Unsealed::Without(bytes) };
    bytes.truncate(end);
    if sum != Some(of(&bytes)) {
        return Unsealed::Broken;
    }
    bytes.push(b'}');
    Unsealed::Checked(bytes)
}

/// Where the field with the checksum begins, with the comma before it, and what it says if that can be read.
fn field(bytes: &[u8]) -> Option<(usize, Option<u32>)> {
    let from = bytes.len().saturating_sub(FIELD_BYTES);
    let last = &bytes[from..];
    let name = last.windows(NAME.len()).rposition(|window| window == NAME)?;
    let rest: Vec<u8> = last[name + NAME.len()..].iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // A value, not a name: the file of an older version, without a checksum.
    if !rest.starts_with(b":") {
        return None;
    }
    let digits = rest.strip_prefix(b":\"").and_then(|rest| rest.strip_suffix(b"\"}"));
    let sum = digits.and_then(read_hex);
    let before = last[..name].iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    let end = if last[before] == b',' { before } else { before + 1 };
    Some((from + end, sum))
}

/// A number of exactly 8 hexadecimal digits, as [`write_hex`] writes it.
pub(crate) fn read_hex(digits: &[u8]) -> Option<u32> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = std::str::from_utf8(digits).ok().filter(|text| text.len() == 8 && text.as_bytes().iter().all(is_hex))?;
    u32::from_str_radix(text, 16).ok()
}

/// Writes 8 hexadecimal digits. It is on the hot path of every append, and the standard formatter takes several times
/// as long.
pub(crate) fn write_hex(bytes: &mut Vec<u8>, number: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |place: u32| DIGITS[((number >> (place * 4)) & 15) as usize];
    bytes.extend([7, 6, 5, 4, 3, 2, 1, 0].map(digit));
}

/// A checksum that grows with what is added.
pub(crate) fn hasher() -> Hasher {
    Hasher::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_sealed_object_is_json_and_comes_back() {
        for value in [json!({"a": 1, "b": {"sum": "x"}}), json!({"sum": "00000000"}), json!({"a": []})] {
            for bytes in [serde_json::to_vec(&value).unwrap(), serde_json::to_vec_pretty(&value).unwrap()] {
                let sealed = seal(bytes.clone());
                serde_json::from_slice::<serde_json::Value>(&sealed).unwrap();
                let Unsealed::Checked(back) = unseal(sealed) else { panic!("{value}") };
                assert_eq!(serde_json::from_slice::<serde_json::Value>(&back).unwrap(), value);
            }
        }
    }

    #[test]
    fn what_has_no_checksum_is_told_apart() {
        for text in ["{\"a\":1}", "", "{", "[1]", "{\n  \"a\": 1\n}\n"] {
            assert_eq!(unseal(text.into()), Unsealed::Without(text.into()), "{text}");
        }
        assert_eq!(unseal(b"{\"a\":1,\"sum\":\"123\"}".to_vec()), Unsealed::Broken);
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_found(text in "[a-z\"]{0,80}", at in 0_usize..1000, flip in 1_u8..=255) {
            let sealed = seal(serde_json::to_vec_pretty(&json!({"text": text})).unwrap());
            let mut changed = sealed.clone();
            let at = at % sealed.len();
            changed[at] ^= flip;
            // A space for a space around the field says the same.
            match unseal(changed.clone()) {
                Unsealed::Checked(back) => prop_assert_eq!(Unsealed::Checked(back), unseal(sealed)),
                Unsealed::Without(_) | Unsealed::Broken => {}
            }
        }

        #[test]
        fn hex_digits_are_read_as_they_were_written(number: u32) {
            let mut bytes = Vec::new();
            write_hex(&mut bytes, number);
            prop_assert_eq!(read_hex(&bytes), Some(number));
        }
    }
}
