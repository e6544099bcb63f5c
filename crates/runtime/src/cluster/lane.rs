//! What this node has begun to send of a session, until something goes on with it.

use shellkeep_session::ownership::Claim;
use shellkeep_session::{Record, SessionId};
use shellkeep_shared::{Ship, Start};
use std::sync::Arc;

/// A session whose records this node sends from now on. Unless something goes on with it, its lease is released again: this node
/// would renew it for as long as it lives, and refuse the session to every other claim, its own among them.
#[must_use]
pub(super) struct OpenLane {
    ship: Arc<Ship>,
    id: SessionId,
    claim: Claim,
    gives_back: bool,
}

impl OpenLane {
    /// Begins to send a session's records, as [`Ship::begin`] does.
    pub(super) fn begin(
        ship: &Arc<Ship>,
        id: &SessionId,
        start: Start,
        stands_for: impl FnOnce(u64) -> Option<Record>,
    ) -> Self {
        let claim = start.claim.clone();
        ship.begin(id, start, stands_for);
        Self { ship: Arc::clone(ship), id: id.clone(), claim, gives_back: true }
    }

    /// The claim under which they are sent.
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The session's task goes on with it, which lets go of it when the session sleeps.
    pub(super) fn keep(mut self) {
        self.gives_back = false;
    }
}

impl Drop for OpenLane {
    fn drop(&mut self) {
        if self.gives_back {
            self.ship.give_back(&self.id, &self.claim);
        }
    }
}
