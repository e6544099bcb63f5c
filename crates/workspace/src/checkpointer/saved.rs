//! A checkpoint: what it is called before it is made, and what is known of it afterwards.

use super::later::Later;
use crate::index::Counts;
use crate::repo::{Author, ObjectId};
use crate::scan::LeftOut;
use std::time::Duration;

/// What a checkpoint is called, and why it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The tag, made unique if it is taken.
    pub tag: String,
    /// What a person reads.
    pub message: String,
    /// Who made it.
    pub author: Author,
    /// When, in seconds since 1970.
    pub seconds: i64,
}

/// A checkpoint that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub commit: ObjectId,
    pub tag: String,
    /// Files that changed since the one before.
    pub counts: Counts,
    /// Bytes that it took on the disk.
    pub bytes_written: u64,
    /// What it does not hold.
    pub left_out: LeftOut,
    /// How long it took.
    pub took: Duration,
    /// Files with rules that were not read, because there are too many: what they name is kept.
    pub unread_rules: LeftOut,
    /// If it was made up for later: what may have changed since it was due.
    pub later: Later,
}
