//! Why something could not be put where all nodes can read it, or be read there.

use crate::repo::RepoError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// In the directory itself. Where it is missing, the shared file system is not mounted.
pub(super) const MARKER: &str = "shellkeep-blobs";

/// Why a store of objects did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ObjectsError {
    reason: String,
}

impl ObjectsError {
    /// With a reason, which a person reads.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Why checkpoints could not be put there or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The directory is not the one that was there at the start.
    #[error("{} has no file {MARKER}; is the shared file system mounted?", root.display())]
    NotThere {
        /// The directory.
        root: PathBuf,
    },
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The store of objects failed.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> BlobError {
    move |source| BlobError::Io { path: path.to_owned(), source }
}

/// Removes a directory, if it is there.
pub(super) fn remove(directory: &Path) -> Result<(), BlobError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(directory)(error)),
        _ => Ok(()),
    }
}
