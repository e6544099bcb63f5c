//! What a node may do while the tier is unreachable, for those who decide whether a session is served.

use crate::given;
use crate::lanes::Shared;
use crate::tier::{Down, NodeEntry, Tier};
use shellkeep_session::SessionId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::watch;

/// What this node may do while the tier is unreachable.
#[derive(Clone)]
pub struct Alone(pub(crate) Arc<Shared>);

/// A node begins nothing by itself: it cannot reach the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// A node that reaches the tier, if one is known.
    pub reached_by: Option<NodeEntry>,
}

/// The nodes whose sessions the tier lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Those that are about to give them again.
    pub alive: Vec<String>,
    /// Those that must be started before.
    pub gone: Vec<String>,
}

impl Alone {
    /// Returns when the tier is unreachable.
    pub async fn until_away(&self) {
        // The sender lives as long as the ship.
        let _ = self.0.away.subscribe().wait_for(|is_away| *is_away).await;
    }

    /// Returns when the tier answers.
    pub async fn until_reached(&self) {
        let _ = self.0.away.subscribe().wait_for(|is_away| !*is_away).await;
    }

    /// Why the tier is unreachable, if it is.
    pub fn problem(&self) -> Option<String> {
        self.0.lanes().down.as_ref().map(|down| down.reason.clone())
    }

    /// Whether the node is stopping: the tier is asked nothing more.
    pub fn is_closing(&self) -> bool {
        self.0.lanes().closing.is_some()
    }

    /// Changes whenever other nodes may have taken sessions of this node without its knowledge: the tier was connected anew
    /// and may have lost something, it was emptied, or a renewal came too late.
    pub fn doubts(&self) -> watch::Receiver<u64> {
        self.0.doubts.subscribe()
    }

    /// How often a renewal came too late.
    pub fn gaps(&self) -> u64 {
        self.0.gaps.load(Ordering::SeqCst)
    }

    /// All sessions of this node have been looked at since a renewal came too late for that many times.
    pub fn looked(&self, gaps: u64) {
        self.0.looked.fetch_max(gaps, Ordering::SeqCst);
    }

    /// Whether other nodes may have taken sessions that sleep here, and not all of them have been looked at since.
    pub fn is_in_doubt(&self) -> bool {
        self.0.looked.load(Ordering::SeqCst) < self.gaps()
    }

    /// The incarnation of the tier that was last seen.
    pub fn incarnation(&self) -> Option<String> {
        self.0.lanes().given.current()
    }

    /// Whether all that this node has to give has been given to the tier; not if that was emptied since.
    pub fn has_given(&self) -> bool {
        self.0.lanes().given.has_given()
    }

    /// All sessions of this node have been given to an incarnation of the tier.
    pub fn gave(&self, incarnation: &str) {
        let mut lanes = self.0.lanes();
        if lanes.given.gave(incarnation) {
            // Others wait for it.
            lanes.has_news = true;
            self.0.work.notify_one();
        }
    }

    /// The nodes whose sessions the tier lacks, because it was emptied and they have not given them again; `None` if it
    /// lacks nothing, as far as is known: this node may never have seen one of them.
    pub fn lacking(&self, tier: &mut dyn Tier) -> Result<Option<Lacking>, Down> {
        let node = self.0.lanes().given.node().to_owned();
        let incarnation = tier.incarnation(&given::new_name(&node))?;
        if self.0.lanes().given.is_whole(&incarnation) {
            return Ok(None);
        }
        let nodes = tier.nodes()?;
        let mut lanes = self.0.lanes();
        lanes.given.found(&incarnation);
        lanes.given.seen(&nodes);
        // Those that are alive have told the tier so again within a lease. This one knows its own sessions.
        let is_new = lanes.given.is_new();
        let is_alive = |name: &String| is_new || nodes.iter().any(|node| node.name == *name);
        let others = lanes.given.lacking().into_iter().filter(|name| *name != node);
        let (alive, gone): (Vec<_>, Vec<_>) = others.partition(is_alive);
        Ok((!alive.is_empty() || !gone.is_empty()).then_some(Lacking { alive, gone }))
    }

    /// The other nodes while the tier is unreachable: each is to be asked whether it reaches the tier.
    pub fn others(&self) -> Vec<NodeEntry> {
        let lanes = self.0.lanes();
        if lanes.down.is_some() { lanes.tenure.others() } else { Vec::new() }
    }

    /// Another node, asked at `asked`, does not reach the tier either: it takes no session for the time of a lease.
    pub fn promised(&self, node: &str, asked: Instant) {
        self.0.lanes().tenure.promised(node, asked);
    }

    /// Another node reaches the tier.
    pub fn reached_by(&self, node: &str) {
        self.0.lanes().tenure.reached_by(node);
    }

    /// Whether the leases were not renewed in time, so that other nodes may have taken sessions: the process was stopped or
    /// starved, or the tier is unreachable.
    pub fn is_late(&self) -> bool {
        self.0.lanes().tenure.is_over()
    }

    /// Returns when the leases are renewed, and sessions that are another's are let go of; or when the tier is unreachable.
    pub async fn until_renewed(&self) {
        loop {
            // It is told of what happens from now on.
            let renewed = self.0.renewed.notified();
            if !self.is_late() || self.0.lanes().down.is_some() {
                return;
            }
            renewed.await;
        }
    }

    /// When this node stops serving its sessions if nothing changes; never while the tier answers, or without other nodes.
    pub fn stops_at(&self) -> Option<Instant> {
        let lanes = self.0.lanes();
        lanes.tenure.stops_at().filter(|_| lanes.down.is_some())
    }

    /// When other nodes may take a session of this node if nothing is renewed from now on; never if there are no others.
    pub fn serves_until(&self, session_id: &SessionId) -> Option<Instant> {
        self.0.lanes().serves_until(session_id)
    }

    /// Whether this node begins nothing now.
    pub fn unserved(&self) -> Option<Unserved> {
        let lanes = self.0.lanes();
        let waits = lanes.down.is_some() && lanes.tenure.waits();
        (waits || lanes.is_over()).then(|| Unserved { reached_by: lanes.tenure.reaching() })
    }

    /// Whether this node answers only what the tier has.
    pub fn waits(&self) -> bool {
        self.0.lanes().tenure.waits()
    }

    /// Lets go of all sessions if other nodes may take them. Returns whether they may.
    pub fn stop_if_over(&self) -> bool {
        let mut lanes = self.0.lanes();
        let is_over = lanes.is_over();
        let news = if is_over { lanes.lose_all() } else { Vec::new() };
        drop(lanes);
        // Without an engine there is nothing to end.
        news.into_iter().for_each(|moved| drop(self.0.news.send(moved)));
        is_over
    }

    /// Whether this node may take sessions of nodes that are gone.
    pub fn may_take_over(&self) -> bool {
        self.0.lanes().tenure.may_take_over()
    }
}
