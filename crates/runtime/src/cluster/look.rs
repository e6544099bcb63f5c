//! Which node has a session, as the shared store tells.

use crate::ops::{ClusterError, ClusterNode, OpError};
use shellkeep_session::SessionId;
use shellkeep_shared::{Alone, Down, Found, NodeEntry, Tier};

/// What is known of a session before it is claimed.
pub(super) struct Look {
    /// What the shared store says.
    pub(super) found: Option<Found>,
    /// The node that has it, if that is another and alive.
    pub(super) elsewhere: Option<NodeEntry>,
    /// It was removed.
    pub(super) is_removed: bool,
    /// It is another's, and it is too early to take it: that node may go on without the shared store.
    pub(super) is_early: bool,
}

impl Look {
    /// Looks for a session, from a node.
    pub(super) fn at(tier: &mut dyn Tier, id: &SessionId, from: &str, alone: &Alone) -> Result<Self, Down> {
        // One without records is only being created.
        let found = tier.find(id)?.filter(|found| found.head.last.seq > 0);
        let is_removed = found.is_none() && !tier.removed(std::slice::from_ref(id))?.is_empty();
        let Some(others) = found.as_ref().filter(|found| holder(found) != from) else {
            return Ok(Self { found, elsewhere: None, is_removed, is_early: false });
        };
        // What a node let go of because it is drained is anybody's.
        let (held, node) = (others.lease.is_some(), tier.node(holder(others))?);
        let is_free = others.is_free || node.as_ref().is_some_and(|node| node.draining);
        let elsewhere = node.filter(|node| held || !node.draining);
        // One that left does not go on without the shared store either, also not with what slept when it did.
        let is_early = !is_free && !alone.may_take_over() && !tier.has_left(holder(others))?;
        Ok(Self { found, elsewhere, is_removed, is_early })
    }

    /// Whether the shared store does not know the session. If another node had it last, that one gives it again.
    pub(super) fn is_forgotten(&self) -> bool {
        self.found.is_none() && !self.is_removed
    }
}

/// The node that has a session: the one that works with it, or the one that worked with it last.
pub(super) fn holder(found: &Found) -> &str {
    found.lease.as_ref().map_or(&found.head.owner.node, |lease| &lease.node)
}

/// The node that has a session cannot be reached.
pub(super) fn unreachable(id: &SessionId, node: &str) -> OpError {
    ClusterError::OwnerUnreachable { session_id: id.to_string(), node: node.to_owned() }.into()
}

/// A node, as callers see it.
pub(super) fn shown(node: NodeEntry) -> ClusterNode {
    let NodeEntry { name, url, version, since, sessions, draining, .. } = node;
    ClusterNode { name, url, version, since, sessions, draining }
}

/// The shared store does not answer.
pub(super) fn away(down: Down) -> OpError {
    OpError::StoreUnavailable { reason: format!("the shared store is unreachable: {}", down.reason) }
}
