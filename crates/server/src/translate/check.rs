//! Checks shared by several requests.

use crate::refusal::Refusal;
use shellkeep_protocol::text;
use shellkeep_runtime::{MAX_TIMEOUT, Tail};
use std::collections::BTreeMap;
use std::time::Duration;

/// Default number of bytes per page of output.
pub const DEFAULT_OUTPUT_PAGE: u64 = 1 << 20;
/// Longest number that is shown without an exponent; those that mean a time are shorter.
const MOST_DIGITS: usize = 24;
/// Shortest timeout in seconds.
const MIN_TIMEOUT: f64 = 0.001;

/// Seconds as an error shows them: 1e308 not with its 309 digits.
pub fn shown(seconds: f64) -> String {
    let digits = seconds.to_string();
    if digits.len() <= MOST_DIGITS { digits } else { format!("{seconds:e}") }
}

/// A timeout within its bounds.
pub fn within(seconds: f64, advice: &str) -> Result<Duration, Refusal> {
    let duration = Some(seconds).filter(|seconds| *seconds >= MIN_TIMEOUT);
    let duration = duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.filter(|timeout| *timeout <= MAX_TIMEOUT).ok_or_else(|| {
        let most = MAX_TIMEOUT.as_secs();
        let given = shown(seconds);
        Refusal::invalid(format!("timeout: {given} is not a number of seconds from {MIN_TIMEOUT} to {most}{advice}"))
    })
}

/// Where to read a stream: from its first byte that is wanted, or how much of its end. The end counts if both are given:
/// clients fill in both, models in particular.
pub fn read_from(offset: Option<u64>, bytes: Option<u64>, lines: Option<u64>) -> Result<(u64, Option<Tail>), Refusal> {
    let tail = match (bytes, lines) {
        (Some(_), Some(_)) => return Err(Refusal::invalid("pass tail (bytes) or tail_lines, not both")),
        (bytes, lines) => bytes.map(Tail::Bytes).or(lines.map(Tail::Lines)),
    };
    let offset = offset.filter(|_| tail.is_none()).unwrap_or(0);
    Ok((offset, tail))
}

/// The bytes of a base64 field.
pub fn decode(name: &str, base64: &str) -> Result<Vec<u8>, Refusal> {
    let decoded = text::decode(String::new(), Some(base64));
    decoded.map_err(|_| Refusal::invalid(format!("{name}: this is not base64 (standard alphabet, with padding)")))
}

/// Rejects text that cannot be passed to bash.
pub fn no_nul(name: &str, text: String) -> Result<String, Refusal> {
    match text.bytes().position(|byte| byte == 0) {
        Some(at) => Err(Refusal::invalid(format!("{name}: the NUL byte at position {at} cannot be passed to bash"))),
        None => Ok(text),
    }
}

/// Checks the names of variables: bash does not accept others.
pub fn variables(env: Option<BTreeMap<String, String>>) -> Result<BTreeMap<String, String>, Refusal> {
    let env = env.unwrap_or_default();
    for (name, value) in &env {
        let mut letters = name.bytes();
        let first = letters.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if !first || !letters.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let shown = name.escape_debug();
            return Err(Refusal::invalid(format!(
                "env: '{shown}' is not a valid variable name (A-Z a-z 0-9 _, not starting with a digit)"
            )));
        }
        if value.contains('\0') {
            return Err(Refusal::invalid(format!("env.{name}: a value cannot contain the NUL byte")));
        }
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An offset beside a tail was refused, which clients had always sent.
    #[test]
    fn a_stream_is_read_from_an_offset_or_at_its_end() {
        assert_eq!(read_from(Some(7), None, None).unwrap(), (7, None));
        assert_eq!(read_from(None, Some(5), None).unwrap(), (0, Some(Tail::Bytes(5))));
        assert_eq!(read_from(Some(0), None, Some(5)).unwrap(), (0, Some(Tail::Lines(5))));
        assert_eq!(read_from(Some(7), Some(5), None).unwrap(), (0, Some(Tail::Bytes(5))));
        assert!(read_from(None, Some(1), Some(1)).is_err());
    }

    /// 1e308 was shown with its 309 digits.
    #[test]
    fn a_number_is_shown_short() {
        let all = [0.0, -1.0, 121.0, 0.5, 1e308, -1e300, 1e-300, f64::INFINITY].map(shown);
        assert_eq!(all, ["0", "-1", "121", "0.5", "1e308", "-1e300", "1e-300", "inf"]);
        assert!(within(1e308, "").unwrap_err().problem().detail.starts_with("timeout: 1e308 is not"));
    }

    #[test]
    fn what_is_not_base64_is_said_so_in_words() {
        assert_eq!(decode("stdin_base64", "aGk=").unwrap(), b"hi");
        for wrong in ["%", "aGk", "aG k="] {
            let detail = decode("stdin_base64", wrong).unwrap_err().problem().detail.clone();
            assert_eq!(detail, "stdin_base64: this is not base64 (standard alphabet, with padding)", "{wrong}");
        }
    }
}
