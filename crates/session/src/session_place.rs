//! A place in a list of sessions, from which its next page begins.

use crate::{SessionId, Timestamp};
use std::cmp::Reverse;
use std::fmt;

/// A place in a list of sessions: behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    pub session_id: SessionId,
    /// When something happened last in it, in a list that begins with the most recently active. It says where the place is if
    /// the session is not in the list, and when something happened in it since.
    pub last_active_at: Option<Timestamp>,
}

impl From<SessionId> for SessionPlace {
    fn from(session_id: SessionId) -> Self {
        Self { session_id, last_active_at: None }
    }
}

impl fmt::Display for SessionPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last_active_at {
            Some(at) => write!(formatter, "{}/{}", at.as_nanosecond(), self.session_id),
            None => write!(formatter, "{}", self.session_id),
        }
    }
}

impl SessionPlace {
    /// Behind a session, in a list that begins with the most recently active.
    pub fn active(session_id: SessionId, last_active_at: Timestamp) -> Self {
        Self { session_id, last_active_at: Some(last_active_at) }
    }

    /// Reads what it displays; `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((at, session_id)) = text.split_once('/') else {
            return SessionId::parse(text).ok().map(Self::from);
        };
        let is_number = !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit());
        let at = at.parse().ok().filter(|_| is_number).and_then(|at| Timestamp::from_nanosecond(at).ok())?;
        Some(Self::active(SessionId::parse(session_id).ok()?, at))
    }

    /// By this places are ordered, those of one list.
    pub fn order(&self) -> (Reverse<Option<Timestamp>>, &SessionId) {
        (Reverse(self.last_active_at), &self.session_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_nothing_else_does() {
        let session_id = SessionId::parse("a.b:c-d").unwrap();
        let at: Timestamp = "2026-11-17T03:38:14.000000123Z".parse().unwrap();
        for place in [SessionPlace::from(session_id.clone()), SessionPlace::active(session_id, at)] {
            assert_eq!(SessionPlace::parse(&place.to_string()), Some(place));
        }
        for bad in ["", "/a", "x/a", "-1/a", "1/", "1/a/2", "99999999999999999999999999999999999999/a"] {
            assert_eq!(SessionPlace::parse(bad), None, "{bad}");
        }
    }
}
