//! The data directory: where each session's files are, whether the directory is still there, and, if it is a copy, which
//! directories outside of it still belong to the original.

use crate::notices;
use crate::ops::{OpError, SessionError};
use shellkeep_session::{ByteString, Notice, ServiceId, SessionId, SessionState};
use shellkeep_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The data directory of a daemon.
pub(crate) struct DataDir {
    root: PathBuf,
    store: Store,
    /// Whether it was gone at the last check.
    is_gone: AtomicBool,
}

impl DataDir {
    /// The directory at `root`, which `store` has open.
    pub(crate) fn new(root: PathBuf, store: Store) -> Self {
        Self { root, store, is_gone: AtomicBool::new(false) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory for results that drivers could not send.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// What confined sessions have to themselves, besides their workspaces.
    pub(crate) fn homes(&self) -> PathBuf {
        self.root.join("homes")
    }

    /// The output files of a session.
    pub(crate) fn outputs(&self, id: &SessionId) -> Arc<Path> {
        self.root.join("outputs").join(id.as_str()).into()
    }

    /// The logs of a session's services.
    pub(crate) fn services(&self, id: &SessionId) -> PathBuf {
        self.root.join("services").join(id.as_str())
    }

    /// The log of one service.
    pub(crate) fn service(&self, id: &SessionId, service_id: &ServiceId) -> PathBuf {
        self.services(id).join(service_id.as_str())
    }

    /// Checks whether the directory still exists; returns what is wrong if it does not.
    pub(crate) fn look(&self) -> Option<String> {
        let problem = self.store.home().problem();
        if problem.is_some() && !self.is_gone.swap(true, Ordering::Relaxed) {
            tracing::error!(problem, "nothing new is stored");
        }
        self.is_gone.store(problem.is_some(), Ordering::Relaxed);
        problem
    }

    /// A notice for the caller if the directory was gone at the last check and still is.
    pub(crate) fn notice(&self) -> Option<Notice> {
        let is_gone = self.is_gone.load(Ordering::Relaxed);
        is_gone.then(|| self.look()).flatten().map(|problem| notices::data_gone(&problem))
    }

    /// Rejects work in a directory outside of a copy that a session of the original uses too. `cwd` is where the
    /// session would work if the caller names no directory.
    pub(crate) fn check_taken(&self, state: &SessionState, cwd: Option<&ByteString>) -> Result<(), OpError> {
        let Some(copy) = self.store.home().yields_to() else { return Ok(()) };
        let is_outside = |directory: &&ByteString| !directory.as_path().starts_with(&self.root);
        let outside = [Some(&state.meta.workspace), cwd].into_iter().flatten().find(is_outside);
        match outside {
            Some(directory) if state.meta.created_at < copy.since => {
                Err(OpError::Session(SessionError::WorkspaceNotTaken {
                    session_id: state.meta.session_id.to_string(),
                    path: directory.to_text().into_owned(),
                    original: copy.path.to_text().into_owned(),
                }))
            }
            _ => Ok(()),
        }
    }
}
