//! The nodes of a cluster: which are alive, which take sessions, and whether this one does.

use super::look::away;
use crate::ops::{ClusterError, OpError, Whereabouts};
use crate::tasks;
use shellkeep_process::Deadline;
use shellkeep_session::SessionId;
use shellkeep_shared::{Alone, Drain, LEASE, NodeEntry, Ship, Tier, Unserved};
use std::sync::Arc;
use std::time::Duration;

/// How long a start waits for the shared store: the lease of a dead node of the same name is over by then.
const ADMISSION: Duration = LEASE.saturating_add(Duration::from_secs(2));

/// The nodes, as this one knows them.
pub(crate) struct Members {
    ship: Arc<Ship>,
    /// This node, as it was when it started.
    entry: NodeEntry,
}

/// Opens the store that nodes share, for a node that may use it under its name. One that takes too long prevents
/// nothing: the name is looked at with the first sign of life.
pub(super) async fn admitted(url: &str, entry: &NodeEntry) -> Result<Box<dyn Tier>, String> {
    let entry = entry.clone();
    let admission = opened(url, move |tier| shellkeep_shared::admit(tier, &entry).map_err(|error| error.to_string()));
    match tokio::time::timeout(ADMISSION, admission).await {
        Ok(admitted) => admitted,
        Err(_) => {
            tracing::warn!("the shared store takes long to answer; this node starts without it");
            opened(url, |_| Ok(())).await
        }
    }
}

/// Opens the store that nodes share, and asks it something.
async fn opened(
    url: &str,
    question: impl FnOnce(&mut dyn Tier) -> Result<(), String> + Send + 'static,
) -> Result<Box<dyn Tier>, String> {
    let url = url.to_owned();
    // It waits for the store; and one that is not used is not closed by a thread that serves others.
    let opening = tasks::blocking(move || {
        let mut tier = open(&url)?;
        question(&mut *tier).map(|()| tier)
    });
    opening.await.map_err(|error| error.to_string())?
}

impl Members {
    /// The nodes that share a store with this one.
    pub(super) fn new(ship: Arc<Ship>, entry: NodeEntry) -> Self {
        Self { ship, entry }
    }

    /// The nodes that are alive.
    pub(crate) async fn nodes(&self) -> Result<Vec<NodeEntry>, OpError> {
        let nodes = self.ship.ask(|tier| tier.nodes()).await.map_err(away)?;
        // This node's own figures are newer than those that it has published.
        let newest = |node: NodeEntry| if node.name == self.entry.name { self.own() } else { node };
        Ok(nodes.into_iter().map(newest).collect())
    }

    /// The other nodes that are alive and can be asked.
    pub(crate) async fn others(&self) -> Result<Vec<NodeEntry>, OpError> {
        let nodes = self.ship.ask(|tier| tier.nodes()).await.map_err(away)?;
        let is_other = |node: &NodeEntry| node.name != self.entry.name && !node.url.is_empty();
        Ok(nodes.into_iter().filter(is_other).collect())
    }

    /// This node.
    pub(crate) fn own(&self) -> NodeEntry {
        let (sessions, draining) = (self.ship.count() as u64, self.is_draining());
        NodeEntry { sessions, draining, ..self.entry.clone() }
    }

    /// Whether this node works with a session.
    pub(crate) fn works_with(&self, id: &SessionId) -> bool {
        self.ship.is_open(id)
    }

    /// A node that is alive.
    pub(crate) async fn node(&self, name: &str) -> Result<NodeEntry, OpError> {
        if name == self.entry.name {
            return Ok(self.own());
        }
        let asked = name.to_owned();
        let found = self.ship.ask(move |tier| tier.node(&asked)).await.map_err(away)?;
        found.ok_or_else(|| ClusterError::NoSuchNode { node: name.to_owned() }.into())
    }

    /// The drain of this node.
    pub(crate) fn drain(&self) -> Drain {
        self.ship.drain()
    }

    /// Whether this node takes no more sessions.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain().has_begun()
    }

    /// Where to put a session that this node no longer takes: the node with the fewest.
    pub(super) async fn another(&self) -> Result<NodeEntry, OpError> {
        let nodes = self.ship.ask(|tier| tier.nodes()).await.map_err(away)?;
        let takes = |node: &NodeEntry| node.name != self.entry.name && !node.draining && !node.url.is_empty();
        let found = nodes.into_iter().filter(takes).min_by_key(|node| node.sessions);
        found.ok_or_else(|| ClusterError::Draining { node: self.entry.name.clone() }.into())
    }

    /// Whether the shared store is unreachable.
    pub(crate) fn is_away(&self) -> bool {
        self.alone().problem().is_some()
    }

    /// What this node may do while the shared store is unreachable.
    pub(crate) fn alone(&self) -> Alone {
        self.ship.alone()
    }

    /// The other nodes while the shared store is unreachable.
    pub(crate) fn neighbours(&self) -> Vec<NodeEntry> {
        self.alone().others()
    }

    pub(super) fn cut_off(&self) -> OpError {
        ClusterError::Alone { node: self.entry.name.clone() }.into()
    }

    /// The node that serves in place of this one, which is cut off; `None` if this one serves.
    pub(crate) fn served_by(&self) -> Result<Option<NodeEntry>, OpError> {
        match self.alone().unserved() {
            None => Ok(None),
            Some(Unserved { reached_by: Some(node) }) if !node.url.is_empty() => Ok(Some(node)),
            Some(_) => Err(self.cut_off()),
        }
    }

    /// An error if this node begins nothing: it is drained or cut off.
    pub(super) fn check_serving(&self) -> Result<(), OpError> {
        if self.is_draining() {
            return Err(ClusterError::Draining { node: self.entry.name.clone() }.into());
        }
        if self.alone().unserved().is_some() { Err(self.cut_off()) } else { Ok(()) }
    }

    /// Until when something may begin in a session of this node, from now; forever if no other node can take it.
    pub(crate) fn serves_until(&self, id: &SessionId) -> Option<Deadline> {
        self.alone().serves_until(id).map(Deadline::at)
    }

    /// Where a session is to be created.
    pub(crate) async fn place(&self) -> Result<Whereabouts, OpError> {
        if let Some(node) = self.served_by()? {
            return Ok(Whereabouts::There(node));
        }
        if self.is_draining() { Ok(Whereabouts::There(self.another().await?)) } else { Ok(Whereabouts::Here) }
    }
}

fn open(url: &str) -> Result<Box<dyn Tier>, String> {
    #[cfg(test)]
    if let Some(tier) = super::in_memory::at(url) {
        return Ok(Box::new(tier));
    }
    shellkeep_shared::open(url).map_err(|error| error.to_string())
}
