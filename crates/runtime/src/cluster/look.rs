//! Which node has a session, as the shared store tells.

use crate::ops::{ClusterNode, OpError};
use shellkeep_session::SessionId;
use shellkeep_shared::{Down, Found, NodeEntry, Tier};

/// What is known of a session before it is claimed.
pub(super) struct Look {
    /// What the shared store says.
    pub(super) found: Option<Found>,
    /// The node that has it, if that is another and alive.
    pub(super) elsewhere: Option<NodeEntry>,
}

impl Look {
    /// Looks for a session, from a node.
    pub(super) fn at(tier: &mut dyn Tier, id: &SessionId, from: &str) -> Result<Self, Down> {
        // One without records is only being created.
        let found = tier.find(id)?.filter(|found| found.head.last.seq > 0);
        let elsewhere = match found.as_ref().filter(|found| holder(found) != from) {
            // What a node let go of because it is drained is anybody's.
            Some(found) => tier.node(holder(found))?.filter(|node| found.lease.is_some() || !node.draining),
            None => None,
        };
        Ok(Self { found, elsewhere })
    }
}

/// The node that has a session: the one that works with it, or the one that worked with it last.
pub(super) fn holder(found: &Found) -> &str {
    found.lease.as_ref().map_or(&found.head.owner.node, |lease| &lease.node)
}

/// A node, as callers see it.
pub(super) fn shown(node: NodeEntry) -> ClusterNode {
    let NodeEntry { name, url, version, since, sessions, draining } = node;
    ClusterNode { name, url, version, since, sessions, draining }
}

/// The shared store does not answer.
pub(super) fn away(down: Down) -> OpError {
    OpError::StoreUnavailable { reason: format!("the shared store is unreachable: {}", down.reason) }
}
