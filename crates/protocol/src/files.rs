//! Checkpoints and differences of files. A path is text; where it is not UTF-8, a second field
//! has its exact bytes in base64.

use crate::output::is_zero;
use crate::query::Switch;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::{IntoParams, ToSchema};

/// Query of `GET …/checkpoints`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CheckpointParams {
    /// Only checkpoints whose record comes after this number.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub after: Option<u64>,
    /// Maximum number of checkpoints to return, 1–1000.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
}

/// A saved version of a session's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// Its name, which is also its tag in the repository, as in `tool_bash_20261115T183000.123456Z`.
    pub checkpoint_id: String,
    /// Its commit.
    pub commit: String,
    /// Number of its record.
    pub seq: u64,
    /// Number of the last record whose file changes it contains.
    pub covers: u64,
    /// When it was taken (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Why it was taken.
    pub cause: CheckpointCause,
    /// The tool that changed the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The run that changed the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The command of that run; its first 4096 bytes, if it is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Number of added files.
    pub added: u64,
    /// Number of changed files.
    pub changed: u64,
    /// Number of deleted files.
    pub deleted: u64,
    /// Bytes that it added to the disk.
    pub bytes: u64,
    /// Whether its files are still kept; old checkpoints are pruned.
    pub kept: bool,
    /// Whether the next command started before it was complete, so that it may contain some of that command's changes.
    pub overtaken: bool,
    /// Paths that it does not contain, each with the reason; only the first ones.
    pub left_out: Vec<LeftOut>,
    /// Total number of paths that it does not contain.
    pub left_out_total: u64,
    /// Paths that may have been different at record `covers`, each with the reason; only the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// Total number of such paths; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
}

/// Why a checkpoint was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointCause {
    /// A tool call changed files.
    Tool,
    /// The files before the first call.
    Base,
    /// The files that a rewind replaced.
    Rewind,
    /// The files that a fork started with.
    Fork,
    /// The files before or after a merge.
    Merge,
    /// It was requested.
    Manual,
    /// Something else had changed files since the session's last command: an editor, or another session in the same
    /// directory.
    Outside,
}

impl fmt::Display for CheckpointCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Base => "base",
            Self::Rewind => "rewind",
            Self::Fork => "fork",
            Self::Merge => "merge",
            Self::Manual => "manual",
            Self::Outside => "outside",
        })
    }
}

/// A path that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    /// The path, relative to the workspace.
    pub path: String,
    /// Its exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Why.
    pub reason: String,
}

/// A page of checkpoints, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointList {
    /// The checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// Pass this as `after` for the next page; `null` on the last one.
    pub next: Option<u64>,
    /// The id of the checkpoint that the files were last saved in or rewound to; `null` before the first.
    pub current: Option<String>,
}

/// A checkpoint and what it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointDetail {
    /// The checkpoint.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// How its files differ from those of the previous checkpoint.
    pub files: Vec<FileChange>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was added.
    Added,
    /// Its content or permissions changed.
    Modified,
    /// It was deleted.
    Deleted,
    /// It has another name and the same content.
    Renamed,
    /// Its kind changed, for example from a file to a link.
    TypeChanged,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::TypeChanged => "type_changed",
        })
    }
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// The path, relative to the workspace.
    pub path: String,
    /// Its exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// How it differs.
    pub kind: ChangeKind,
    /// Its previous path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// The exact bytes of that path, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from_base64: Option<String>,
    /// Number of added lines, for a text file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insertions: Option<u64>,
    /// Number of deleted lines, for a text file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    /// Whether it is a binary file.
    pub binary: bool,
}

/// A checkpoint, by its two names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointName {
    /// Its name.
    pub checkpoint_id: String,
    /// Its commit.
    pub commit: String,
}

/// Query of `GET …/diff`. A moment is the number of a record, a run id, a checkpoint's id, a commit or a prefix of one,
/// `-N` (N changing runs back), an RFC 3339 time, or `latest`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The older side. Default: the checkpoint before `to`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub from: Option<String>,
    /// Another session, if the older side is one of its moments; without `from`, its files as they are now.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub from_session: Option<String>,
    /// The newer side. Default, and with `now`: the files as they are now.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub to: Option<String>,
    /// Only this path and everything below it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Whether to include the patch, or only which files differ.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = true)]
    pub patch: Option<Switch>,
    /// Maximum number of bytes of the patch, up to 64 MiB. Default: 1 MiB, or 64 MiB if the response is only the patch.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(maximum = 67_108_864)]
    pub max_bytes: Option<usize>,
    /// Whether the patch includes the contents of binary files, for `git apply`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub binary: Option<Switch>,
    /// Whether to mask secrets in the patch.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub redact: Option<Switch>,
}

/// Query of `GET …/checkpoints/{checkpoint}/diff`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgainstParams {
    /// What to compare with: another checkpoint, as the older side, or `now`, as the newer side. Default: the previous
    /// checkpoint, as the older side.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub against: Option<String>,
    /// Only this path and everything below it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Whether to include the patch, or only which files differ.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = true)]
    pub patch: Option<Switch>,
    /// Maximum number of bytes of the patch, up to 64 MiB. Default: 1 MiB, or 64 MiB if the response is only the patch.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(maximum = 67_108_864)]
    pub max_bytes: Option<usize>,
    /// Whether the patch includes the contents of binary files, for `git apply`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub binary: Option<Switch>,
    /// Whether to mask secrets in the patch.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub redact: Option<Switch>,
}

/// The difference between two states of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffResponse {
    /// The older side; `null` if it is before the first checkpoint.
    pub from: Option<CheckpointName>,
    /// The newer side; `null` if it is now.
    pub to: Option<CheckpointName>,
    /// The files that differ.
    pub files: Vec<FileChange>,
    /// The difference in git's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The exact bytes of the patch, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base64: Option<String>,
    /// Whether the patch was truncated.
    pub truncated: bool,
}

/// Query of a route about one path.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PathParams {
    /// The path, relative to the workspace.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// The same, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
}

/// When a path changed, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileHistory {
    /// The changes.
    pub changes: Vec<HistoryEntry>,
}

/// One change of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    /// The first checkpoint that contains it.
    pub checkpoint_id: String,
    /// The commit of that checkpoint.
    pub commit: String,
    /// Number of the checkpoint's record.
    pub seq: u64,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// The run that made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The tool that made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// How the path changed.
    pub kind: ChangeKind,
    /// Bytes of the file afterwards, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The disk space that a session's checkpoints use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointUsage {
    /// The session.
    pub session_id: String,
    /// Checkpoints that are kept.
    pub checkpoints: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// The limit in bytes.
    pub limit: u64,
    /// Bytes that `thin` has just freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimed: Option<u64>,
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_causes_are_spelled_as_they_are_shown() {
        let kinds = [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted, ChangeKind::Renamed];
        for kind in kinds.into_iter().chain([ChangeKind::TypeChanged]) {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        use CheckpointCause::{Base, Fork, Manual, Merge, Outside, Rewind, Tool};
        for cause in [Tool, Base, Rewind, Fork, Merge, Manual, Outside] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.to_string());
        }
    }
}
