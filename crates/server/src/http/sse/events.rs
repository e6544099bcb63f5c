//! A recording as events: `event` with its number as the id, until the client disconnects; `error` on failure.

use super::write::event;
use crate::http::problem::problem;
use crate::refusal::Refusal;
use crate::translate;
use shellkeep_runtime::EventStream;

/// A recording that is followed.
pub struct Follow {
    pub stream: EventStream,
    pub over: bool,
}

impl Follow {
    /// The next events.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        if self.over {
            return None;
        }
        let mut events = Vec::new();
        match self.stream.next().await {
            Ok(lines) => {
                for line in lines {
                    events.extend_from_slice(format!("id: {}\n", line.seq).as_bytes());
                    event(&mut events, "event", &translate::event(line));
                }
            }
            Err(error) => {
                self.over = true;
                event(&mut events, "error", &problem(&Refusal::from(error)));
            }
        }
        Some(events)
    }
}
