//! Sessions that this node deleted and that the shared store must forget too. A deletion is recorded here first; until the
//! shared store has followed, the session must not come back from there.

use super::arrive;
use crate::pending::{Deletion, Pending};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::SessionId;
use shellkeep_shared::{Down, Ship, Tier};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pauses between attempts to remove a session. The first is short, because the shared store may have been away for a moment
/// only. They grow while it answers without doing it, as with records that it cannot read: each attempt takes the time of the
/// thread that renews leases.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Deletions that the shared store has not followed yet.
pub(crate) struct Removals {
    ship: Arc<Ship>,
    node: String,
    waiting: Mutex<HashSet<SessionId>>,
}

impl Removals {
    pub(super) fn new(ship: Arc<Ship>, node: &str) -> Arc<Self> {
        Arc::new(Self { ship, node: node.to_owned(), waiting: Mutex::default() })
    }

    /// Whether a session was deleted here, and the shared store still has it.
    pub(crate) fn is_waiting(&self, id: &SessionId) -> bool {
        lock(&self.waiting).contains(id)
    }

    /// Which of these sessions the shared store says were removed. None of them while it is unreachable.
    pub(crate) async fn removed(&self, ids: Vec<SessionId>) -> HashSet<SessionId> {
        self.ship.ask(move |tier| tier.removed(&ids)).await.unwrap_or_default().into_iter().collect()
    }

    /// Removes a session from the shared store. If that does not do it, it is asked again until it does, or after the next
    /// start: until then the note stays.
    pub(crate) async fn finish(self: &Arc<Self>, deletion: &Deletion, note: Option<Pending>) {
        let id = &deletion.id;
        self.ship.forget(id);
        lock(&self.waiting).insert(id.clone());
        let Err(down) = self.remove(deletion).await else { return self.done(id, note) };
        if down.answers {
            tracing::warn!(session = %id, reason = down.reason, "a deleted session stays in the shared store for now");
        }
        let (this, deletion) = (Arc::clone(self), deletion.clone());
        tasks::spawn(async move {
            if this.keep_trying(&deletion).await {
                this.done(&deletion.id, note);
            }
        });
    }

    /// Returns when a session is removed, or that it is not because the node is stopping.
    async fn keep_trying(&self, deletion: &Deletion) -> bool {
        let (alone, mut pause) = (self.ship.alone(), FIRST_PAUSE);
        while !alone.is_closing() {
            tokio::time::sleep(pause).await;
            alone.until_reached().await;
            match self.remove(deletion).await {
                Ok(()) => return true,
                Err(down) if down.answers => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(_) => pause = FIRST_PAUSE,
            }
        }
        false
    }

    fn done(&self, id: &SessionId, note: Option<Pending>) {
        lock(&self.waiting).remove(id);
        if let Some(note) = note {
            note.done();
        }
    }

    async fn remove(&self, deletion: &Deletion) -> Result<(), Down> {
        let (node, deletion) = (self.node.clone(), deletion.clone());
        self.ship.ask(move |tier| remove(tier, &node, &deletion)).await
    }
}

/// Removes a session that this node owns. One that another node has taken over stays: nobody was told that it is
/// deleted. So does another session of the same name.
fn remove(tier: &mut dyn Tier, node: &str, deletion: &Deletion) -> Result<(), Down> {
    let id = &deletion.id;
    let Some(found) = tier.find(id)?.filter(|found| found.head.owner.node == node) else { return Ok(()) };
    let lines = tier.load(id)?.lines;
    // One that cannot be read is deleted without its time of creation.
    let is_another = match arrive::fold(id, None, &lines, |_| Ok(())) {
        Ok(Some(state)) => !deletion.is_of(&state.meta),
        Ok(None) | Err(_) => false,
    };
    if is_another { Ok(()) } else { tier.remove(id, &found.head.owner) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::ByteString;
    use shellkeep_session::ownership::{Ask, Claims};
    use shellkeep_shared::memory::MemoryTier;
    use shellkeep_shared::{ClaimRequest, Closing, LEASE, NodeEntry, Remembered, ShipOptions, WhenAlone};
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    /// Far more than anything here takes.
    const LONG: Duration = Duration::from_secs(60);

    /// A session of this node in a tier, and its deletion.
    fn deleted() -> (MemoryTier, Arc<Removals>, Deletion) {
        let (mut tier, id) = (MemoryTier::default(), SessionId::parse("s").unwrap());
        let ask = Ask { node: "n1".to_owned(), nonce: "x".to_owned(), mine: None, seen: 0, claims: Claims::default() };
        let request = ClaimRequest { session_id: id.clone(), ask, data_dir: String::new(), agent: None, create: None };
        tier.claim(&request, LEASE).unwrap().unwrap();
        let (name, url, version, since) = ("n1".to_owned(), String::new(), String::new(), String::new());
        let node = NodeEntry { name, url, version, since, sessions: 0, draining: false, data_id: None, given: None };
        let (when_alone, remembered, news) = (WhenAlone::Serve, Remembered::default(), mpsc::unbounded_channel().0);
        let ship =
            Ship::start(ShipOptions { tier: Box::new(tier.clone()), node, when_alone, remembered, news }).unwrap();
        (tier, Removals::new(Arc::new(ship), "n1"), Deletion::of_files(&id, ByteString::from("")))
    }

    /// The bug: a session whose records could not be read was asked for as fast as the store answered, on the thread that renews
    /// leases.
    #[tokio::test]
    async fn a_session_that_cannot_be_removed_is_tried_again_after_a_pause() {
        let (mut tier, removals, deletion) = deleted();
        tier.set_unreadable(true);
        let removed = timeout(2 * FIRST_PAUSE, removals.keep_trying(&deletion)).await;
        assert!(removed.is_err(), "it cannot be removed");
        assert!(tier.loads() <= 1, "it was tried {} times", tier.loads());
        tier.set_unreadable(false);
        assert!(timeout(LONG, removals.keep_trying(&deletion)).await.expect("it can be removed"));
        assert_eq!(tier.find(&deletion.id), Ok(None));
    }

    /// The bug: a node that was stopping answered at once that it was, and was asked again.
    #[tokio::test]
    async fn a_node_that_stops_leaves_a_removal_to_its_next_start() {
        let (_tier, removals, deletion) = deleted();
        removals.ship.close(Closing::Stop);
        assert!(!timeout(LONG, removals.keep_trying(&deletion)).await.expect("it is given up"));
    }
}
