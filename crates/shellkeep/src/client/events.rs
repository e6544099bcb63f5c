//! Reading server-sent events.

use super::error::{ClientError, broken, unreadable};
use super::hints::Asked;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
}

impl Event {
    /// Its data.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(&self.data).map_err(unreadable)
    }
}

/// Reads events from an answer.
pub struct EventReader {
    body: Incoming,
    asked: Asked,
    parser: Parser,
    ready: VecDeque<Event>,
}

impl EventReader {
    pub(super) fn new(body: Incoming, asked: Asked) -> Self {
        Self { body, asked, parser: Parser::default(), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end. An `error` event is returned as an error. Cancel-safe: nothing is lost if the
    /// future is dropped.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return if event.name == "error" { Err(self.refusal(&event.data)) } else { Ok(Some(event)) };
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(bytes) = frame.map_err(broken)?.into_data() {
                self.ready.extend(self.parser.feed(&bytes));
            }
        }
    }

    fn refusal(&self, data: &str) -> ClientError {
        match serde_json::from_str(data) {
            Ok(problem) => ClientError::Refused(Box::new(self.asked.clone().refused(problem, None))),
            Err(error) => ClientError::Broken(format!("the daemon's answer cannot be read: {error}")),
        }
    }
}

/// Turns bytes into events, however they are split.
#[derive(Default)]
struct Parser {
    unfinished: Vec<u8>,
    name: String,
    data: String,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.unfinished.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.unfinished);
            events.extend(self.line(&String::from_utf8_lossy(&line)));
        }
        self.unfinished.extend_from_slice(rest);
        events
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return (!data.is_empty()).then_some(Event { name, data });
        }
        match line.split_once(':') {
            Some(("event", value)) => self.name = value.trim_start().to_owned(),
            Some(("data", value)) => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
            }
            // Comments keep the connection alive; other fields are ignored.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_the_bytes_are_cut() {
        let text = b": alive\n\nevent: stdout\ndata: {\"text\":\"a\"}\n\nevent: result\r\ndata: x\r\ndata: y\r\n\r\n";
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let events: Vec<Event> = text.chunks(size).flat_map(|piece| parser.feed(piece)).collect();
            let expected = [
                Event { name: "stdout".into(), data: "{\"text\":\"a\"}".into() },
                Event { name: "result".into(), data: "x\ny".into() },
            ];
            assert_eq!(events, expected, "{size}");
        }
    }
}
