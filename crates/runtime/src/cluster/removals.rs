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
    pub(super) fn is_waiting(&self, id: &SessionId) -> bool {
        lock(&self.waiting).contains(id)
    }

    /// Which of these sessions the shared store says were removed. None of them while it is unreachable.
    pub(crate) async fn removed(&self, ids: Vec<SessionId>) -> HashSet<SessionId> {
        self.ship.ask(move |tier| tier.removed(&ids)).await.unwrap_or_default().into_iter().collect()
    }

    /// Removes a session from the shared store. If that is unreachable, the session is removed when it is back, or after the
    /// next start: until then the note stays.
    pub(crate) async fn finish(self: &Arc<Self>, deletion: &Deletion, note: Option<Pending>) {
        let id = &deletion.id;
        self.ship.forget(id);
        lock(&self.waiting).insert(id.clone());
        if self.remove(deletion).await.is_ok() {
            return self.done(id, note);
        }
        let (this, deletion) = (Arc::clone(self), deletion.clone());
        tasks::spawn(async move {
            loop {
                this.ship.alone().until_reached().await;
                if this.remove(&deletion).await.is_ok() {
                    return this.done(&deletion.id, note);
                }
            }
        });
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

/// Removes a session that this node owns. One that another node went on with stays: nobody was told that it is deleted. So does
/// another session of the same name.
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
