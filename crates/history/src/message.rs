//! What goes through a broker, one JSON document per line after a line that says what they are and where they come from:
//! records of one journal, or parts of signed recordings. Pure: records in, bytes out, and back.
//!
//! Each kind of message has its own version, the one in which its form last changed. So a program reads what older ones
//! wrote, and whoever meets a message of a later version knows that it cannot read it, and leaves it to others.

use crate::rows::{Content, Incoming};
use crate::write::JournalSource;
use serde::{Deserialize, Serialize};
use shellkeep_record::{Hash, SignedHead};
use shellkeep_session::{Record, SessionId, Timestamp};
use shellkeep_store::FeedEntry;
use std::borrow::Cow;

/// The latest version that this program reads.
const VERSION: u32 = Kind::Proofs.version();

/// Records of one message: enough to share the cost of a confirmation and of a transaction.
const MOST_RECORDS: usize = 500;

/// A message with more than one record, or more than one part of a recording, is not longer than this.
pub(crate) const USUAL_BYTES: usize = 512 * 1024;

/// The longest record, and the longest part of a recording: RabbitMQ 4 accepts messages of 16 MiB unless it is configured
/// otherwise.
const MOST_BYTES: usize = 15 * 1024 * 1024;

/// What a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Messages of the first version do not say it.
    #[default]
    Records,
    Proofs,
}

impl Kind {
    /// The version in which its form last changed.
    const fn version(self) -> u32 {
        match self {
            Self::Records => 1,
            Self::Proofs => 2,
        }
    }

    fn is_records(&self) -> bool {
        *self == Self::Records
    }
}

/// What the first line of every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head<'a> {
    version: u32,
    source: Cow<'a, str>,
    node: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Kind::is_records")]
    kind: Kind,
}

impl<'a> Head<'a> {
    fn new(kind: Kind, source: &'a JournalSource) -> Self {
        let JournalSource { id, node } = source;
        Self { version: kind.version(), source: id.as_str().into(), node: node.as_str().into(), kind }
    }

    /// Its line.
    fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Every other line of a message with records.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Item<'a> {
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    content: Carried<'a>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Carried<'a> {
    Record(Cow<'a, Record>),
    /// A record that was too long.
    LeftOut {
        session_id: SessionId,
        seq: u64,
        at: Timestamp,
        bytes: u64,
    },
}

/// A part of a recording that its node has signed, and every other line of a message with proofs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProofPart {
    pub session_id: SessionId,
    /// When the session was created, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When its node began to send the recording from its first line on, in microseconds. What was begun later replaces
    /// what was begun before.
    pub begun: i64,
    /// When the last event happened that the node has sent of the session.
    pub at: Timestamp,
    pub lines: Vec<ProofLine>,
    /// The signature that covers them, in the last part before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedHead>,
}

/// A line of a recording, as an export has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProofLine {
    pub seq: u64,
    pub hash: Hash,
    pub line: String,
}

/// Puts parts of recordings into messages.
pub(crate) struct ProofMessages {
    head: Vec<u8>,
    full: Vec<Vec<u8>>,
    /// The message that may get more; empty if there is none.
    last: Vec<u8>,
    bytes: usize,
}

impl ProofMessages {
    /// None yet.
    pub(crate) fn new(source: &JournalSource) -> Result<Self, serde_json::Error> {
        let head = Head::new(Kind::Proofs, source).line()?;
        Ok(Self { head, full: Vec::new(), last: Vec::new(), bytes: 0 })
    }

    /// Adds a part; whether a broker accepts it.
    pub(crate) fn add(&mut self, part: &ProofPart) -> Result<bool, serde_json::Error> {
        let line = serde_json::to_vec(part)?;
        if line.len() > MOST_BYTES {
            return Ok(false);
        }
        if !self.last.is_empty() && self.last.len() + line.len() > USUAL_BYTES {
            self.full.push(std::mem::take(&mut self.last));
        }
        if self.last.is_empty() {
            self.last.clone_from(&self.head);
        }
        self.last.extend_from_slice(&line);
        self.last.push(b'\n');
        self.bytes += line.len();
        Ok(true)
    }

    /// How long all of them are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, which are gone from here.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        let mut messages = std::mem::take(&mut self.full);
        messages.extend(Some(std::mem::take(&mut self.last)).filter(|last| !last.is_empty()));
        messages
    }
}

/// A message that was read.
#[derive(Debug)]
pub(crate) struct Message {
    pub source: JournalSource,
    pub content: Delivered,
}

/// What was in a message.
#[derive(Debug)]
pub(crate) enum Delivered {
    Records(Items),
    Proofs(Vec<ProofPart>),
}

/// Records that were read.
#[derive(Debug)]
pub(crate) struct Items(Vec<Item<'static>>);

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// A newer program wrote it.
    #[error(
        "a message has version {found}, but this program knows versions up to {VERSION} only; use a newer shellkeep"
    )]
    Newer {
        /// Its version.
        found: u32,
    },
    /// It is something else.
    #[error("a message was not written by shellkeep: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Messages with all of some records, in order.
pub(crate) fn encode(source: &JournalSource, entries: &[FeedEntry]) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let head = Head::new(Kind::Records, source).line()?;
    let (mut messages, mut message, mut count) = (Vec::new(), head.clone(), 0);
    for entry in entries {
        let mut line = serde_json::to_vec(&item(entry))?;
        if line.len() > MOST_BYTES {
            tracing::error!(session = %entry.record.session_id, seq = entry.record.seq, "a record is too large for a broker");
            line = serde_json::to_vec(&left_out(entry, line.len()))?;
        }
        if count == MOST_RECORDS || count > 0 && message.len() + line.len() > USUAL_BYTES {
            messages.push(std::mem::replace(&mut message, head.clone()));
            count = 0;
        }
        message.extend_from_slice(&line);
        message.push(b'\n');
        count += 1;
    }
    if count > 0 {
        messages.push(message);
    }
    Ok(messages)
}

fn item(entry: &FeedEntry) -> Item<'_> {
    let content = Carried::Record(Cow::Borrowed(&entry.record));
    Item { epoch: entry.epoch, created_at: entry.created_at, content }
}

fn left_out(entry: &FeedEntry, bytes: usize) -> Item<'_> {
    let Record { session_id, seq, at, .. } = &entry.record;
    let content = Carried::LeftOut { session_id: session_id.clone(), seq: *seq, at: *at, bytes: bytes as u64 };
    Item { content, ..item(entry) }
}

impl Message {
    /// Reads one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let Versioned { version } = serde_json::from_slice(first)?;
        if version > VERSION {
            return Err(MessageError::Newer { found: version });
        }
        let head: Head = serde_json::from_slice(first)?;
        let source = JournalSource { id: head.source.into_owned(), node: head.node.into_owned() };
        let content = match head.kind {
            Kind::Records => Delivered::Records(Items(read(lines)?)),
            Kind::Proofs => Delivered::Proofs(read(lines)?),
        };
        Ok(Self { source, content })
    }
}

fn read<'a, T: for<'de> Deserialize<'de>>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Vec<T>, serde_json::Error> {
    lines.map(serde_json::from_slice).collect()
}

impl Items {
    /// The records on their way into the tables.
    pub(crate) fn incoming(&self) -> Vec<Incoming<'_>> {
        let incoming = |item| {
            let Item { epoch, created_at, content }: &Item = item;
            match content {
                Carried::Record(record) => Incoming::new(record, *epoch, *created_at),
                Carried::LeftOut { session_id, seq, at, bytes } => Incoming {
                    name: session_id.as_str().to_owned(),
                    seq: *seq,
                    at: *at,
                    epoch: *epoch,
                    created_at: *created_at,
                    content: Content::LeftOut { bytes: *bytes },
                },
            }
        };
        self.0.iter().map(incoming).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shellkeep_store::Mark;

    fn entry(seq: u64, text: &str) -> FeedEntry {
        let record = json!({"session_id": "s", "seq": seq, "at": "2026-11-17T01:02:03.000004Z",
            "event": {"noted": {"event_type": "x_a", "data": {"text": text}}}});
        let record = serde_json::from_value(record).expect("a record");
        FeedEntry { place: Mark::default(), epoch: 3, created_at: Some(Timestamp::UNIX_EPOCH), record }
    }

    fn source() -> JournalSource {
        JournalSource { id: "j".to_owned(), node: "n".to_owned() }
    }

    #[test]
    fn what_is_encoded_is_decoded_in_parts_that_a_broker_accepts() {
        let mut entries: Vec<FeedEntry> = (1..=600).map(|seq| entry(seq, "a\nb\u{0}")).collect();
        entries.push(entry(601, &"x".repeat(USUAL_BYTES)));
        entries.push(entry(602, &"x".repeat(MOST_BYTES)));
        entries.push(entry(603, "after"));
        let messages = encode(&source(), &entries).expect("JSON");
        assert!(messages.len() >= 3 && messages.iter().all(|message| message.len() < MOST_BYTES));
        let read: Vec<Message> = messages.iter().map(|bytes| Message::decode(bytes).expect("ours")).collect();
        assert!(read.iter().all(|message| message.source == source()));
        let items = |message: Message| match message.content {
            Delivered::Records(Items(items)) => items,
            Delivered::Proofs(parts) => panic!("{parts:?}"),
        };
        let items: Vec<Item> = read.into_iter().flat_map(items).collect();
        assert_eq!(items.len(), entries.len());
        for (read, entry) in items.iter().zip(&entries) {
            match &read.content {
                Carried::LeftOut { seq, bytes, .. } => assert!(*seq == 602 && *bytes > MOST_BYTES as u64),
                _ => assert_eq!(*read, item(entry)),
            }
        }
        assert!(encode(&source(), &[]).expect("JSON").is_empty());
    }

    #[test]
    fn what_is_newer_or_something_else_is_refused() {
        // Whatever a later version has, it has a version.
        for newer in [&br#"{"version": 3, "source": "j", "node": "n"}"#[..], br#"{"version": 3, "kind": "x"}"#] {
            assert!(matches!(Message::decode(newer), Err(MessageError::Newer { found: 3 })), "{newer:?}");
        }
        let unknown = br#"{"version": 2, "source": "j", "node": "n", "kind": "x"}"#;
        for other in
            [&b""[..], b"hello", b"{}", unknown, b"{\"version\": 1, \"source\": \"j\", \"node\": \"n\"}\n{\"x\": 1}"]
        {
            assert!(matches!(Message::decode(other), Err(MessageError::Unreadable(_))), "{other:?}");
        }
    }

    fn part(session: &str, lines: &[(u64, String)]) -> ProofPart {
        let line = |(seq, line): &(u64, String)| ProofLine { seq: *seq, hash: Hash::NONE, line: line.clone() };
        ProofPart {
            session_id: SessionId::parse(session).expect("a name"),
            created_at: None,
            begun: 7,
            at: Timestamp::UNIX_EPOCH,
            lines: lines.iter().map(line).collect(),
            signed: None,
        }
    }

    #[test]
    fn parts_of_recordings_share_messages_that_a_broker_accepts() {
        let long = "x".repeat(USUAL_BYTES - 1000);
        let parts = [
            part("a", &[(1, "{\"a\": \"\u{0}\"}\n".to_owned()), (2, "b\n".to_owned())]),
            part("b", &[(1, long.clone())]),
            part("c", &[(1, long)]),
        ];
        let mut messages = ProofMessages::new(&source()).expect("JSON");
        assert!(messages.take().is_empty());
        for part in &parts {
            assert!(messages.add(part).expect("JSON"));
        }
        assert!(!messages.add(&part("d", &[(1, "x".repeat(MOST_BYTES))])).expect("JSON"), "no broker accepts it");
        assert!(messages.bytes() > USUAL_BYTES);
        let taken = messages.take();
        assert_eq!((taken.len(), messages.bytes(), messages.take().len()), (2, 0, 0));
        let read = |bytes: &Vec<u8>| match Message::decode(bytes).expect("ours").content {
            Delivered::Proofs(parts) => parts,
            Delivered::Records(items) => panic!("{items:?}"),
        };
        assert_eq!(taken.iter().flat_map(read).collect::<Vec<_>>(), parts);
    }

    /// Programs before this kind read the first line so, and left a message with a version that is higher than theirs.
    #[test]
    fn programs_before_this_kind_know_that_it_is_newer() {
        #[derive(Deserialize)]
        struct First<'a> {
            version: u32,
            source: Cow<'a, str>,
            node: Cow<'a, str>,
        }
        let mut messages = ProofMessages::new(&source()).expect("JSON");
        assert!(messages.add(&part("a", &[])).expect("JSON"));
        let [proofs]: [Vec<u8>; 1] = messages.take().try_into().expect("one message");
        let [records]: [Vec<u8>; 1] =
            encode(&source(), &[entry(1, "a")]).expect("JSON").try_into().expect("one message");
        for (message, expected) in [(proofs, 2), (records, 1)] {
            let line = message.split(|byte| *byte == b'\n').next().expect("a line");
            let First { version, source, node } = serde_json::from_slice(line).expect("the line of the first version");
            assert_eq!((version, &*source, &*node), (expected, "j", "n"));
        }
    }
}
