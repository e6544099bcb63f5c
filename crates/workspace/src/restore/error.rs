//! Why a restore ended early.

use crate::repo::RepoError;
use std::io;

/// Why a restore ended early.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A checkpoint could not be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The files could not be written; nothing was changed.
    #[error("the files could not be prepared, nothing was changed: {0}")]
    Stage(#[source] io::Error),
    /// The files are partly changed; doing it again completes it.
    #[error("the rewind was interrupted, run it again to complete it: {0}")]
    Apply(#[source] io::Error),
    /// The intent file cannot be read.
    #[error("the note of an unfinished rewind cannot be read: {reason}")]
    Intent {
        /// What is wrong with it.
        reason: String,
    },
}

impl RestoreError {
    /// Whether the disk, or what one may use of it, is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Repo(error) => error.is_full(),
            Self::Stage(error) | Self::Apply(error) => matches!(error.kind(), StorageFull | QuotaExceeded),
            Self::Intent { .. } => false,
        }
    }
}
