//! What is remembered of a session's files: checkpoints, and where a session came from.

use crate::{ByteString, RunId, SessionId};
use serde::{Deserialize, Serialize};

/// A checkpoint's name and the commit that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesAt {
    /// The tag.
    pub name: String,
    /// The commit, in hexadecimal.
    pub commit: String,
}

/// The files of a workspace as they were at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its name and its commit.
    #[serde(flatten)]
    pub at: FilesAt,
    /// Number of the last record whose effects on the files it holds.
    pub covers: u64,
    /// What it was taken for.
    pub cause: Cause,
    /// The tool that changed the files, if it was one that runs no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Files that are new.
    #[serde(default)]
    pub added: u64,
    /// Files that are not what they were.
    #[serde(default)]
    pub changed: u64,
    /// Files that are gone.
    #[serde(default)]
    pub deleted: u64,
    /// Bytes that it added to the disk.
    #[serde(default)]
    pub bytes: u64,
    /// Whether the next command had begun before it was complete: it may hold some of that one's changes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overtaken: bool,
    /// The first of what it does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// How much it does not hold, all in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_total: u64,
    /// The first of the paths that may have been something else at the record it covers, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
}

impl Checkpoint {
    /// One of which nothing else is known.
    pub fn of(at: FilesAt, covers: u64, cause: Cause) -> Self {
        Self {
            at,
            covers,
            cause,
            tool_name: None,
            added: 0,
            changed: 0,
            deleted: 0,
            bytes: 0,
            overtaken: false,
            left_out: Vec::new(),
            left_out_total: 0,
            uncertain: Vec::new(),
            uncertain_total: 0,
        }
    }
}

/// What a checkpoint was taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A tool call changed files.
    Tool {
        /// Which run.
        run_id: RunId,
        /// By which tool.
        tool_name: String,
    },
    /// What was there before the first call.
    Base,
    /// What a rewind is about to replace.
    Rewind,
    /// What a forked session began with.
    Fork,
    /// What another session's changes were merged into.
    Merge,
    /// Somebody asked for it.
    Manual,
}

impl Cause {
    /// The beginning of the name of such a checkpoint; a time follows.
    pub fn prefix(&self) -> String {
        match self {
            Self::Tool { tool_name, .. } => format!("tool_{tool_name}_"),
            Self::Base => "base_".to_owned(),
            Self::Rewind => "rewind_".to_owned(),
            Self::Fork => "fork_".to_owned(),
            Self::Merge => "merge_".to_owned(),
            Self::Manual => "manual_".to_owned(),
        }
    }
}

/// A path that is not as it should be, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which, below the workspace.
    pub path: ByteString,
    /// Why.
    pub reason: String,
}

/// The session that another was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its name.
    pub session_id: SessionId,
    /// Number of its last record that the fork knows of.
    pub seq: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
