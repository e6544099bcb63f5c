//! What a search of sessions looks at: sessions in an order, and as much of each as a filter needs.

use shellkeep_session::{ByteString, RunResult, RunStatus, SessionId, SessionPlace, StoredRun, Timestamp};
use std::borrow::Cow;

/// Bytes of the last command that a filter sees. An index holds them, so that no run is read.
const COMMAND_BYTES: usize = 500;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionOrder {
    /// By id.
    #[default]
    Id,
    /// The session in which something happened last comes first.
    Active,
}

impl SessionOrder {
    /// The place behind a session.
    pub fn place(self, session_id: &SessionId, last_active_at: Timestamp) -> SessionPlace {
        match self {
            Self::Id => session_id.clone().into(),
            Self::Active => SessionPlace::active(session_id.clone(), last_active_at),
        }
    }
}

/// As much of a session as a filter needs.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub agent: Option<&'a str>,
    /// Its working directory.
    pub cwd: Cow<'a, str>,
    /// The beginning of its last command, in lower case.
    pub command: Cow<'a, str>,
    /// Whether that command has ended, and not with exit code 0.
    pub failed: bool,
}

/// Sessions to look through.
pub struct Walk<'a> {
    /// Only this agent's.
    pub agent: Option<&'a str>,
    pub order: SessionOrder,
    /// Where it begins.
    pub after: Option<&'a SessionPlace>,
    /// Most sessions to return, at least 1.
    pub limit: usize,
    /// Whether a session is wanted.
    pub keeps: &'a dyn Fn(&Candidate<'_>) -> bool,
}

impl<'a> Candidate<'a> {
    /// A session with its last command.
    pub fn new(id: &'a SessionId, agent: Option<&'a str>, cwd: &'a ByteString, last: Option<&StoredRun>) -> Self {
        let command = last.map(|run| command_words(run.command.as_bytes())).unwrap_or_default();
        let failed = last.and_then(|run| run.result.as_ref()).is_some_and(has_failed);
        Self { id: id.as_str(), agent, cwd: cwd.to_text(), command: command.into(), failed }
    }
}

/// The beginning of a command in lower case.
pub(crate) fn command_words(command: &[u8]) -> String {
    // Lower case may be longer or shorter, so both are cut.
    let begin = &command[..command.len().min(COMMAND_BYTES)];
    let mut words = String::from_utf8_lossy(begin).to_lowercase();
    let mut end = words.len().min(COMMAND_BYTES);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words.truncate(end);
    words
}

/// Whether a command did not end with exit code 0.
pub(crate) fn has_failed(result: &RunResult) -> bool {
    result.status != RunStatus::Exited || result.exit_code != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_command_is_cut_at_a_character() {
        assert_eq!(command_words(b"Make TEST\xff"), "make test\u{fffd}");
        // Each is 2 bytes, and 3 in lower case.
        let long = "\u{23a}".repeat(COMMAND_BYTES);
        assert_eq!(command_words(long.as_bytes()), "\u{2c65}".repeat(COMMAND_BYTES / 3));
    }
}
