//! Why the store cannot be opened, read or forced to disk.

use crate::backend::BackendError;
use std::io;
use std::path::{Path, PathBuf};

/// What an answered command survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of the daemon.
    #[default]
    Process,
    /// The loss of power: callers wait for a sync that many share.
    Power,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a URL of a store.
    #[error(
        "'{url}' is not a store; use memory://, file://DIRECTORY or sqlite://FILE; to share it with other nodes, use \
            redis://HOST:PORT/DB or postgres://USER@HOST:PORT/DATABASE"
    )]
    Unsupported {
        /// What was given.
        url: String,
    },
    /// History is written from the journal, and there is none.
    #[error("history needs a journal, and '{url}' has none; use sqlite:// or file:// for the store, or no history")]
    NoJournal {
        /// What was given.
        url: String,
    },
    /// A place cannot be written.
    #[error("cannot use {}: {reason}; check that it exists, has space and belongs to this user", path.display())]
    NotWritable {
        /// The place.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another daemon uses this directory.
    #[error("another daemon{} uses {}; stop it or choose another data directory", holder(.pid), path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Who holds it, if it could be read.
        pid: Option<u32>,
    },
    /// What is stored cannot be read at all.
    #[error("{} is corrupt: {reason}; restore it from a backup, or move it away to start with an empty one", path.display())]
    Corrupt {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program has written here.
    #[error("{} has format {found}, but this program knows formats up to {ours} only; use a newer program", place.display())]
    NewerFormat {
        place: PathBuf,
        /// Its format.
        found: u32,
        ours: u32,
    },
    /// The store is missing where there was one.
    #[error(
        "{} is missing or empty, but this data directory has been used before ({evidence}). Restore the store from a \
         backup; or, to start with an empty one, use another data directory, or start once with --accept-loss",
        path.display()
    )]
    StoreMissing {
        /// Where it should be.
        path: PathBuf,
        /// The evidence that there was one.
        evidence: String,
    },
    /// The data directory's note about its store is damaged.
    #[error(
        "{} is damaged: {reason}. Restore it from a backup; or delete it, if the store and the journal are as you \
            expect",
        path.display()
    )]
    MarkerDamaged {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal has lost records of unknown sessions.
    #[error(
        "{} has lost records: {reason}. Their sessions are unknown, so none can be set aside. Restore the data \
         directory from a backup, or start once with --accept-loss to continue without them",
        path.display()
    )]
    RecordsLost {
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The journal was written for another store.
    #[error(
        "{} contains records for another store; start once with the store that was used before and stop cleanly, \
         or move the file away",
        path.display()
    )]
    OtherStore { path: PathBuf },
}

impl OpenError {
    /// A place that cannot be written, with what the system said.
    pub(crate) fn not_writable(path: &Path, error: &io::Error) -> Self {
        Self::NotWritable { path: path.to_owned(), reason: error.to_string() }
    }
}

fn holder(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The session's own history cannot be read. Other sessions are not affected.
    #[error("this session is damaged: {reason}; it can only be deleted")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// The store is temporarily unavailable.
    #[error("the store is temporarily unavailable: {reason}; try again")]
    Unavailable { reason: String },
}

/// The journal could not be forced to disk: what was appended may not survive a loss of power.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal could not be synced to disk: {reason}")]
pub struct SyncError {
    /// What the disk said.
    pub reason: String,
}

impl From<BackendError> for ReadError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Damaged { reason } => Self::Damaged { reason },
            BackendError::Failed { reason } => Self::Unavailable { reason },
        }
    }
}
