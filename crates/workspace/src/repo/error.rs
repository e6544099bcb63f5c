//! What can go wrong with a repository.

use gix_hash::ObjectId;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong, or what was asked for.
pub type Result<T> = std::result::Result<T, RepoError>;

/// Why an operation on a repository failed.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A file had fewer bytes than its size said: it was written to meanwhile.
    #[error("the file was truncated while it was read")]
    Short,
    /// The file that was to be kept could not be read.
    #[error("cannot read the file: {source}")]
    Source {
        /// What the file system said.
        source: io::Error,
    },
    /// An object is not there; it may have been thinned away.
    #[error("object {id} is not in the repository")]
    Missing { id: ObjectId },
    /// An object should be gone and is held by something that is not ours to remove.
    #[error("object {id} is still referenced by a branch, or by an annotated tag, that was added to the repository")]
    Held { id: ObjectId },
    /// A file's bytes are more than the caller wants.
    #[error("object {id} has {size} bytes, more than {max}")]
    TooBig {
        id: ObjectId,
        /// How many it has.
        size: u64,
        /// How many were wanted at most.
        max: u64,
    },
    /// What is there cannot be read.
    #[error("the repository is damaged: {reason}")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// No directory can have this entry.
    #[error("{name:?} cannot be a name in a directory: {reason}")]
    Name {
        /// The name, as far as it can be shown.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The beginning of an id fits several commits.
    #[error("{prefix} is the prefix of more than one commit; use more digits")]
    Ambiguous {
        /// The beginning.
        prefix: String,
    },
    /// Objects have gathered that no tag holds yet; publish or abandon them first.
    #[error("a checkpoint is in progress; publish or abandon it before space is reclaimed")]
    Unpublished,
}

impl RepoError {
    /// Whether the disk, or what one may use of it, is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}

/// Makes an error of the file system one of the repository.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> RepoError {
    move |source| RepoError::Io { path: path.to_owned(), source }
}

/// For what cannot be read.
pub(super) fn damaged(reason: impl std::fmt::Display) -> RepoError {
    RepoError::Damaged { reason: reason.to_string() }
}
