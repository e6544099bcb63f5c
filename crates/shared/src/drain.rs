//! Draining a node: first it takes no more sessions and ends its services, then others may take what it let go of.

use crate::alone::Alone;
use crate::lanes::{Draining, Shared};
use shellkeep_session::SessionId;
use std::collections::HashSet;
use std::sync::Arc;

/// The drain of a node.
pub struct Drain(pub(crate) Arc<Shared>);

impl Drain {
    /// The node takes no more sessions; services run of those in `serving`. Returns whether that is new.
    pub fn begin(&self, serving: HashSet<SessionId>) -> bool {
        let mut lanes = self.0.lanes();
        let is_new = matches!(lanes.draining, Draining::No);
        if is_new {
            lanes.draining = Draining::Serving(serving);
            self.0.count.send_replace(lanes.count());
        }
        is_new
    }

    /// No service runs here any more: other nodes are told that they may take what this one does not work with.
    pub fn free(&self) {
        let mut lanes = self.0.lanes();
        (lanes.draining, lanes.has_news) = (Draining::Free, true);
        lanes.ended.send_modify(|_| ());
        self.0.freed.send_replace(true);
        self.0.count.send_replace(lanes.count());
        self.0.work.notify_one();
    }

    /// Returns when others may take what this node does not work with.
    pub async fn until_free(&self) {
        // The sender lives as long as the ship.
        let _ = self.0.freed.subscribe().wait_for(|is_free| *is_free).await;
    }

    /// Whether the node takes no more sessions.
    pub fn has_begun(&self) -> bool {
        !matches!(self.0.lanes().draining, Draining::No)
    }

    /// Whether others may take what this node does not work with.
    pub fn is_free(&self) -> bool {
        self.0.lanes().draining.is_free()
    }

    /// Returns when others may take all of these sessions, or that they may not: while the tier is unreachable, none is let go of.
    pub async fn until_left(&self, session_ids: &[&SessionId]) -> bool {
        let mut ended = self.0.lanes().ended.subscribe();
        let alone = Alone(Arc::clone(&self.0));
        let leaving = async {
            // The sender lives as long as the ship.
            while !session_ids.iter().all(|id| self.has_left(id)) && ended.changed().await.is_ok() {}
        };
        tokio::select! {
            biased;
            () = leaving => true,
            () = alone.until_away() => false,
        }
    }

    /// Whether others may take this session: the node works with it no longer.
    pub fn has_left(&self, session_id: &SessionId) -> bool {
        let lanes = self.0.lanes();
        lanes.draining.is_free() && !lanes.all.contains_key(session_id)
    }

    /// Returns when the node has no session and others know it. While the tier is unreachable, nobody can be told.
    pub async fn until_over(&self) {
        // The senders live as long as the ship.
        let _ = self.0.count.subscribe().wait_for(|count| *count == 0).await;
        let alone = Alone(Arc::clone(&self.0));
        let mut told = self.0.told_empty.subscribe();
        tokio::select! {
            _ = told.wait_for(|is_told| *is_told) => {}
            () = alone.until_away() => {}
        }
    }
}
