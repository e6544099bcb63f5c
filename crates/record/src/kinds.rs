//! The kinds of the runtime's own events: a name that selects several types at once.

use crate::line::Line;
use memchr::memmem;

/// The kind of whatever tells of something that its reader should know, of any type.
const NOTICE: &str = "notice";
/// All of them. Each but the last selects the types that begin with it, as `service` selects `service_started`.
pub const ALL: [&str; 5] = ["session", "shell", "service", "checkpoint", NOTICE];

/// Whether a name, a type or a kind, selects the events of a type.
pub(crate) fn selects(name: &str, event_type: &str) -> bool {
    let rest = || event_type.strip_prefix(name).filter(|_| ALL.contains(&name));
    name == event_type || rest().is_some_and(|rest| rest.starts_with('_'))
}

/// Whether names select events with notices.
pub(crate) fn select_notices(names: &[String]) -> bool {
    names.iter().any(|name| name == NOTICE)
}

/// Whether a line may have notices, as it stands in a file.
pub(crate) fn may_have_notices(line: &[u8]) -> bool {
    memmem::find(line, b"\"notices\":[{").is_some()
}

/// Whether it has some.
pub(crate) fn has_notices(line: &Line) -> bool {
    line.data["notices"].as_array().is_some_and(|notices| !notices.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_selects_the_types_that_begin_with_it() {
        for (name, event_type, expected) in [
            ("session", "session_created", true),
            ("session", "session_held", true),
            ("shell", "shell_stopped", true),
            ("service", "service_ready", true),
            ("checkpoint", "checkpoint_created", true),
            ("tool_call", "tool_call", true),
            ("session", "run_started", false),
            ("tool", "tool_call", false),
            ("x_a", "x_a_b", false),
            ("session", "sessions", false),
        ] {
            assert_eq!(selects(name, event_type), expected, "{name} and {event_type}");
        }
    }
}
