//! Why a workspace could not be looked at or saved.

use crate::repo::RepoError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no checkpoint. Nothing is lost by any of these: the next save goes on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The workspace cannot be looked at.
    #[error("looking at the workspace failed at {:?}: {source}", String::from_utf8_lossy(path))]
    Io {
        /// Where below the workspace; empty is the workspace itself.
        path: Vec<u8>,
        /// What the system said.
        source: io::Error,
    },
    /// The workspace was there and is gone.
    #[error(
        "the workspace {} is gone, so its files are not kept; the checkpoints that there are stay. Put the directory \
         back, or rewind the session",
        path.display()
    )]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The folder of the checkpoints cannot be made.
    #[error("{} cannot be made: {source}", path.display())]
    Home {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There are more files than are kept.
    #[error(
        "the workspace has more than {limit} files; its files are not kept. Name folders that need not be kept in a \
         .gitignore, or raise the limit"
    )]
    TooManyFiles {
        /// How many are kept at most.
        limit: u64,
    },
    /// Reading took too long; what was read is kept, and the next save goes on.
    #[error("the checkpoint is not complete after {} s; {files} files are read, the next one goes on", limit.as_secs())]
    TooSlow {
        /// How long it may take.
        limit: Duration,
        /// How many files were read this time.
        files: u64,
    },
    /// The repository is as big as it may be.
    #[error(
        "the checkpoints take {bytes} bytes and may take {limit}; no more are made until old ones are thinned or the \
         limit is raised"
    )]
    Full {
        /// How big it is.
        bytes: u64,
        /// How big it may be.
        limit: u64,
    },
    /// The repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
}
