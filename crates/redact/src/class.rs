//! Sets of bytes, as tables that are made at compile time.

/// A set of bytes.
pub(crate) struct Class([bool; 256]);

impl Class {
    /// The bytes of `spec`; `a-z` is a range, and a `-` at the end is itself.
    pub(crate) const fn of(spec: &[u8]) -> Self {
        let mut set = [false; 256];
        let mut at = 0;
        while at < spec.len() {
            if at + 2 < spec.len() && spec[at + 1] == b'-' {
                let mut byte = spec[at];
                while byte < spec[at + 2] {
                    set[byte as usize] = true;
                    byte += 1;
                }
                set[byte as usize] = true;
                at += 3;
            } else {
                set[spec[at] as usize] = true;
                at += 1;
            }
        }
        Self(set)
    }

    /// Every byte that is neither a control character nor in `spec`: what is between delimiters.
    pub(crate) const fn visible_but(spec: &[u8]) -> Self {
        let without = Self::of(spec);
        let mut set = [true; 256];
        let mut byte = 0;
        while byte < 256 {
            set[byte] = byte >= 0x20 && byte != 0x7f && !without.0[byte];
            byte += 1;
        }
        Self(set)
    }

    /// Whether `byte` is in the set.
    #[inline]
    pub(crate) const fn has(&self, byte: u8) -> bool {
        self.0[byte as usize]
    }
}

/// What words are made of. No mask begins or ends between two of these; see `docs/design/redaction.md`.
pub(crate) static WORD: Class = Class::of(b"a-zA-Z0-9_");
pub(crate) static LETTER: Class = Class::of(b"a-zA-Z");
pub(crate) static IDENTIFIER: Class = Class::of(b"a-zA-Z_");
pub(crate) static DIGIT: Class = Class::of(b"0-9");
pub(crate) static ALNUM: Class = Class::of(b"a-zA-Z0-9");
pub(crate) static UPPER_ALNUM: Class = Class::of(b"A-Z0-9");
pub(crate) static LOWER_ALNUM: Class = Class::of(b"a-z0-9");
pub(crate) static HEX: Class = Class::of(b"a-f0-9");
pub(crate) static ANY_HEX: Class = Class::of(b"a-fA-F0-9");
/// Base64 for URLs, which is also what most tokens are made of.
pub(crate) static TOKEN: Class = Class::of(b"a-zA-Z0-9_-");
pub(crate) static TOKEN_DOT: Class = Class::of(b"a-zA-Z0-9_.-");
/// Base64 of either kind, with padding.
pub(crate) static BASE64: Class = Class::of(b"a-zA-Z0-9+/=_-");
pub(crate) static SPACE: Class = Class::of(b" \t");
/// A name in an assignment, a header, a flag.
pub(crate) static NAME: Class = Class::of(b"a-zA-Z0-9_.-");
/// A value without quotes, where other syntax may follow it.
pub(crate) static BARE: Class = Class::visible_but(b" \"'`\\,;&|<>()[]{}");
/// A value without quotes in `NAME=value`, where only a shell's syntax may follow it.
pub(crate) static ENV_BARE: Class = Class::visible_but(b" \"'`\\;&|<>");
/// A value that ends with an escaped quote: JSON in JSON.
pub(crate) static ESCAPED: Class = Class::visible_but(b"\"\\");
/// The rest of a line, up to a quote or an escape.
pub(crate) static REST: Class = Class::visible_but(b"\"'`\\");
/// The rest of a line, whatever is in it.
pub(crate) static LINE: Class = Class::visible_but(b"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_has_ranges_and_single_bytes() {
        let all = |class: &Class| (0..=255).filter(|byte| class.has(*byte)).collect::<Vec<u8>>();
        assert_eq!(all(&Class::of(b"a-c_-")), b"-_abc");
        assert_eq!(all(&HEX).len(), 16);
        assert_eq!(all(&WORD).len(), 63);
        assert!(BARE.has(b'*') && BARE.has(0xc3) && !BARE.has(b'\n') && !BARE.has(b'"'));
    }
}
