//! Checks shared by several requests.

use crate::refusal::Refusal;
use shellkeep_protocol::text;
use shellkeep_runtime::{MAX_TIMEOUT, Tail};
use std::collections::BTreeMap;
use std::time::Duration;

/// Default number of bytes per page of output.
pub const DEFAULT_OUTPUT_PAGE: u64 = 1 << 20;
/// Shortest timeout in seconds.
const MIN_TIMEOUT: f64 = 0.001;

/// A timeout within its bounds.
pub fn within(seconds: f64, advice: &str) -> Result<Duration, Refusal> {
    let duration = Some(seconds).filter(|seconds| *seconds >= MIN_TIMEOUT);
    let duration = duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.filter(|timeout| *timeout <= MAX_TIMEOUT).ok_or_else(|| {
        let most = MAX_TIMEOUT.as_secs();
        Refusal::invalid(format!("timeout: {seconds} is not a number of seconds from {MIN_TIMEOUT} to {most}{advice}"))
    })
}

/// How much of the end of a stream is requested.
pub fn tail(bytes: Option<u64>, lines: Option<u64>) -> Result<Option<Tail>, Refusal> {
    match (bytes, lines) {
        (Some(_), Some(_)) => Err(Refusal::invalid("pass tail (bytes) or tail_lines, not both")),
        (bytes, lines) => Ok(bytes.map(Tail::Bytes).or(lines.map(Tail::Lines))),
    }
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

    #[test]
    fn what_is_not_base64_is_said_so_in_words() {
        assert_eq!(decode("stdin_base64", "aGk=").unwrap(), b"hi");
        for wrong in ["%", "aGk", "aG k="] {
            let detail = decode("stdin_base64", wrong).unwrap_err().problem().detail.clone();
            assert_eq!(detail, "stdin_base64: this is not base64 (standard alphabet, with padding)", "{wrong}");
        }
    }
}
