//! A recording as events: `event` with its number as the id, until the client disconnects or has as many as it asked
//! for; `error` on failure.

use super::write::event;
use crate::http::problem::problem;
use crate::refusal::Refusal;
use crate::translate;
use shellkeep_runtime::EventStream;

/// A recording that is followed.
pub struct Follow {
    pub stream: EventStream,
    pub over: bool,
    /// How many more events there may be, if that is limited.
    pub left: Option<usize>,
}

impl Follow {
    /// The next events.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        if self.over || self.left == Some(0) {
            return None;
        }
        let mut events = Vec::new();
        match self.stream.next().await {
            Ok(lines) => {
                let most = self.left.unwrap_or(usize::MAX);
                self.left = self.left.map(|left| left.saturating_sub(lines.len()));
                for line in lines.into_iter().take(most) {
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
