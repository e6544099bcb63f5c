//! This node among others: where a session is, and which nodes there are.

use super::access::Access;
use super::inner::Inner;
use super::node::NodeOps;
use crate::actor::Message;
use crate::cluster::Cluster;
use crate::identities::bound;
use crate::ops::{BoxFuture, ClusterNode, OpError, Whereabouts};
use crate::services::StopReason;
use shellkeep_session::SessionId;
use shellkeep_shared::Moved;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long services have to end by themselves when their session is another node's: it may already start them anew.
const MOVED_GRACE: Duration = Duration::from_millis(500);

/// Operations on the cluster.
pub struct ClusterOps<'a> {
    access: &'a Access,
    cluster: &'a Cluster,
}

impl<'a> NodeOps<'a> {
    /// Operations on the cluster, if this node is part of one.
    pub fn cluster(&self) -> Option<ClusterOps<'a>> {
        let access = self.access;
        let cluster = access.at_large().ctx.cluster.as_deref()?;
        Some(ClusterOps { access, cluster })
    }
}

impl ClusterOps<'_> {
    /// Where a session is. One that nobody has any more is taken over by this node.
    pub fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Whereabouts, OpError>> {
        Box::pin(async move {
            let bound = self.access.scope().agent().and_then(|agent| bound(agent, id));
            for id in std::iter::once(id).chain(&bound) {
                let (whereabouts, must_take) = self.cluster.locate(id).await?;
                if must_take {
                    self.access.at_large().ctx.registry.ask(id, Message::View).await?;
                }
                if let Whereabouts::There(_) = whereabouts {
                    return Ok(whereabouts);
                }
            }
            Ok(Whereabouts::Here)
        })
    }

    /// The nodes that are alive. The host's right.
    pub fn nodes(&self) -> BoxFuture<'_, Result<Vec<ClusterNode>, OpError>> {
        Box::pin(async move {
            self.access.as_reader()?;
            self.cluster.nodes().await
        })
    }
}

/// Does what the shared store asks for, as long as the engine lives.
pub(super) async fn follow(inner: Weak<Inner>, mut news: mpsc::UnboundedReceiver<Moved>) {
    while let Some(moved) = news.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        match moved {
            Moved::Away(id) => {
                tokio::spawn(let_go(inner, id));
            }
            Moved::Reclaim(id) => {
                tokio::spawn(reclaim(inner, id));
            }
        }
    }
}

/// Another node owns the session: nothing of it may run here.
async fn let_go(inner: Arc<Inner>, id: SessionId) {
    tracing::warn!(session = %id, "another node owns this session; what it ran here is ended");
    inner.ctx.registry.tell_awake(&id, Message::Moved).await;
    inner.ctx.services.stop(MOVED_GRACE, StopReason::SessionEnded, |seen| seen.session_id == id).await;
}

/// The shared store lost the session, or never had it.
async fn reclaim(inner: Arc<Inner>, id: SessionId) {
    let Some(cluster) = &inner.ctx.cluster else { return };
    let Ok(state) = inner.ctx.registry.snapshot(&id).await else { return };
    if !cluster.reclaim(&state).await {
        return let_go(Arc::clone(&inner), id).await;
    }
    if !inner.ctx.registry.is_awake(&id) {
        cluster.left(&id);
    }
}
