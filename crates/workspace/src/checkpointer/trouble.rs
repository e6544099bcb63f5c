//! Why a workspace could not be scanned or saved.

use crate::repo::RepoError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no checkpoint. Nothing is lost: the next save continues.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The workspace cannot be scanned.
    #[error("cannot scan the workspace at {:?}: {source}", String::from_utf8_lossy(path))]
    Io {
        /// Where below the workspace; empty is the workspace itself.
        path: Vec<u8>,
        /// What the system said.
        source: io::Error,
    },
    /// The workspace is gone.
    #[error(
        "the workspace {} is gone, so its files are not saved; existing checkpoints are kept. Put the directory \
            back, or undo or rewind the session, which creates it again",
        path.display()
    )]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The folder of the checkpoints cannot be made.
    #[error("cannot create {}: {source}", path.display())]
    Home {
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There are more files than are kept.
    #[error(
        "the workspace has more than {limit} files, so they are not saved. List folders that need not be saved in a \
            .gitignore, or raise the limit"
    )]
    TooManyFiles {
        /// How many are kept at most.
        limit: u64,
    },
    /// Reading took too long; what was read is kept, and the next save continues.
    #[error("checkpoint stopped after {} s with {files} files read; the next one continues", limit.as_secs())]
    TooSlow {
        /// How long it may take.
        limit: Duration,
        /// How many files were read this time.
        files: u64,
    },
    /// The repository has reached its limit.
    #[error(
        "the checkpoints use {bytes} of {limit} bytes; no more are taken until old ones are pruned or the limit is \
            raised"
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
