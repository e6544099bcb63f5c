//! A hold on a session: a person takes over, and the agent's commands wait.

use shellkeep_session::{ByteString, RunId, SessionHold, SessionId, Timestamp};
use std::time::Duration;

/// How long a hold lasts unless it is extended.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(10 * 60);
/// The longest hold without an extension: a day.
pub const MAX_HOLD: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest name of a holder and longest reason.
pub const MAX_HOLD_TEXT: usize = 200;

/// Take or extend a hold.
#[derive(Debug, Clone)]
pub struct TakeHold {
    /// Who takes it.
    pub holder: String,
    /// Why.
    pub reason: Option<String>,
    /// How long it lasts unless it is extended.
    pub ttl: Duration,
    /// The id of the hold to extend; none for a new one.
    pub hold_id: Option<String>,
}

/// A hold, for its holder.
#[derive(Debug, Clone)]
pub struct HoldView {
    pub session_id: SessionId,
    /// What the holder's requests carry. Only the holder knows it.
    pub hold_id: String,
    pub by: HeldBy,
    /// Commands of others that wait for its end.
    pub waiting: usize,
    /// The command that runs now, and its text.
    pub running: Option<(RunId, ByteString)>,
}

/// A hold, for everybody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    pub holder: String,
    /// Why.
    pub reason: Option<String>,
    /// When it ends unless it is extended.
    pub until: Timestamp,
}

impl HeldBy {
    /// Who holds a session now.
    pub(crate) fn of(hold: Option<&SessionHold>) -> Option<Self> {
        hold.filter(|hold| hold.until > Timestamp::now()).map(Self::from)
    }
}

impl From<&SessionHold> for HeldBy {
    fn from(hold: &SessionHold) -> Self {
        Self { holder: hold.holder.clone(), reason: hold.reason.clone(), until: hold.until }
    }
}

/// The end of a hold.
#[derive(Debug, Clone)]
pub struct ReleasedHold {
    pub session_id: SessionId,
    /// Whether the session was held.
    pub released: bool,
    /// What the agent's next result says about it; nothing if the holder ran nothing.
    pub notice: Option<String>,
}
