//! One line of a recording: `{seq, event_type, timestamp, data}` and its proof.

use crate::hash::Hash;
use crate::heads::SignedHead;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shellkeep_session::{Author, EventName, FileSum, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Type of the line that the recorder writes itself where records are missing without a declaration.
pub const HOLE: &str = "hole";

/// Type of the line with which a session says that records before it are lost.
pub const RECORDS_LOST: &str = EventName::RecordsLost.shown();

/// One event. The order of the fields is the order in the file, so that a reader who looks for a number or a type need
/// not read the rest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Line {
    /// Position in the session, from 1.
    pub seq: u64,
    /// What kind of event.
    pub event_type: String,
    pub timestamp: Timestamp,
    /// Who it comes from, as the daemon knows it; what is in `data` may say something else.
    #[serde(flatten)]
    pub author: Author,
    pub data: Value,
    /// What proves it.
    #[serde(flatten)]
    pub proof: Proof,
}

/// What proves a line. In a session's own files the salts are not written: they follow from the key in the data
/// directory. A copy for someone else brings those of the fields that it shows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Proof {
    /// Ties the line to the one before it and to its fields as they were recorded.
    pub hash: Hash,
    /// Files beside the recording that the line mentions, by name. They are part of its hash, and only the recorder sets
    /// them: what a caller posts is in `data`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileSum>,
    /// Fields that were masked since, by path, with the commitment to what they were.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub masked: BTreeMap<String, Hash>,
    /// The salt of all fields, in a copy of a line in which nothing is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salt: Option<Hash>,
    /// The salts of the fields that are shown, by path, in a copy of a line in which others are masked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub salts: BTreeMap<String, Hash>,
    /// In the first line of a copy, and of each later part: where the recording ended when it was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// In the same lines: the signature of the daemon that wrote the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedHead>,
    /// In the first line of a later part of a copy, which another daemon wrote and signed: the event before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Box<After>>,
}

/// What joins two parts of a copy: the last event of the one, as the daemon recorded it that wrote the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// Hash of the line before it.
    pub before: Hash,
    pub line: Line,
}

/// The end of a recording: who knows it sees whether something was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of the last line.
    pub seq: u64,
    pub hash: Hash,
}

/// Numbers that have no line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// The first.
    pub from: u64,
    /// The last.
    pub through: u64,
    /// Why, as the line that reports it says.
    pub reason: String,
    /// Whether the session said itself that they are lost. If not, the recorder found them missing.
    pub declared: bool,
}

/// The beginning of a line: enough to know whether the rest is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek<'a> {
    pub seq: u64,
    pub event_type: Cow<'a, str>,
}

impl Line {
    /// Reads a line, without its line break.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// What a line says before its fields, without them and without a proof.
    pub(crate) fn without_data(line: &Self) -> Self {
        Self {
            seq: line.seq,
            event_type: line.event_type.clone(),
            timestamp: line.timestamp,
            author: line.author.clone(),
            ..Self::default()
        }
    }

    /// Adds the line, with its line break.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(&mut *out, self)?;
        out.push(b'\n');
        Ok(())
    }

    /// The numbers that this line says have none, if it says so.
    pub fn hole(&self) -> Option<Hole> {
        let number = |name: &str| self.data.get(name).and_then(Value::as_u64);
        let reason = || self.data.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.event_type.as_str() {
            HOLE => {
                let (from, through) = (self.seq, number("through")?);
                Some(Hole { from, through, reason: reason(), declared: false })
            }
            RECORDS_LOST => {
                let (from, through) = (number("from")?, self.seq.checked_sub(1)?);
                (from <= through).then(|| Hole { from, through, reason: reason(), declared: true })
            }
            _ => None,
        }
    }

    /// The number after which the next line continues.
    pub fn through(&self) -> u64 {
        match self.hole() {
            Some(Hole { through, declared: false, .. }) => through.max(self.seq),
            _ => self.seq,
        }
    }
}

impl<'a> Peek<'a> {
    /// Looks at the beginning of a line, which may be cut anywhere after its type.
    pub fn at(bytes: &'a [u8]) -> Option<Self> {
        let (seq, rest) = number(bytes)?;
        let rest = rest.strip_prefix(b",\"event_type\":\"")?;
        let end = memchr::memchr2(b'"', b'\\', rest)?;
        if rest[end] == b'"' {
            let event_type = Cow::Borrowed(std::str::from_utf8(&rest[..end]).ok()?);
            return Some(Self { seq, event_type });
        }
        // A type with an escaped character is rare enough to be read the long way.
        let line = Line::parse(bytes).ok()?;
        Some(Self { seq, event_type: Cow::Owned(line.event_type) })
    }

    /// The number alone.
    pub fn seq(bytes: &[u8]) -> Option<u64> {
        number(bytes).map(|(seq, _)| seq)
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let rest = bytes.strip_prefix(b"{\"seq\":")?;
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seq = std::str::from_utf8(&rest[..length]).ok()?.parse().ok()?;
    rest.get(length).filter(|byte| **byte == b',')?;
    Some((seq, &rest[length..]))
}

/// An event for tests.
#[cfg(test)]
pub(crate) fn sample(event_type: &str, data: Value) -> Line {
    Line { seq: 12, event_type: event_type.to_owned(), data, ..Line::default() }
}

#[cfg(test)]
mod tests {
    use super::sample as line;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_beginning_tells_number_and_type() {
        for event_type in ["tool_call", "x_\"quoted\"", "x_ü"] {
            let mut bytes = Vec::new();
            line(event_type, json!({"a": 1.5, "b": [null, "\n"]})).write_to(&mut bytes).unwrap();
            let peek = Peek::at(bytes.trim_ascii_end()).unwrap();
            assert_eq!((peek.seq, &*peek.event_type), (12, event_type));
            assert_eq!(Peek::seq(&bytes[..12]), Some(12));
        }
        for bad in ["", "{\"seq\":", "{\"seq\":12", "{\"seq\":x,", "{\"seq\":-1,\"event_type\":\"a\""] {
            assert_eq!(Peek::at(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let told = line("x_numbers", json!({"f": 0.1, "g": 1e300, "h": -0.0, "i": u64::MAX, "s": "\u{1f}\u{2028}"}));
        let mut bytes = Vec::new();
        told.write_to(&mut bytes).unwrap();
        let read = Line::parse(&bytes).unwrap();
        assert_eq!(read, told);
        let mut again = Vec::new();
        read.write_to(&mut again).unwrap();
        assert_eq!(again, bytes);
    }

    #[test]
    fn a_hole_says_where_it_goes_on() {
        let hole = line(HOLE, json!({"from": 12, "through": 20, "reason": "r"}));
        assert_eq!(hole.through(), 20);
        assert_eq!(hole.hole(), Some(Hole { from: 12, through: 20, reason: "r".to_owned(), declared: false }));
        let lost = line(RECORDS_LOST, json!({"from": 9, "through": 11, "reason": "r"}));
        assert_eq!(lost.through(), 12);
        assert_eq!(lost.hole(), Some(Hole { from: 9, through: 11, reason: "r".to_owned(), declared: true }));
        assert_eq!(line("tool_call", json!({"from": 9})).hole(), None);
    }
}
