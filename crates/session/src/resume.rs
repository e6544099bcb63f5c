//! Messages to an agent that were sent with a request id: which records are about one, and how to find it.

use crate::agent::{FINAL_OUTPUT, RESUME_ENDED, USER_INPUT};
use crate::{Event, id};
use serde::{Deserialize, Serialize};

/// A message to an agent that was sent with a request id, so that a retry finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResume {
    /// The caller's key.
    pub request_id: String,
    /// Number of the record with the message.
    pub seq: u64,
    /// Number of the record with the end of the work, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_seq: Option<u64>,
}

/// The role of an event for a message that was sent with a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMark<'a> {
    Begun {
        /// The caller's key.
        request_id: &'a str,
    },
    /// The end of the work on it.
    Ended {
        /// The caller's key.
        request_id: &'a str,
    },
}

impl<'a> ResumeMark<'a> {
    /// The role of an event, if it is about such a message. Only the runtime can end the work: a posted event cannot.
    pub fn of(event: &'a Event) -> Option<Self> {
        let Event::Noted { event_type, data, author } = event else { return None };
        let request_id = data["request_id"].as_str().filter(|key| id::check(key).is_ok())?;
        match event_type.as_str() {
            USER_INPUT => Some(Self::Begun { request_id }),
            FINAL_OUTPUT | RESUME_ENDED if !author.is_posted() => Some(Self::Ended { request_id }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Author;
    use serde_json::json;

    #[test]
    fn only_the_runtime_ends_the_work_on_a_message() {
        let noted = |event_type: &str, key: &str, author: Author| Event::Noted {
            event_type: event_type.to_owned(),
            data: json!({"request_id": key}),
            author,
        };
        let (host, runtime) = (Author::caller(None), Author::runtime(None));
        for (event, expected) in [
            (noted(USER_INPUT, "k", host.clone()), Some(ResumeMark::Begun { request_id: "k" })),
            (noted(FINAL_OUTPUT, "k", runtime.clone()), Some(ResumeMark::Ended { request_id: "k" })),
            (noted(RESUME_ENDED, "k", runtime.clone()), Some(ResumeMark::Ended { request_id: "k" })),
            (noted(FINAL_OUTPUT, "k", host), None),
            (noted(FINAL_OUTPUT, "no/key", runtime.clone()), None),
            (noted("llm_call", "k", runtime), None),
            (Event::SessionDestroyed, None),
        ] {
            assert_eq!(ResumeMark::of(&event), expected, "{event:?}");
        }
    }
}
