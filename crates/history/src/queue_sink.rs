//! The queue of a broker as the outbox writes to it. It does not know what it was given, so how far it is stands in files.
//!
//! Records go first. A recording follows as far as its node has signed it and the broker has its records, in parts which
//! may come again and in any order; see `received`.

use crate::broker::{Broker, BrokerError, Entered};
use crate::message::{self, ProofLine, ProofMessages, ProofPart, USUAL_BYTES};
use crate::place_file::{LastRecord, Place, PlaceFile};
use crate::proof::{BYTES_AT_ONCE, Copied, Own};
use crate::retention::{Pass, Removed};
use crate::sent::{Sent, SentFiles};
use crate::sink::{Sink, SinkError};
use crate::url::BrokerAddress;
use crate::write::JournalSource;
use shellkeep_record::{ReadError, Recording, SessionKey, SignedHead};
use shellkeep_redact::Redactor;
use shellkeep_session::{OutOfReach, SessionId, Timestamp};
use shellkeep_store::{FeedBatch, Mark};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How far a broker is, in files that outlive a connection.
pub(crate) struct Progress {
    place: PlaceFile,
    sent: SentFiles,
}

impl Progress {
    pub(crate) fn new(place: PathBuf, sent: PathBuf, url: &str) -> Self {
        Self { place: PlaceFile::new(place, url), sent: SentFiles::new(sent, url) }
    }
}

/// The queue of a broker.
pub(crate) struct QueueSink<'a> {
    broker: Broker<'a>,
    source: JournalSource,
    progress: &'a Progress,
    /// None if nothing is known of this queue.
    known: Option<Mark>,
    place: Place,
    /// Whether the file lacks a change of the place.
    is_stale: bool,
    /// Parts of recordings that the broker does not have yet.
    waiting: ProofMessages,
    /// What it has of recordings when it has those.
    copied: Vec<SentCopy>,
}

/// How far a recording is sent when the broker has what waits.
struct SentCopy {
    session_id: SessionId,
    sent: Sent,
    /// The number up to which it is signed, if that signature was sent.
    signed: Option<u64>,
}

/// Why a recording was not sent.
enum SendError {
    Sink(SinkError),
    /// The recording cannot be read. It can be verified on its node.
    Recording(ReadError),
}

impl From<ReadError> for SendError {
    fn from(error: ReadError) -> Self {
        Self::Recording(error)
    }
}

impl From<BrokerError> for SendError {
    fn from(error: BrokerError) -> Self {
        Self::Sink(error.into())
    }
}

impl From<serde_json::Error> for SendError {
    fn from(error: serde_json::Error) -> Self {
        Self::Sink(error.into())
    }
}

impl<'a> QueueSink<'a> {
    /// Connects, and makes the queue if it is not there.
    pub(crate) fn open(
        within: &'a Entered<'a>,
        url: &str,
        source: &JournalSource,
        progress: &'a Progress,
    ) -> Result<Self, SinkError> {
        let broker = Broker::open(within, &BrokerAddress::parse(url)?)?;
        let (waiting, source) = (ProofMessages::new(source)?, source.clone());
        let place = progress.place.read();
        let (known, place) = (place.as_ref().map(|place| place.mark), place.unwrap_or_default());
        Ok(Self { broker, source, progress, known, place, is_stale: false, waiting, copied: Vec::new() })
    }

    /// Notes which records the broker has.
    fn has(&mut self, batch: &FeedBatch) {
        for entry in &batch.entries {
            let (session_id, created_at) = (&entry.record.session_id, entry.created_at);
            if entry.record.event.destroys() {
                // Its recording goes with it, and the name may be another session's next.
                self.forget(session_id);
            } else {
                let last = LastRecord { seq: entry.record.seq, at: entry.record.at, created_at };
                self.place.unproven.insert(session_id.clone(), last);
            }
        }
        self.keep(batch.to);
    }

    fn keep(&mut self, mark: Mark) {
        self.place.mark = mark;
        self.progress.place.write(&self.place);
        self.is_stale = false;
    }

    /// Nothing will be sent of a recording.
    fn forget(&mut self, session_id: &SessionId) {
        self.progress.sent.forget(session_id);
        self.forget_record(session_id);
    }

    /// Sends what is signed of a recording and was not sent.
    fn send(&mut self, own: &Own<'_>, last: LastRecord) -> Result<Copied, SendError> {
        let Some((recording, head, signed)) = own.signed() else { return Ok(Copied::NotYet) };
        // The name may be another session's by now, whose records come next.
        let is_same = recording.line(last.seq)?.is_some_and(|line| line.timestamp == last.at);
        if !is_same || head.seq > last.seq {
            return Ok(Copied::NotYet);
        }
        let before = self.sent(own.session_id, &recording)?;
        if before.seq < signed.seq {
            let part = ProofPart {
                session_id: own.session_id.clone(),
                created_at: last.created_at,
                begun: before.begun,
                at: last.at,
                lines: Vec::new(),
                signed: None,
            };
            let (session_id, signed) = (own.session_id.clone(), Some(head.seq));
            let (sent, is_whole) = self.send_lines(own, &recording, before, &head, part)?;
            self.copied.push(SentCopy { session_id, sent, signed: signed.filter(|_| is_whole) });
            if !is_whole {
                tracing::warn!(session = %own.session_id, seq = sent.seq + 1, "an event is too large for a broker, so \
                    history has no proof of this session from there on");
                self.forget_record(own.session_id);
                return Ok(Copied::All);
            }
        } else if head.seq == last.seq {
            self.forget_record(own.session_id);
        }
        Ok(if head.seq < last.seq { Copied::NotYet } else { Copied::All })
    }

    /// Nothing more will be sent of a recording until its session has a new record.
    fn forget_record(&mut self, session_id: &SessionId) {
        self.is_stale |= self.place.unproven.remove(session_id).is_some();
    }

    /// How far a recording was sent. If it has other lines than those, because a power failure took its end or because it is
    /// another session's, it is sent from its first line on.
    fn sent(&self, session_id: &SessionId, recording: &Recording) -> Result<Sent, SendError> {
        let known = self.progress.sent.read(session_id);
        if let Some(sent) = known
            && (sent.seq == 0 || recording.line(sent.seq)?.is_some_and(|line| line.proof.hash == sent.hash))
        {
            return Ok(sent);
        }
        Ok(Sent::begin(known.as_ref(), Timestamp::now()))
    }

    /// Sends the lines of a recording after those that were sent, up to the one that is signed, in parts like this one. How
    /// far it is sent then, and whether that is all: a broker does not accept a message of any length.
    fn send_lines(
        &mut self,
        own: &Own<'_>,
        recording: &Recording,
        before: Sent,
        head: &SignedHead,
        mut part: ProofPart,
    ) -> Result<(Sent, bool), SendError> {
        // Up to which line the parts are that the broker gets, and up to which this one is.
        let (mut sent, mut next, mut bytes) = (before, before, 0);
        for line in recording.lines(before.seq + 1)? {
            let line = line?;
            if line.seq > head.seq {
                break;
            }
            if line.seq <= before.seq {
                continue;
            }
            let text = String::from_utf8_lossy(&own.row(&line)?).into_owned();
            if bytes > 0 && bytes + text.len() > USUAL_BYTES {
                let full = ProofPart { lines: std::mem::take(&mut part.lines), ..part.clone() };
                if !self.send_part(&full)? {
                    return Ok((sent, false));
                }
                (sent, bytes) = (next, 0);
            }
            bytes += text.len();
            next =
                Sent { seq: line.seq, hash: line.proof.hash, at: line.timestamp, created_at: part.created_at, ..next };
            part.lines.push(ProofLine { seq: line.seq, hash: line.proof.hash, line: text });
        }
        part.signed = Some(head.clone());
        let is_sent = self.send_part(&part)?;
        Ok((if is_sent { next } else { sent }, is_sent))
    }

    /// Sends a part with others, when there are enough of them; whether a broker accepts it.
    fn send_part(&mut self, part: &ProofPart) -> Result<bool, SendError> {
        let is_accepted = self.waiting.add(part)?;
        if self.waiting.bytes() > BYTES_AT_ONCE {
            self.broker.publish(self.waiting.take())?;
        }
        Ok(is_accepted)
    }
}

impl Sink for QueueSink<'_> {
    fn place(&mut self) -> Result<Option<Mark>, SinkError> {
        Ok(self.known)
    }

    fn go_back(&mut self, to: Mark) -> Result<(), SinkError> {
        self.keep(to);
        Ok(())
    }

    fn write(&mut self, batch: &FeedBatch) -> Result<(), SinkError> {
        self.broker.publish(message::encode(&self.source, &batch.entries)?)?;
        self.has(batch);
        Ok(())
    }

    fn check(&mut self) -> Result<(), SinkError> {
        Ok(self.broker.check()?)
    }

    /// The consumers remove what is old: they have the database.
    fn remove(&mut self, _: &mut Pass) -> Result<Option<Removed>, SinkError> {
        Ok(Some(Removed::default()))
    }

    /// Neither messages in the queue nor the records in the database behind it can be reached from here. The recording is
    /// masked, and sent from its first line on, in place of what was sent before.
    fn scrub(&mut self, session_id: &SessionId, _: &Redactor) -> Result<Vec<OutOfReach>, SinkError> {
        if let Some(sent) = self.progress.sent.read(session_id) {
            self.progress.sent.write(session_id, Sent::begin(Some(&sent), Timestamp::now()));
            if sent.seq > 0 {
                let last = LastRecord { seq: sent.seq, at: sent.at, created_at: sent.created_at };
                self.place.unproven.entry(session_id.clone()).or_insert(last);
                self.keep(self.place.mark);
            }
        }
        Ok(vec![OutOfReach::BrokerMessages, OutOfReach::ConsumerDatabase])
    }

    fn unproven(&mut self) -> Result<BTreeSet<SessionId>, SinkError> {
        Ok(self.place.unproven.keys().cloned().collect())
    }

    fn copy(&mut self, session_id: &SessionId, directory: &Path, key: &SessionKey) -> Result<Copied, SinkError> {
        let Some(last) = self.place.unproven.get(session_id).copied() else { return Ok(Copied::All) };
        if !directory.exists() {
            // It is gone with its session.
            self.forget(session_id);
            return Ok(Copied::All);
        }
        let source = self.source.id.clone();
        let own = Own { session_id, source: &source, directory, key };
        match self.send(&own, last) {
            Ok(copied) => Ok(copied),
            Err(SendError::Sink(error)) => Err(error),
            Err(SendError::Recording(error)) => {
                tracing::warn!(session = %session_id, %error, "a recording cannot be read, so history has no proof of it");
                self.forget_record(session_id);
                Ok(Copied::All)
            }
        }
    }

    fn end_copies(&mut self) -> Result<(), SinkError> {
        let messages = self.waiting.take();
        if !messages.is_empty() {
            self.broker.publish(messages)?;
        }
        for SentCopy { session_id, sent, signed } in std::mem::take(&mut self.copied) {
            self.progress.sent.write(&session_id, sent);
            let last = self.place.unproven.get(&session_id);
            if last.zip(signed).is_some_and(|(last, signed)| last.seq <= signed) {
                self.forget_record(&session_id);
            }
        }
        if self.is_stale {
            self.keep(self.place.mark);
        }
        Ok(())
    }
}
