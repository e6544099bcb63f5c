//! How much memory JSON takes once it is parsed. Two bytes of text may become a value of 32 bytes, and seven a map of 600, so
//! the length of a text does not say it: a message of 60 MB took 6.6 GB. What takes memory is counted in the text, in one
//! pass and before anything parses it.

use shellkeep_runtime::Lent;

/// A list has room for four values when it gets its first.
const LIST: u64 = 128;
/// A map has room for eleven fields when it gets its first.
const MAP: u64 = 640;
/// A value, in a list or a map with twice the room that it needs.
const VALUE: u64 = 64;
/// The least that the allocator gives for the text of a string.
const STRING: u64 = 32;

/// A text that would take too much memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

/// The most that one message may take, text and values: as much as an agent may have in flight in all.
pub(crate) fn limit() -> u64 {
    Lent::BodyBytes.limits().agent
}

/// The memory that a text takes once it is parsed, beyond that of the text, if it is parsed into so many copies.
pub(crate) fn of(json: &[u8], copies: u64) -> Result<u64, TooMuch> {
    let most = limit().saturating_sub(json.len() as u64) / copies;
    weigh(json, most).map(|weight| weight * copies)
}

/// Adds up what takes memory. The text need not be JSON; of what is none, the parser will tell.
fn weigh(json: &[u8], most: u64) -> Result<u64, TooMuch> {
    let (mut weight, mut at) = (0, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        weight += match byte {
            b'"' => {
                at = end_of_string(json, at);
                STRING
            }
            b',' => VALUE,
            // Empty ones have no memory of their own. Frameworks write many of them.
            b'[' if json.get(at) != Some(&b']') => LIST,
            b'{' if json.get(at) != Some(&b'}') => MAP,
            _ => continue,
        };
        if weight > most {
            return Err(TooMuch);
        }
    }
    Ok(weight)
}

/// Where a string ends that begins here.
pub(crate) fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(json: &str) -> u64 {
        weigh(json.as_bytes(), u64::MAX).unwrap()
    }

    #[test]
    fn what_takes_memory_is_counted() {
        assert_eq!(weight("[0,0,0]"), LIST + 2 * VALUE);
        assert_eq!(weight(r#"{"a": [], "b": {}}"#), MAP + VALUE + 2 * STRING);
        assert_eq!(weight(r#"[{"":0},{"":0}]"#), LIST + 2 * MAP + VALUE + 2 * STRING);
    }

    #[test]
    fn what_is_in_a_string_is_text() {
        assert_eq!(weight(r#""[0,0,{\"a\":[0]}]""#), STRING);
        // The quote is escaped in the first and ends the second, whose backslash is escaped.
        assert_eq!(weight(r#"["\",,", 1]"#), LIST + VALUE + STRING);
        assert_eq!(weight(r#"["\\",[1,2]]"#), 2 * LIST + 2 * VALUE + STRING);
        assert_eq!(weight(r#"["never ended, \"#), LIST + STRING);
    }

    /// A client sent a list of thirty million zeros; each became a value of 32 bytes, several times over.
    #[test]
    fn a_short_text_with_too_many_values_is_refused() {
        let list = |values: usize| format!("[0{}]", ",0".repeat(values)).into_bytes();
        assert_eq!(of(&list(2_000_000), 1), Err(TooMuch));
        assert_eq!(of(&list(1_000_000), 1), Ok(LIST + 1_000_000 * VALUE));
        assert_eq!(of(&list(1_000_000), 3), Err(TooMuch), "it is three times as much in three copies");
        let text = format!("[\"{}\"]", ",".repeat(64 << 20));
        assert_eq!(of(text.as_bytes(), 3), Ok(3 * (LIST + STRING)), "a long text is one value");
    }
}
