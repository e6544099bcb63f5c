//! One line of the journal: a record as JSON, its number in the segment, and its checksums.
//!
//! `{"session_id":"a",…,"n":12,"sum":"OOOOOOOOWWWWWWWW"}`: the first half of the sum covers the session's id alone, the
//! second everything before it. So a line that is damaged elsewhere still identifies its session, and a missing line is
//! detected by the number of the next.

use crate::sum;
use crc32fast::Hasher;
use shellkeep_session::SessionId;
use std::io::Write as _;

/// What comes before the sum, and after it.
const BEFORE: &[u8] = b",\"sum\":\"";
const AFTER: &[u8] = b"\"}";

/// Both halves of the sum.
const DIGITS: usize = 16;

/// What an append prepares before it holds the journal's lock: everything but the number.
pub(crate) struct Body {
    hasher: Hasher,
    id_sum: u32,
    /// Length of the record without its closing brace.
    length: usize,
}

impl Body {
    /// Prepares a record that has been written as JSON.
    pub(crate) fn of(json: &[u8]) -> Self {
        let length = json.len().saturating_sub(1);
        let mut hasher = sum::hasher();
        hasher.update(&json[..length]);
        Self { hasher, id_sum: sum::of(session_id(json).unwrap_or_default()), length }
    }

    /// Completes the line in place, with its end.
    pub(crate) fn complete(&self, line: &mut Vec<u8>, number: u64) {
        line.truncate(self.length);
        // Writing to memory does not fail.
        let _ = write!(line, ",\"n\":{number}");
        line.extend_from_slice(BEFORE);
        sum::write_hex(line, self.id_sum);
        let mut hasher = self.hasher.clone();
        hasher.update(&line[self.length..]);
        sum::write_hex(line, hasher.finalize());
        line.extend_from_slice(AFTER);
        line.push(b'\n');
    }

    /// Makes it a bare record again.
    pub(crate) fn undo(&self, line: &mut Vec<u8>) {
        line.truncate(self.length);
        line.push(b'}');
    }
}

/// Checks a line without its line break; returns its number.
pub(crate) fn check(line: &[u8]) -> Result<u64, &'static str> {
    let Some((rest, [_, whole])) = split(line) else { return Err(sum::MISSING) };
    let covered = &line[..line.len() - AFTER.len() - DIGITS / 2];
    if whole != Some(sum::of(covered)) {
        return Err(sum::MISMATCH);
    }
    let digits = rest.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(rest, |at| &rest[at + 1..]);
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or("its number is missing")
}

/// The session of a damaged line, if its checksum proves it.
pub(crate) fn proven_session(line: &[u8]) -> Option<SessionId> {
    let id = session_id(line)?;
    let (_, [proof, _]) = split(line)?;
    if proof != Some(sum::of(id)) {
        return None;
    }
    SessionId::parse(std::str::from_utf8(id).ok()?).ok()
}

/// The record of a whole line without its end, as it was before its number and sum were added.
pub(crate) fn bare(line: &[u8]) -> Option<Vec<u8>> {
    check(line).ok()?;
    let (rest, _) = split(line)?;
    let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let mut bare = rest[..rest.len() - digits].strip_suffix(b",\"n\":")?.to_vec();
    bare.push(b'}');
    Some(bare)
}

/// The line before its sum, and the halves of the sum as far as they can be read.
fn split(line: &[u8]) -> Option<(&[u8], [Option<u32>; 2])> {
    let rest = line.strip_suffix(AFTER)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let rest = rest.strip_suffix(BEFORE)?;
    let (id, whole) = digits.split_at(DIGITS / 2);
    Some((rest, [sum::read_hex(id), sum::read_hex(whole)]))
}

/// The id that a record's line begins with, as it is written there. No id has a character that JSON would write in another
/// way.
pub(crate) fn session_id(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"session_id\":\"")?;
    let length = rest.iter().position(|byte| *byte == b'"')?;
    Some(&rest[..length])
}

/// The same as an id. Lines of older versions have no checksum.
pub(crate) fn told_session(line: &[u8]) -> Option<SessionId> {
    SessionId::parse(std::str::from_utf8(session_id(line)?).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(json: &str, number: u64) -> Vec<u8> {
        let mut line = json.as_bytes().to_vec();
        Body::of(&line).complete(&mut line, number);
        assert_eq!(line.pop(), Some(b'\n'));
        line
    }

    #[test]
    fn a_line_is_json_with_its_number_and_can_be_undone() {
        let json = "{\"session_id\":\"a.b\",\"seq\":7}";
        let mut line = complete(json, 12);
        assert_eq!(check(&line), Ok(12));
        assert_eq!(proven_session(&line).map(String::from), Some("a.b".to_owned()));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["n"], &value["seq"]), (&12.into(), &7.into()));
        assert_eq!(bare(&line).as_deref(), Some(json.as_bytes()));
        Body::of(json.as_bytes()).undo(&mut line);
        assert_eq!(line, json.as_bytes());
    }

    #[test]
    fn the_session_of_an_old_broken_line_is_found_when_its_name_is_whole() {
        assert_eq!(told_session(b"{\"session_id\":\"a.b\",\"se").map(String::from), Some("a.b".to_owned()));
        assert_eq!(told_session(b"{\"session_id\":\"a.b"), None);
        assert_eq!(told_session(b"\0\0\0"), None);
    }

    proptest! {
        /// Any change of any bytes next to each other is found, and never blamed on another session.
        #[test]
        fn a_change_is_found_and_blamed_on_nobody_else(at in 0_usize..100, bytes in prop::collection::vec(any::<u8>(), 1..6)) {
            let line = complete("{\"session_id\":\"s1\",\"seq\":7,\"x\":\"yyyyyyyyyyyyy\"}", 3);
            let mut changed = line.clone();
            let at = at % line.len();
            for (place, byte) in changed[at..].iter_mut().zip(&bytes) {
                *place = *byte;
            }
            if changed != line {
                prop_assert!(check(&changed).is_err());
                prop_assert!(proven_session(&changed).is_none_or(|id| id.as_str() == "s1"));
            }
        }
    }
}
