//! Validates events, messages and states of agents.

use crate::ops::*;
use serde_json::Value;
use shellkeep_record::line_types::{self, OWN};
use shellkeep_store::depth;
use std::io;

/// The types of the contract, with the fields that each must have. Other fields are allowed.
pub const TYPES: [(&str, &[&str]); 5] = [
    ("user_input", &["message"]),
    ("state_transition", &["from_node", "to_node"]),
    ("llm_call", &["prompt", "response"]),
    ("tool_call", &["tool_name"]),
    ("final_output", &["output"]),
];

/// How long something took. Replays, exports and totals count its seconds, and one that is no number counted as none.
const DURATION: &str = "duration";
/// The types that have it.
const TIMED: [&str; 2] = ["llm_call", "tool_call"];

/// Checks events that belong together.
pub fn events(events: &[NewEvent]) -> Result<(), OpError> {
    if events.is_empty() || events.len() > MAX_EVENTS {
        return Err(invalid(format!("events: there are {}; send 1 to {MAX_EVENTS} at a time", events.len())));
    }
    let mut total = 0;
    for (index, event) in events.iter().enumerate() {
        let place = if events.len() == 1 { String::new() } else { format!("events[{index}].") };
        event_type(event, &place)?;
        not_too_deep(&format!("{place}data"), &event.data)?;
        let bytes = length(&event.data);
        if bytes > MAX_EVENT_BYTES {
            return Err(invalid(format!(
                "{place}data: {bytes} bytes are more than the {MAX_EVENT_BYTES} allowed for an event; put large data \
                    into a \
                 file of the session and its path into the event"
            )));
        }
        total += bytes;
    }
    if total > MAX_EVENTS_BYTES {
        let detail = format!("events: {total} bytes together are more than {MAX_EVENTS_BYTES}; send fewer at a time");
        return Err(invalid(detail));
    }
    Ok(())
}

fn event_type(event: &NewEvent, place: &str) -> Result<(), OpError> {
    let refused = |detail: String| Err(OpError::Record(RecordError::InvalidEventType { detail }));
    let name = event.event_type.as_str();
    let Value::Object(data) = &event.data else {
        return Err(invalid(format!("{place}data: it must be an object with the fields of the event")));
    };
    if let Some((_, fields)) = TYPES.iter().find(|(known, _)| *known == name) {
        if let Some(missing) = fields.iter().find(|field| !data.contains_key(**field)) {
            return Err(invalid(format!("{place}data.{missing}: missing; {name} has {}", fields.join(", "))));
        }
        // Everything else is shown as it is, whatever it is.
        let duration = data.get(DURATION).filter(|_| TIMED.contains(&name));
        if duration.is_some_and(|duration| !duration.is_number() && !duration.is_null()) {
            return Err(invalid(format!("{place}data.{DURATION}: it must be a number of seconds, or null")));
        }
        return Ok(());
    }
    let is_own = name.strip_prefix(OWN).is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
    });
    if is_own && name.len() <= MAX_EVENT_TYPE {
        return Ok(());
    }
    let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
    let shown: String = name.chars().take(MAX_EVENT_TYPE).collect();
    refused(format!(
        "{place}event_type: '{}' is not valid; use {}, or your own name that begins with {OWN} ({MAX_EVENT_TYPE} of \
         A-Za-z0-9_.:- at most)",
        shown.escape_debug(),
        known.join(", ")
    ))
}

/// Checks the types that events are selected by: one that is in no recording would select nothing, and look like a
/// session in which nothing happened.
pub fn selected_types(types: &[String]) -> Result<(), OpError> {
    let known = line_types::all();
    match types.iter().find(|name| !name.starts_with(OWN) && !known.contains(name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let known: Vec<&str> = known.into_iter().collect();
            let shown: String = unknown.chars().take(MAX_EVENT_TYPE).collect();
            Err(invalid(format!(
                "type: there are no events of type '{}'; there are {}, and one's own, which begin with {OWN}",
                shown.escape_debug(),
                known.join(", ")
            )))
        }
    }
}

/// Rejects JSON that could not be parsed again from the store.
pub fn not_too_deep(name: &str, value: &Value) -> Result<(), OpError> {
    if depth::is_too_deep(value) {
        let most = depth::MAX_DEPTH;
        return Err(invalid(format!("{name}: it is nested deeper than {most} levels; flatten it, or send it as text")));
    }
    Ok(())
}

/// Checks a message of the conversation.
pub fn message(message: &NewMessage) -> Result<(), OpError> {
    let role = &message.role;
    if role.is_empty() || role.chars().count() > MAX_ROLE || role.chars().any(char::is_control) {
        return Err(invalid(format!(
            "role: 1 to {MAX_ROLE} characters, none of them a control character, as in user or assistant"
        )));
    }
    match &message.content {
        Value::String(_) | Value::Array(_) | Value::Object(_) => {}
        _ => return Err(invalid("content: a text, a list of parts or an object")),
    }
    not_too_deep("content", &message.content)?;
    let bytes = length(&message.content);
    if bytes > MAX_MESSAGE_BYTES {
        return Err(invalid(format!(
            "content: {bytes} bytes are more than the {MAX_MESSAGE_BYTES} allowed for a message"
        )));
    }
    Ok(())
}

/// Checks a state of an agent.
pub fn agent_state(save: &SaveAgentState) -> Result<(), OpError> {
    if save.bytes.len() > MAX_AGENT_STATE {
        let bytes = save.bytes.len();
        return Err(invalid(format!(
            "the state has {bytes} bytes; the limit is {MAX_AGENT_STATE}. Put the rest into files"
        )));
    }
    let kind = &save.media_type;
    if kind.is_empty() || kind.len() > 256 || !kind.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(invalid("content-type: a media type such as application/json or application/octet-stream"));
    }
    Ok(())
}

/// Checks a secret for a scrub.
pub fn secret(secret: &Secret) -> Result<(), OpError> {
    let Secret { text, force } = secret;
    if text.len() > MAX_SECRET {
        return Err(invalid(format!("secret: at most {MAX_SECRET} bytes")));
    }
    match shellkeep_redact::why_not_maskable(text.as_bytes()) {
        None => Ok(()),
        Some(why) if why.is_only_common() && *force => Ok(()),
        Some(why) if why.is_only_common() => Err(invalid(format!(
            "secret: {why}, so other text would be masked with it; pass the whole secret, or use force to mask it anyway"
        ))),
        Some(why) => Err(invalid(format!(
            "secret: {why}, so it would be found everywhere; pass the whole secret, with what is around it if need be"
        ))),
    }
}

/// The length of a value as JSON.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// An invalid request.
pub(super) fn invalid(detail: impl Into<String>) -> OpError {
    OpError::Invalid { detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(event_type: &str, data: Value) -> NewEvent {
        NewEvent { event_type: event_type.to_owned(), data }
    }

    fn refused(list: Vec<NewEvent>) -> (String, String) {
        let error = events(&list).expect_err("it was taken");
        (error.code().to_owned(), error.to_string())
    }

    #[test]
    fn the_types_of_the_contract_and_ones_own_are_taken() {
        let list = vec![
            event("user_input", json!({"message": "hi", "more": 1})),
            event("state_transition", json!({"from_node": "a", "to_node": "b", "state_diff": {}})),
            event("llm_call", json!({"prompt": "p", "response": "r", "token_usage": {}, "duration": 0.1})),
            event("tool_call", json!({"tool_name": "search", "parameters": {}, "output": "", "error": null})),
            event("final_output", json!({"output": "done", "stream": false})),
            event("x_mine.v1", json!({})),
        ];
        events(&list).unwrap();
    }

    #[test]
    fn a_secret_that_is_common_is_masked_on_request_only() {
        let check =
            |text: &str, force| secret(&Secret { text: text.to_owned(), force }).map_err(|error| error.to_string());
        for (text, reason) in [("123456", "follow each other"), ("aaaaaaaa", "repeat"), ("password", "a common word")] {
            let refused = check(text, false).unwrap_err();
            assert!(refused.contains(reason) && refused.contains("use force"), "{refused}");
            assert_eq!(check(text, true), Ok(()), "{text}");
        }
        for force in [false, true] {
            let refused = check("abc", force).unwrap_err();
            assert!(refused.contains("shorter than 6 bytes") && !refused.contains("force"), "{refused}");
            assert_eq!(check("hunter2!", force), Ok(()));
        }
    }

    #[test]
    fn a_missing_field_is_named_with_all_of_the_type() {
        let (_, detail) = refused(vec![event("llm_call", json!({"prompt": "p"}))]);
        assert!(detail.contains("missing; llm_call has prompt, response"), "{detail}");
    }

    /// A text was taken, and the call was shown and counted as one that took no time.
    #[test]
    fn a_duration_is_a_number() {
        let took = |event_type: &str, duration: Value| {
            event(
                event_type,
                json!({"tool_name": "t", "prompt": [], "response": {}, "output": [], "duration": duration}),
            )
        };
        for name in TIMED {
            events(&[took(name, json!(1.5)), took(name, json!(2)), took(name, Value::Null)]).unwrap();
            for wrong in [json!("1.4"), json!({}), json!(true)] {
                let (code, detail) = refused(vec![took(name, wrong)]);
                assert_eq!(code, "invalid_request");
                assert!(detail.starts_with("data.duration: it must be a number"), "{detail}");
            }
        }
        // Nobody reads it elsewhere, and one's own events have what fields they like.
        events(&[took("final_output", json!("long")), took("x_mine", json!("long"))]).unwrap();
    }

    #[test]
    fn other_types_are_told_what_there_is() {
        for name in ["run_started", "", "x_", "X_mine", "x_ö", "x_a b", &format!("x_{}", "y".repeat(63))] {
            let (code, detail) = refused(vec![event(name, json!({}))]);
            assert_eq!(code, "invalid_event_type", "{name}");
            assert!(detail.contains("user_input, state_transition, llm_call, tool_call, final_output"), "{detail}");
        }
    }

    #[test]
    fn only_types_that_exist_are_selected() {
        let select = |types: &[&str]| selected_types(&types.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        select(&[]).unwrap();
        select(&TYPES.map(|(name, _)| name)).unwrap();
        select(&["tool_call", "session_rewound", "user_input", "x_mine"]).unwrap();
        select(&["session", "shell", "service", "checkpoint", "notice"]).unwrap();
        select(&["hole", "files_reclaimed", "resume_ended", "session_held", "session_released"]).unwrap();
        for wrong in ["tool_cal", "run_finished", "noted", "Tool_call"] {
            let refused = select(&["tool_call", wrong]).unwrap_err();
            assert_eq!(refused.code(), "invalid_request");
            let told = refused.to_string();
            assert!(told.contains(&format!("'{wrong}'")) && told.contains("run_started, "), "{told}");
        }
    }

    #[test]
    fn what_is_missing_or_too_large_is_named() {
        let (code, detail) = refused(vec![event("x_a", json!({})), event("user_input", json!({"text": 1}))]);
        assert_eq!((code.as_str(), detail.starts_with("events[1].data.message: missing")), ("invalid_request", true));
        assert!(refused(vec![event("x_a", json!([]))]).1.starts_with("data: it must be an object"));
        let large = json!({"text": "y".repeat(MAX_EVENT_BYTES)});
        assert!(refused(vec![event("x_a", large)]).1.contains("more than the 1048576"));
        let many = vec![event("x_a", json!({"text": "y".repeat(MAX_EVENT_BYTES - 100)})); 9];
        assert!(refused(many).1.contains("send fewer"));
        assert!(refused(Vec::new()).1.contains("1 to 10000"));
    }
}
