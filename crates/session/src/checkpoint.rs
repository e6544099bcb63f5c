//! Facts about a session's files: checkpoints, and the origin of a fork.

use crate::skip::{is_false, is_zero};
use crate::{ByteString, RunId, SessionId};
use serde::{Deserialize, Serialize};

/// A checkpoint's name and commit.
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
    /// Number of the last record whose file changes it contains.
    pub covers: u64,
    /// Why it was taken.
    pub cause: Cause,
    /// The tool that changed the files, if it was one that runs no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Number of added files.
    #[serde(default)]
    pub added: u64,
    /// Number of changed files.
    #[serde(default)]
    pub changed: u64,
    /// Number of deleted files.
    #[serde(default)]
    pub deleted: u64,
    /// Bytes that it added to the disk.
    #[serde(default)]
    pub bytes: u64,
    /// Whether the next command started before it was complete: it may contain some of that command's changes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overtaken: bool,
    /// The first paths that it does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Total number of paths that it does not contain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out_total: u64,
    /// The first paths that may have been different at the record it covers, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
}

impl Checkpoint {
    /// One without further data.
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

/// Why a checkpoint was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A tool call changed files.
    Tool {
        run_id: RunId,
        /// By which tool.
        tool_name: String,
    },
    /// The files before the first call.
    Base,
    /// The files that a rewind is about to replace.
    Rewind,
    /// The files that a fork started with.
    Fork,
    /// The files before or after a merge.
    Merge,
    /// It was requested.
    Manual,
    /// Something else than this session had changed files since its last command.
    Outside,
}

impl Cause {
    /// The prefix of the name of such a checkpoint; a time follows.
    pub fn prefix(&self) -> String {
        match self {
            Self::Tool { tool_name, .. } => format!("tool_{tool_name}_"),
            Self::Base => "base_".to_owned(),
            Self::Rewind => "rewind_".to_owned(),
            Self::Fork => "fork_".to_owned(),
            Self::Merge => "merge_".to_owned(),
            Self::Manual => "manual_".to_owned(),
            Self::Outside => "outside_".to_owned(),
        }
    }
}

/// A path with a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The path, relative to the workspace.
    pub path: ByteString,
    pub reason: String,
}

/// The session that another was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub session_id: SessionId,
    /// Number of the last record that the fork contains.
    pub seq: u64,
}
