//! The types that the lines of recordings have, and the kinds of them: the names that events are selected by.

use crate::beside::RECLAIMED;
use crate::kinds;
use crate::line::HOLE;
use shellkeep_session::EventName;
use shellkeep_session::agent::{FINAL_OUTPUT, RESUME_ENDED, USER_INPUT};
use shellkeep_session::hold::{SESSION_HELD, SESSION_RELEASED};
use std::collections::BTreeSet;

/// How the types begin that agents' frameworks choose themselves.
pub const OWN: &str = "x_";

/// The types of what frameworks post, besides [`OWN`].
const POSTED: [&str; 5] = [USER_INPUT, "state_transition", "llm_call", "tool_call", FINAL_OUTPUT];
/// The types of what the runtime tells besides the facts of a session.
const TOLD: [&str; 5] = [HOLE, RECLAIMED, RESUME_ENDED, SESSION_HELD, SESSION_RELEASED];

/// All of them and all kinds, without one's own.
pub fn all() -> BTreeSet<&'static str> {
    let facts = EventName::ALL.into_iter().filter(|name| *name != EventName::Noted).map(EventName::shown);
    facts.chain(POSTED).chain(TOLD).chain(kinds::ALL).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_has_a_type_and_what_is_only_stored_has_none() {
        let all = all();
        for name in ["run_started", "tool_call", "user_input", "checkpoint_created", "session_released", "hole"] {
            assert!(all.contains(name), "{name}");
        }
        assert!(!["noted", "run_finished", OWN].into_iter().any(|name| all.contains(name)));
    }

    /// `?type=service` was refused, although the contract has this word for the runtime's own events.
    #[test]
    fn events_are_selected_by_kinds_too() {
        let all = all();
        for kind in ["session", "shell", "service", "checkpoint"] {
            assert!(all.contains(kind) && all.iter().any(|name| *name != kind && kinds::selects(kind, name)), "{kind}");
        }
        assert!(all.contains("notice"));
    }
}
