//! Which node has a session, as the shared store tells.

use crate::ops::{ClusterError, OpError, Whereabouts};
use shellkeep_session::SessionId;
use shellkeep_shared::{Alone, Down, Found, Lacking, NodeEntry, Tier};

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
    /// The shared store does not know it, and lacks the sessions of these nodes.
    pub(super) lacking: Option<Lacking>,
}

/// Where a session is, as far as is known.
pub(crate) struct Sought {
    pub(crate) whereabouts: Whereabouts,
    /// This node must take it before it is used here.
    pub(crate) must_take: bool,
    /// This node does not know it, and another may have it that cannot be asked.
    pub(crate) unsure: Option<OpError>,
}

impl Sought {
    /// Here, or nowhere.
    pub(super) fn here() -> Self {
        Self { whereabouts: Whereabouts::Here, must_take: false, unsure: None }
    }

    pub(super) fn there(node: NodeEntry) -> Self {
        Self { whereabouts: Whereabouts::There(node), ..Self::here() }
    }

    pub(super) fn unsure(why: OpError) -> Self {
        Self { unsure: Some(why), ..Self::here() }
    }
}

impl Look {
    /// Looks for a session, from a node.
    pub(super) fn at(tier: &mut dyn Tier, id: &SessionId, from: &str, alone: &Alone) -> Result<Self, Down> {
        // One without records is only being created.
        let found = tier.find(id)?.filter(|found| found.head.last.seq > 0);
        let is_removed = found.is_none() && !tier.removed(std::slice::from_ref(id))?.is_empty();
        let Some(others) = found.as_ref().filter(|found| holder(found) != from) else {
            let lacking = if found.is_some() || is_removed { None } else { alone.lacking(tier)? };
            return Ok(Self { found, elsewhere: None, is_removed, is_early: false, lacking });
        };
        // Any node may take a session that a drained node has released.
        let (held, node) = (others.lease.is_some(), tier.node(holder(others))?);
        let is_free = others.is_free || node.as_ref().is_some_and(|node| node.draining);
        let elsewhere = node.filter(|node| held || !node.draining);
        // One that left does not go on without the shared store either, also not with what slept when it did.
        let is_early = !is_free && !alone.may_take_over() && !tier.has_left(holder(others))?;
        Ok(Self { found, elsewhere, is_removed, is_early, lacking: None })
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

/// The session is another node's.
pub(crate) fn moved(id: &SessionId) -> OpError {
    ClusterError::Moved { session_id: id.to_string() }.into()
}

/// The shared store does not answer. Where it is, and what the system says of it, is for the host: in the log, and in what
/// `/readyz` says.
pub(super) fn away(down: Down) -> OpError {
    tracing::debug!(reason = down.reason, "the shared store was needed for an answer");
    OpError::StoreUnavailable { reason: unavailable(&down).to_owned() }
}

/// The same in plain words.
fn unavailable(down: &Down) -> &'static str {
    match down.answers {
        true => "the store that all nodes share answers with an error",
        false => "the store that all nodes share does not answer",
    }
}

/// The shared store was emptied, and lacks the sessions of these nodes.
pub(super) fn emptied(lacking: &Lacking) -> OpError {
    let Lacking { alive, gone } = lacking;
    let reason = match (alive.join(", "), gone.join(", ")) {
        (alive, gone) if gone.is_empty() => format!("it was emptied, and node {alive} is giving it its sessions again"),
        (_, gone) => format!("it was emptied, and lacks the sessions of node {gone} until that is started again"),
    };
    OpError::StoreUnavailable { reason: format!("the shared store: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: agents were shown the URL of the shared store.
    #[test]
    fn a_caller_does_not_learn_where_the_shared_store_is() {
        let silent = Down::new("redis://10.0.0.9:6379/0: Resource temporarily unavailable (os error 11)");
        let failing = Down { answers: true, ..silent.clone() };
        for (down, expected) in [(silent, "does not answer"), (failing, "answers with an error")] {
            let told = away(down).to_string();
            assert!(told.contains(expected) && !told.contains("redis"), "{told}");
        }
    }
}
