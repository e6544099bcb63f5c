//! Sessions of which this node has a copy and which another node has taken since. The copy does not say so: it ends with what
//! this node wrote. It is in a file for each, so that a node that was restarted knows it too.

use super::look::unreachable;
use crate::ops::{ClusterNode, OpError, Whereabouts};
use crate::sync::lock;
use shellkeep_session::{Claim, SessionId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The folder of the data directory with the notes.
const FOLDER: &str = "elsewhere";

/// Who took sessions from this node.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    folder: PathBuf,
    /// This node.
    node: String,
    owners: Mutex<HashMap<SessionId, Claim>>,
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
        Ok(Self { folder, node: node.to_owned(), owners: Mutex::new(owners) })
    }

    /// The last owner that is known of a session that this node lost.
    pub(crate) fn owner(&self, id: &SessionId) -> Option<Claim> {
        lock(&self.owners).get(id).cloned()
    }

    /// Where a session is that the shared store cannot tell: here, or on the node that took it, if that is one of `others`.
    pub(super) fn place(&self, id: &SessionId, others: Vec<ClusterNode>) -> Result<Whereabouts, OpError> {
        let Some(owner) = self.owner(id) else { return Ok(Whereabouts::Here) };
        let has_it = |node: &ClusterNode| node.name == owner.node && !node.url.is_empty();
        let found = others.into_iter().find(has_it).map(Whereabouts::There);
        found.ok_or_else(|| unreachable(id, &owner.node))
    }

    /// This is the owner of a session of which this node may have a copy.
    pub(crate) fn note(&self, id: &SessionId, owner: &Claim) {
        let mut owners = lock(&self.owners);
        if owner.node == self.node || owners.get(id).is_some_and(|known| known.epoch >= owner.epoch) {
            return;
        }
        owners.insert(id.clone(), owner.clone());
        // No session is named like this: an id does not begin with a dot.
        let new = self.folder.join(format!(".{id}"));
        let written = std::fs::write(&new, owner.to_string());
        if let Err(error) = written.and_then(|()| std::fs::rename(&new, self.folder.join(id.as_str()))) {
            tracing::warn!(session = %id, %error, "that another node owns a session could not be noted");
        }
    }

    /// The session is this node's, or nobody's.
    pub(super) fn forget(&self, id: &SessionId) {
        if lock(&self.owners).remove(id).is_some() {
            // One that stays is only read after the next start.
            let _ = std::fs::remove_file(self.folder.join(id.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_owner_is_known_after_a_restart() {
        let data = tempfile::TempDir::new().unwrap();
        let id = SessionId::parse("s").unwrap();
        let claim = |text: &str| text.parse::<Claim>().unwrap();
        let elsewhere = Elsewhere::at(data.path(), "n1").unwrap();
        assert_eq!(elsewhere.owner(&id), None);
        elsewhere.note(&id, &claim("1.n1.x"));
        assert_eq!(elsewhere.owner(&id), None, "it is this node's own");
        elsewhere.note(&id, &claim("2.n2.x"));
        elsewhere.note(&id, &claim("3.n3.y"));
        elsewhere.note(&id, &claim("2.n2.x"));
        let again = Elsewhere::at(data.path(), "n1").unwrap();
        assert_eq!(again.owner(&id), Some(claim("3.n3.y")));
        again.forget(&id);
        assert_eq!(Elsewhere::at(data.path(), "n1").unwrap().owner(&id), None);
    }
}
