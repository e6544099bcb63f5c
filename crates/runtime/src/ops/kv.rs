//! The vocabulary of a session's keyed store.

use super::{Expected, Hint};
use shellkeep_session::Notice;
pub use shellkeep_store::KeyedEntry as KvEntry;

/// Largest value.
pub const MAX_KV_VALUE: usize = 64 << 20;
/// Longest key, in bytes.
pub const MAX_KV_KEY: usize = 512;
/// Most changes of one batch.
pub const MAX_KV_BATCH: usize = 1000;
/// Longest content type of a value.
pub const MAX_KV_TYPE: usize = 255;
/// Default number of keys per page.
pub const DEFAULT_KV_PAGE: usize = 100;
/// Maximum number of keys per page.
pub const MAX_KV_PAGE: usize = 1000;
/// Bytes of values in one page; a page ends early rather than being larger.
pub const MAX_KV_PAGE_BYTES: u64 = 16 << 20;

/// A change of one key.
#[derive(Debug, Clone)]
pub struct KvOp {
    pub key: String,
    /// The operation.
    pub change: KvPut,
    /// The precondition.
    pub expected: Expected,
}

/// An operation on a key.
#[derive(Debug, Clone)]
pub enum KvPut {
    /// It gets these bytes.
    Bytes {
        bytes: Vec<u8>,
        /// What they are.
        content_type: String,
    },
    /// It gets the bytes with this SHA-256, which the session already has.
    Known {
        /// The hash, in hexadecimal.
        sha256: String,
        /// What they are.
        content_type: String,
    },
    /// It is deleted.
    Delete,
}

/// A page of keys.
#[derive(Debug, Clone)]
pub struct KvPage {
    /// In the order of the keys, each with its bytes if they were requested.
    pub entries: Vec<(KvEntry, Option<Vec<u8>>)>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<String>,
}

/// Which keys to list.
#[derive(Debug, Clone)]
pub struct KvQuery {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only keys after this one.
    pub after: String,
    /// Maximum number of keys to return.
    pub limit: usize,
    /// Whether to include their values.
    pub values: bool,
}

/// What a batch changed.
#[derive(Debug, Clone)]
pub struct KvChangedKeys {
    /// The keys in the order of the batch; those that were deleted have no entry.
    pub entries: Vec<(String, Option<KvEntry>)>,
    /// The version of the change.
    pub version: u64,
    /// Number of the record.
    pub seq: u64,
    pub notices: Vec<Notice>,
}

/// Why the keyed store was not read or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KvError {
    /// There is no such key.
    #[error(
        "session '{session_id}' has no key '{key}'{}",
        former.as_ref().map(|node| format!("; values from before it moved here stayed on node {node}")).unwrap_or_default()
    )]
    NotFound {
        session_id: String,
        key: String,
        /// The node from which the session moved here, if it did.
        former: Option<String>,
    },
    /// The key is not at the version that the caller expects.
    #[error(
        "nothing was changed: key '{key}' {}; read it again, and repeat the change with the version you have read",
        if *current == 0 { "does not exist".to_owned() } else { format!("is at version {current}") }
    )]
    Conflict {
        key: String,
        /// Its version; 0 if it does not exist.
        current: u64,
    },
    /// The session has no value with this hash.
    #[error("nothing was changed: the session has no value with the SHA-256 {sha256}; send its bytes")]
    ValueNotFound { sha256: String },
    /// A value does not match its hash.
    #[error("{reason}; it is not returned. Put it again, or rewind to a record before it")]
    Damaged {
        /// Which, and what is wrong with it.
        reason: String,
    },
    /// The database cannot be used.
    #[error("{reason}; nothing was changed. Check the data directory's disk and try again")]
    Unavailable { reason: String },
}

impl KvError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "key_not_found",
            Self::Conflict { .. } => "version_conflict",
            Self::ValueNotFound { .. } => "value_not_found",
            Self::Damaged { .. } => "value_damaged",
            Self::Unavailable { .. } => "store_unavailable",
        }
    }

    /// What to do next, where it depends on the door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListKeys),
            _ => None,
        }
    }
}
