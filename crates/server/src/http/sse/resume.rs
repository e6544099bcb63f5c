//! An agent's work on a message as events: `event` for each new event of the session, `output` for pieces of the answer,
//! `result` at the end.

use super::write::event;
use crate::translate;
use shellkeep_protocol::AnswerEvent;
use shellkeep_runtime::{ResumeChunk, ResumeStream};

/// Work that is watched.
pub struct Watch(pub ResumeStream);

impl Watch {
    /// The next events.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        let mut events = Vec::new();
        match self.0.next().await? {
            ResumeChunk::Event(line) => {
                events.extend_from_slice(format!("id: {}\n", line.seq).as_bytes());
                event(&mut events, "event", &translate::event(*line));
            }
            ResumeChunk::Output(text) => event(&mut events, "output", &AnswerEvent { text }),
            ResumeChunk::Result(view) => event(&mut events, "result", &translate::resumed(*view)),
        }
        Some(events)
    }
}
