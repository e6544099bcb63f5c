//! What goes through a broker: records of one journal, one JSON document per line after a line that says where they come
//! from. Pure: records in, bytes out, and back.

use crate::rows::{Content, Incoming};
use crate::write::JournalSource;
use serde::{Deserialize, Serialize};
use shellkeep_session::{Record, SessionId, Timestamp};
use shellkeep_store::FeedEntry;
use std::borrow::Cow;

/// The version of the format.
const VERSION: u32 = 1;

/// Records of one message: enough to share the cost of a confirmation and of a transaction.
const MOST_RECORDS: usize = 500;

/// A message with more than one record is not longer than this.
const USUAL_BYTES: usize = 512 * 1024;

/// The longest record: RabbitMQ 4 accepts messages of 16 MiB unless it is configured otherwise.
const MOST_BYTES: usize = 15 * 1024 * 1024;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head<'a> {
    version: u32,
    source: Cow<'a, str>,
    node: Cow<'a, str>,
}

/// Every other line.
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

/// A message that was read.
#[derive(Debug)]
pub(crate) struct Message {
    pub source: JournalSource,
    items: Vec<Item<'static>>,
}

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// A newer program wrote it.
    #[error("a message has version {found}, this program knows versions up to {VERSION}; use a newer shellkeep")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// It is something else.
    #[error("a message is not one of shellkeep: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Messages with all of some records, in order.
pub(crate) fn encode(source: &JournalSource, entries: &[FeedEntry]) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let head = Head { version: VERSION, source: source.id.as_str().into(), node: source.node.as_str().into() };
    let mut head = serde_json::to_vec(&head)?;
    head.push(b'\n');
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
        let head: Head = serde_json::from_slice(lines.next().unwrap_or_default())?;
        if head.version > VERSION {
            return Err(MessageError::Newer { found: head.version });
        }
        let source = JournalSource { id: head.source.into_owned(), node: head.node.into_owned() };
        let items = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
        Ok(Self { source, items })
    }

    /// Its records.
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
        self.items.iter().map(incoming).collect()
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
        let items: Vec<&Item> = read.iter().flat_map(|message| &message.items).collect();
        assert_eq!(items.len(), entries.len());
        for (read, entry) in items.iter().zip(&entries) {
            match &read.content {
                Carried::LeftOut { seq, bytes, .. } => assert!(*seq == 602 && *bytes > MOST_BYTES as u64),
                _ => assert_eq!(**read, item(entry)),
            }
        }
        assert!(encode(&source(), &[]).expect("JSON").is_empty());
    }

    #[test]
    fn what_is_newer_or_something_else_is_refused() {
        let newer = br#"{"version": 2, "source": "j", "node": "n"}"#;
        assert!(matches!(Message::decode(newer), Err(MessageError::Newer { found: 2 })));
        for other in [&b""[..], b"hello", b"{}", b"{\"version\": 1, \"source\": \"j\", \"node\": \"n\"}\n{\"x\": 1}"] {
            assert!(matches!(Message::decode(other), Err(MessageError::Unreadable(_))), "{other:?}");
        }
    }
}
