//! A log as events: `log` as it is written, `end` with the service when it has ended, `error` on failure.

use super::write::{event, whole};
use crate::http::problem::problem;
use crate::refusal::Refusal;
use crate::translate;
use shellkeep_protocol::LogEvent;
use shellkeep_runtime::{Engine, LogPage, LogStream};
use shellkeep_session::SessionId;
use std::time::Duration;

/// A followed log, and its service.
pub struct Follow {
    pub stream: LogStream,
    pub engine: Engine,
    pub session: SessionId,
    /// Its id or name.
    pub service: String,
    pub encoder: Encoder,
    pub phase: Phase,
}

/// How far it has come. Stored, because waiting for the next event may be cancelled at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The service is running.
    Following,
    /// It has ended, and `end` was not sent yet.
    Ended,
    /// `end` was sent.
    Over,
}

impl Follow {
    /// The next events.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let mut events = Vec::new();
        if self.phase == Phase::Following {
            match self.stream.next().await {
                Some(Ok(page)) => self.encoder.encode(&mut events, page),
                Some(Err(error)) => {
                    self.phase = Phase::Over;
                    self.encoder.flush(&mut events);
                    event(&mut events, "error", &problem(&Refusal::from(error)));
                }
                None => {
                    self.phase = Phase::Ended;
                    self.encoder.flush(&mut events);
                }
            }
            return Some(events);
        }
        if self.phase == Phase::Over {
            return None;
        }
        match self.engine.services().get(&self.session, &self.service, Duration::ZERO).await {
            Ok(view) => event(&mut events, "end", &translate::service(view)),
            Err(error) => event(&mut events, "error", &problem(&Refusal::from(error))),
        }
        self.phase = Phase::Over;
        Some(events)
    }
}

/// Turns pages into events. A character split between two pages waits for its other half.
#[derive(Default)]
pub struct Encoder {
    held: Vec<u8>,
    next_offset: u64,
}

impl Encoder {
    fn encode(&mut self, events: &mut Vec<u8>, page: LogPage) {
        if page.offset != self.next_offset {
            // What was between is no longer kept, so the other half will never arrive.
            self.flush(events);
        }
        let offset = page.offset - self.held.len() as u64;
        // Not the number of bytes: masking changes the length of a page.
        self.next_offset = page.next_offset;
        let bytes = whole(&mut self.held, page.bytes);
        log(events, bytes, offset, self.next_offset - self.held.len() as u64);
    }

    fn flush(&mut self, events: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let offset = self.next_offset - held.len() as u64;
        log(events, held, offset, self.next_offset);
    }
}

fn log(events: &mut Vec<u8>, bytes: Vec<u8>, offset: u64, next_offset: u64) {
    if !bytes.is_empty() {
        event(events, "log", &LogEvent { next_offset, ..LogEvent::new(bytes, offset) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], offset: u64) -> LogPage {
        let next_offset = offset + bytes.len() as u64;
        LogPage { bytes: bytes.to_vec(), offset, next_offset, first: 0, total: next_offset, complete: false }
    }

    fn encoded(encoder: &mut Encoder, bytes: &[u8], offset: u64) -> String {
        let mut events = Vec::new();
        encoder.encode(&mut events, page(bytes, offset));
        String::from_utf8(events).unwrap()
    }

    #[test]
    fn offsets_follow_the_characters() {
        let mut encoder = Encoder::default();
        assert_eq!(
            encoded(&mut encoder, b"a\xc3", 10),
            "event: log\ndata: {\"text\":\"a\",\"offset\":10,\"next_offset\":11}\n\n"
        );
        assert_eq!(
            encoded(&mut encoder, b"\xa9b", 12),
            "event: log\ndata: {\"text\":\"é\u{62}\",\"offset\":11,\"next_offset\":14}\n\n"
        );
    }

    #[test]
    fn a_gap_ends_an_unfinished_character() {
        let mut encoder = Encoder::default();
        assert_eq!(encoded(&mut encoder, b"\xc3", 0), "");
        let events = encoded(&mut encoder, b"later", 100);
        let told: Vec<&str> = events.split("\n\n").collect();
        assert!(
            told[0].contains("\"base64\":\"ww==\"") && told[0].contains("\"offset\":0,\"next_offset\":1"),
            "{events}"
        );
        assert!(told[1].contains("\"text\":\"later\",\"offset\":100,\"next_offset\":105"), "{events}");
    }
}
