//! Sessions of which this node has a copy and which another node has taken since. The copy does not say so: it ends with what
//! this node wrote. It is in a file for each, so that a node that was restarted knows it too. A note with this node's own claim
//! says that the node lost its data directory, and has not brought all of the session again.

use super::look::{Sought, unreachable};
use super::session_notes::SessionNotes;
use crate::ops::{NodeEntry, OpError};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::{Claim, SessionId};
use shellkeep_store::Survives;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The folder of the data directory with the notes.
const FOLDER: &str = "elsewhere";

/// Who took sessions from this node.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    notes: SessionNotes,
    /// This node.
    node: String,
    owners: Mutex<HashMap<SessionId, Claim>>,
    /// Tells that sessions may have left this node.
    left: watch::Sender<()>,
}

impl Elsewhere {
    /// What is noted in a data directory. A note that cannot be read is left out.
    pub(super) fn at(data_dir: &Path, node: &str) -> io::Result<Self> {
        let notes = SessionNotes::at(data_dir, FOLDER, Survives::Crash)?;
        let claim = |id: &SessionId| notes.text(id).ok()?.trim().parse().ok();
        let owners = notes.all()?.into_iter().filter_map(|id| claim(&id).map(|claim| (id, claim))).collect();
        Ok(Self { notes, node: node.to_owned(), owners: Mutex::new(owners), left: watch::Sender::new(()) })
    }

    /// The last owner that is known of a session that this node lost to another.
    pub(crate) fn owner(&self, id: &SessionId) -> Option<Claim> {
        self.noted(id).filter(|owner| owner.node != self.node)
    }

    /// The sessions that this node lost to others.
    pub(crate) fn lost(&self) -> Vec<SessionId> {
        let owners = lock(&self.owners);
        owners.iter().filter(|(_, owner)| owner.node != self.node).map(|(id, _)| id.clone()).collect()
    }

    /// Changes whenever sessions may have left this node.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.left.subscribe()
    }

    /// Sessions may have left this node: another took one, or this node is cut off.
    pub(crate) fn tell(&self) {
        self.left.send_modify(|_| ());
    }

    /// Whether this node owns a session and lost what it had of it.
    pub(super) fn is_lost(&self, id: &SessionId) -> bool {
        self.noted(id).is_some_and(|owner| owner.node == self.node)
    }

    fn noted(&self, id: &SessionId) -> Option<Claim> {
        lock(&self.owners).get(id).cloned()
    }

    /// Where a session is that the shared store cannot tell: here, or on the node that took it, if that is one of `others`.
    pub(super) fn place(&self, id: &SessionId, others: Vec<NodeEntry>) -> Result<Sought, OpError> {
        let Some(owner) = self.owner(id) else { return Ok(Sought::here()) };
        let has_it = |node: &NodeEntry| node.name == owner.node && !node.url.is_empty();
        let found = others.into_iter().find(has_it).map(Sought::there);
        found.ok_or_else(|| unreachable(id, &owner.node))
    }

    /// This is the owner of a session of which this node may have a copy. Returns when that is noted.
    pub(crate) async fn note(self: &Arc<Self>, id: &SessionId, owner: &Claim) {
        let is_new = {
            let mut owners = lock(&self.owners);
            let is_new = owner.node != self.node && owners.get(id).is_none_or(|known| known.epoch < owner.epoch);
            if is_new {
                owners.insert(id.clone(), owner.clone());
            }
            is_new
        };
        if is_new {
            self.tell();
            self.save(id).await;
        }
    }

    /// The session is this node's under a claim of which the node has no record: its data directory was lost. Returns when that
    /// is noted.
    pub(super) async fn note_lost(self: &Arc<Self>, id: &SessionId, claim: &Claim) {
        lock(&self.owners).insert(id.clone(), claim.clone());
        self.save(id).await;
    }

    /// The session is this node's, or nobody's.
    pub(crate) async fn forget(self: &Arc<Self>, id: &SessionId) {
        let was_known = lock(&self.owners).remove(id).is_some();
        if was_known {
            self.save(id).await;
        }
    }

    /// Writes or removes the note of a session, on a thread that may block.
    async fn save(self: &Arc<Self>, id: &SessionId) {
        let (all, of) = (Arc::clone(self), id.clone());
        let saving = tasks::blocking(move || all.notes.set(&of, || all.noted(&of).map(|owner| owner.to_string())));
        if let Ok(Err(error)) = saving.await {
            tracing::warn!(session = %id, %error, "the note of the node that owns a session could not be changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_latest_owner_is_known_after_a_restart() {
        let data = tempfile::TempDir::new().unwrap();
        let id = SessionId::parse("s").unwrap();
        let claim = |text: &str| text.parse::<Claim>().unwrap();
        let at = || Arc::new(Elsewhere::at(data.path(), "n1").unwrap());
        let elsewhere = at();
        assert_eq!(elsewhere.owner(&id), None);
        elsewhere.note(&id, &claim("1.n1.x")).await;
        let changes = elsewhere.changes();
        assert_eq!(elsewhere.owner(&id), None, "it is this node's own");
        elsewhere.note(&id, &claim("2.n2.x")).await;
        assert!(changes.has_changed().unwrap());
        elsewhere.note(&id, &claim("3.n3.y")).await;
        elsewhere.note(&id, &claim("2.n2.x")).await;
        let again = at();
        assert_eq!(again.owner(&id), Some(claim("3.n3.y")));
        again.forget(&id).await;
        assert_eq!(at().owner(&id), None);
        // What was lost with a data directory is not another's.
        again.note_lost(&id, &claim("4.n1.x")).await;
        assert_eq!((again.is_lost(&id), at().is_lost(&id), at().owner(&id)), (true, true, None));
        again.forget(&id).await;
        assert!(!at().is_lost(&id));
        // Those who lose it and those who take it back do not wait for each other.
        let (lost, back) = (claim("5.n2.x"), claim("6.n3.x"));
        tokio::join!(again.note(&id, &lost), again.forget(&id), again.note(&id, &back), again.forget(&id));
        assert_eq!((again.owner(&id), at().owner(&id)), (None, None));
    }
}
