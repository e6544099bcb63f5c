//! Where events come from, and how they are written.

use serde::Serialize;
use std::future::Future;

/// Where events come from. Nothing is lost if `next` is dropped before it returns.
pub trait Source: Send + 'static {
    /// The next events as they are written, or nothing worth telling; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

/// What was held back and the new bytes, without an unfinished character at the end, which is held back in turn.
pub fn whole(held: &mut Vec<u8>, bytes: Vec<u8>) -> Vec<u8> {
    let mut all = std::mem::take(held);
    if all.is_empty() {
        all = bytes;
    } else {
        all.extend_from_slice(&bytes);
    }
    let unfinished = match std::str::from_utf8(&all) {
        Err(error) if error.error_len().is_none() => all.len() - error.valid_up_to(),
        _ => 0,
    };
    *held = all.split_off(all.len() - unfinished);
    all
}

/// JSON has no raw line breaks, so one `data:` line holds it all.
pub fn event<T: Serialize>(events: &mut Vec<u8>, name: &str, data: &T) {
    events.extend_from_slice(b"event: ");
    events.extend_from_slice(name.as_bytes());
    events.extend_from_slice(b"\ndata: ");
    if let Err(error) = serde_json::to_writer(&mut *events, data) {
        tracing::error!(%error, "an event could not be written");
    }
    events.extend_from_slice(b"\n\n");
}
