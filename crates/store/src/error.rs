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
    #[error("'{url}' is not a store; use memory://, file://DIRECTORY or sqlite://FILE")]
    Unsupported {
        /// What was given.
        url: String,
    },
    /// A place cannot be written.
    #[error("{} cannot be used: {reason}; check that it exists, has space and belongs to this user", path.display())]
    NotWritable {
        /// The place.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another daemon works here.
    #[error("another daemon{} uses {}; stop it or choose another data directory", holder(.pid), path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Who holds it, if it could be read.
        pid: Option<u32>,
    },
    /// What is stored cannot be read at all.
    #[error("{} is corrupt: {reason}; restore a copy of it, or move it away to begin anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program has written here.
    #[error("{} has format {found}, this program knows formats up to {ours}; use a newer program", place.display())]
    NewerFormat {
        /// Where.
        place: PathBuf,
        /// Its format.
        found: u32,
        /// Ours.
        ours: u32,
    },
    /// The store is missing where there was one.
    #[error(
        "{} is missing or empty, but this data directory has been used before ({evidence}). Restore the store from a \
         backup; or, to begin with an empty one, use another data directory, or start once with --accept-loss",
        path.display()
    )]
    StoreMissing {
        /// Where it should be.
        path: PathBuf,
        /// What tells that there was one.
        evidence: String,
    },
    /// What the data directory says of its store cannot be read.
    #[error(
        "{} cannot be believed: {reason}. Restore it from a backup; or remove it, if the store and the journal are as you \
         expect them",
        path.display()
    )]
    MarkerDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal has lost records, and nobody can tell whose they were.
    #[error(
        "{} has lost records: {reason}. Their sessions are not known, so none can be set aside. Restore the data \
         directory from a backup, or start once with --accept-loss to go on without them",
        path.display()
    )]
    RecordsLost {
        /// The segment.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The journal was written for another store.
    #[error(
        "{} holds records for another store; start once with the store that was used before and stop cleanly, \
         or move the file away",
        path.display()
    )]
    OtherStore {
        /// The segment.
        path: PathBuf,
    },
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

/// Why a read gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The session's own history cannot be read. Other sessions are not touched by it.
    #[error("this session is damaged: {reason}; it can only be destroyed")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// The store does not work at the moment.
    #[error("the store does not work at the moment: {reason}; try again")]
    Unavailable {
        /// What is wrong.
        reason: String,
    },
}

/// The journal could not be forced to disk: what was appended may not survive a loss of power.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal could not be forced to disk: {reason}")]
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
