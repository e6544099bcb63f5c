//! When a session leaves this node: who follows it here is told, and continues on the node that has it.

use crate::cluster::{Cluster, Elsewhere};
use crate::ops::{ClusterError, OpError};
use shellkeep_session::SessionId;
use shellkeep_shared::{Alone, Drain};
use shellkeep_store::deleted;
use std::sync::Arc;

/// What tells that a session has left this node. It does not keep the store open, whose end ends who follows.
pub(super) struct Leaving {
    elsewhere: Arc<Elsewhere>,
    drain: Drain,
    alone: Alone,
}

impl Leaving {
    /// For a session of a node among others. What is kept of a deleted one does not leave.
    pub(super) fn of(cluster: Option<&Cluster>, id: &SessionId) -> Option<Self> {
        let cluster = cluster.filter(|_| !deleted::is_name(id))?;
        let members = cluster.members();
        Some(Self { elsewhere: Arc::clone(cluster.elsewhere()), drain: members.drain(), alone: members.alone() })
    }

    /// Whether another node has taken the session, or this one is cut off and others may.
    pub(super) fn is_taken(&self, id: &SessionId) -> bool {
        self.elsewhere.owner(id).is_some() || (self.alone.problem().is_some() && self.alone.is_late())
    }

    /// Returns when that is so, or this node is drained and has let go of the session.
    pub(super) async fn until_left(&self, id: &SessionId) {
        tokio::select! {
            () = self.until_taken(id) => {}
            () = self.until_let_go(id) => {}
        }
    }

    async fn until_taken(&self, id: &SessionId) {
        let mut changes = self.elsewhere.changes();
        // The sender lives as long as this.
        while !self.is_taken(id) && changes.changed().await.is_ok() {}
    }

    async fn until_let_go(&self, id: &SessionId) {
        // Before that, every session that falls asleep would wake all who follow one.
        self.drain.until_free().await;
        while !self.drain.until_left(&[id]).await {
            self.alone.until_reached().await;
        }
    }
}

/// The session is on another node, or about to be.
pub(super) fn moving(id: &SessionId) -> OpError {
    ClusterError::Moving { session_id: id.to_string() }.into()
}
