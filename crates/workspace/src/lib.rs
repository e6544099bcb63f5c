//! A session's files. Each session has a directory of its own, made when a shell first needs it and removed with the
//! session; a directory that the host named is used and never removed.

pub mod blobs;
pub mod checkpointer;
pub mod copy;
mod deep;
pub mod diff;
pub mod fault;
pub mod ignored;
mod index;
mod limits;
pub mod merge;
pub mod meta;
pub mod owner;
pub mod remade;
pub mod repo;
pub mod restore;
mod root;
mod scan;
mod sync;
pub mod tree;
mod unsaved;
mod usage;
pub mod watch;

pub use deep::remove_all;
pub use usage::{Usage, usage};

use shellkeep_session::{ByteString, SessionId};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Where the sessions' own directories are.
#[derive(Debug, Clone)]
pub struct Workspaces {
    root: PathBuf,
}

impl Workspaces {
    /// All of them below `root`, which is made if need be.
    pub fn open(root: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&root)?;
        Ok(Self { root })
    }

    /// The directory of a session, made or not. An id is safe as a file name, so it cannot lead elsewhere.
    pub fn of(&self, id: &SessionId) -> ByteString {
        ByteString(self.root.join(id.as_str()).into_os_string().into_vec())
    }

    /// Makes the directory if it is one of ours; another is the host's business.
    pub fn ensure(&self, workspace: &ByteString) -> io::Result<()> {
        if self.owns(workspace) { std::fs::create_dir_all(workspace.as_path()) } else { Ok(()) }
    }

    /// Removes the directory and everything in it, if it is one of ours.
    pub fn remove(&self, workspace: &ByteString) -> io::Result<()> {
        if !self.owns(workspace) {
            return Ok(());
        }
        match remove_all(workspace.as_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a directory is one of ours.
    pub fn owns(&self, workspace: &ByteString) -> bool {
        workspace.as_path().parent() == Some(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_directories_are_made_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::open(home.path().join("workspaces")).unwrap();
        let own = workspaces.of(&SessionId::parse("a").unwrap());
        workspaces.ensure(&own).unwrap();
        std::fs::write(own.as_path().join("file"), "x").unwrap();
        workspaces.remove(&own).unwrap();
        workspaces.remove(&own).unwrap();
        assert!(!own.as_path().exists());

        let named = ByteString(home.path().join("project").into_os_string().into_vec());
        workspaces.ensure(&named).unwrap();
        assert!(!named.as_path().exists());
        std::fs::create_dir(named.as_path()).unwrap();
        workspaces.remove(&named).unwrap();
        assert!(named.as_path().exists());
        workspaces.remove(&ByteString(home.path().join("workspaces").into_os_string().into_vec())).unwrap();
        assert!(home.path().join("workspaces").exists());
    }
}
