//! Which sessions a list shows.

use shellkeep_session::SessionPlace;
use shellkeep_store::{SessionFilter, SessionOrder};

/// Which sessions to list, and in which order.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Only this agent's.
    pub agent: Option<String>,
    /// Only those that it keeps.
    pub filter: SessionFilter,
    /// Only those that have a shell.
    pub live: bool,
    /// Only those in which a command runs.
    pub running: bool,
    pub order: SessionOrder,
    /// Where the page begins.
    pub after: Option<SessionPlace>,
    /// Most sessions on the page.
    pub limit: usize,
}
