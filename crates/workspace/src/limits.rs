//! What keeping a session's files may cost.

use std::time::Duration;

/// What keeping one session's files may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A bigger file is not kept.
    pub max_file_bytes: u64,
    /// A repository of this size takes no more checkpoints.
    pub repo_bytes: u64,
    /// How long one checkpoint may read files.
    pub time: Duration,
    /// A workspace of more files is not kept.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_file_bytes: 32 << 20, repo_bytes: 1 << 30, time: Duration::from_secs(10), files: 200_000 }
    }
}
