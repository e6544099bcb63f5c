//! A record must be readable again. The JSON parser rejects nesting deeper than 128 levels, and a record adds some
//! levels around a caller's data.

use serde_json::Value;
use shellkeep_session::{Event, Record};

/// How deep a caller's JSON may be nested: what the reader allows, less what records, lines and files put around it.
pub const MAX_DEPTH: usize = 100;

/// Whether a caller's JSON is nested too deep to be kept.
pub fn is_too_deep(value: &Value) -> bool {
    exceeds(value, MAX_DEPTH)
}

/// Whether a record contains JSON that could not be parsed again.
pub(crate) fn is_unreadable(record: &Record) -> bool {
    match &record.event {
        Event::Noted { data, .. } => is_too_deep(data),
        Event::MessageAdded { message, .. } => is_too_deep(&message.content),
        Event::SessionCreated { meta, .. } => is_too_deep(&meta.agent_config),
        _ => false,
    }
}

/// Bounded, so that no nesting is too deep for this function.
fn exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(list) => left == 0 || list.iter().any(|value| exceeds(value, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|value| exceeds(value, left - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_from_the_outside() {
        let nested = |depth| (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(!is_too_deep(&nested(MAX_DEPTH)));
        assert!(is_too_deep(&nested(MAX_DEPTH + 1)));
    }
}
