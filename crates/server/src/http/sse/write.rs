//! How events are written.

use serde::Serialize;
use shellkeep_session::unfinished;

/// The bytes held back before and the new ones, without an incomplete character at the end, which is held back in turn.
pub fn whole(held: &mut Vec<u8>, bytes: Vec<u8>) -> Vec<u8> {
    let mut all = std::mem::take(held);
    if all.is_empty() {
        all = bytes;
    } else {
        all.extend_from_slice(&bytes);
    }
    *held = all.split_off(all.len() - unfinished(&all));
    all
}

/// JSON has no raw line breaks, so one `data:` line is enough.
pub fn event<T: Serialize>(events: &mut Vec<u8>, name: &str, data: &T) {
    events.extend_from_slice(b"event: ");
    events.extend_from_slice(name.as_bytes());
    events.extend_from_slice(b"\ndata: ");
    if let Err(error) = serde_json::to_writer(&mut *events, data) {
        tracing::error!(%error, "cannot encode an event");
    }
    events.extend_from_slice(b"\n\n");
}
