//! Sessions of which this node has a copy and which another node has taken since. The copy does not say so: it ends with what
//! this node wrote. It is in a file for each, so that a node that was restarted knows it too. A note with this node's own claim
//! says that the node lost its data directory, and has not brought all of the session again.

use super::look::{Sought, unreachable};
use crate::ops::{ClusterNode, OpError};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::{Claim, SessionId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The folder of the data directory with the notes.
const FOLDER: &str = "elsewhere";

/// Who took sessions from this node.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    folder: PathBuf,
    /// This node.
    node: String,
    owners: Mutex<HashMap<SessionId, Claim>>,
    /// Held while a note is written or removed.
    writing: Mutex<()>,
}

impl Elsewhere {
    /// What is noted in a data directory. A note that cannot be read is left out.
    pub(super) fn at(data_dir: &Path, node: &str) -> io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let mut owners = HashMap::new();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| SessionId::parse(name).ok());
            let claim = std::fs::read_to_string(entry.path()).ok().and_then(|text| text.trim().parse().ok());
            owners.extend(id.zip(claim));
        }
        Ok(Self { folder, node: node.to_owned(), owners: Mutex::new(owners), writing: Mutex::default() })
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

    /// Whether this node owns a session and lost what it had of it.
    pub(super) fn is_lost(&self, id: &SessionId) -> bool {
        self.noted(id).is_some_and(|owner| owner.node == self.node)
    }

    fn noted(&self, id: &SessionId) -> Option<Claim> {
        lock(&self.owners).get(id).cloned()
    }

    /// Where a session is that the shared store cannot tell: here, or on the node that took it, if that is one of `others`.
    pub(super) fn place(&self, id: &SessionId, others: Vec<ClusterNode>) -> Result<Sought, OpError> {
        let Some(owner) = self.owner(id) else { return Ok(Sought::here()) };
        let has_it = |node: &ClusterNode| node.name == owner.node && !node.url.is_empty();
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

    /// Writes or removes the note of a session. A separate thread does it, because the file system may be slow; it writes what is
    /// newest by then, whichever change asked for it.
    async fn save(self: &Arc<Self>, id: &SessionId) {
        let (all, of) = (Arc::clone(self), id.clone());
        let saving = tasks::blocking(move || {
            let _turn = lock(&all.writing);
            let file = all.folder.join(of.as_str());
            let Some(owner) = all.noted(&of) else {
                return std::fs::remove_file(file).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                });
            };
            // No session is named like this: an id does not begin with a dot.
            let new = all.folder.join(format!(".{of}"));
            std::fs::write(&new, owner.to_string())?;
            std::fs::rename(&new, file)
        });
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
        assert_eq!(elsewhere.owner(&id), None, "it is this node's own");
        elsewhere.note(&id, &claim("2.n2.x")).await;
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
