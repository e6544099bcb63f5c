//! Files and time: checkpoints, differences, rewind, fork, merge. A path is text with, only where it is not UTF-8, its
//! exact bytes beside it in base64.

use crate::record::Switch;
use crate::run::{Changes, NoticeView};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
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
    /// Most checkpoints to return, 1–1000.
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
    /// Number of the record that tells of it.
    pub seq: u64,
    /// Number of the last record whose effects on the files it holds.
    pub covers: u64,
    /// When it was taken (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub created_at: String,
    /// What it was taken for.
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
    /// Files that are new.
    pub added: u64,
    /// Files that are not what they were.
    pub changed: u64,
    /// Files that are gone.
    pub deleted: u64,
    /// Bytes that it added to the disk.
    pub bytes: u64,
    /// Whether its files are still there; old ones are given up.
    pub kept: bool,
    /// Whether the next command had begun before it was complete, so that it may hold some of that one's changes.
    pub overtaken: bool,
    /// The first of what it does not hold, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// How much it does not hold, all in all.
    pub left_out_total: u64,
    /// The first of the paths that may have been something else at record `covers`, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are; missing if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
}

/// What a checkpoint was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointCause {
    /// A tool call changed files.
    Tool,
    /// What was there before the first call.
    Base,
    /// What a rewind replaced.
    Rewind,
    /// What a fork began with.
    Fork,
    /// What a fork's changes were merged into, or what came of it.
    Merge,
    /// Somebody asked for it.
    Manual,
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
        })
    }
}

/// A path that was passed over, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    /// Which, below the workspace.
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
    /// The id of the checkpoint that the files were last kept in, or rewound to; `null` before the first.
    pub current: Option<String>,
}

/// A checkpoint and what it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointDetail {
    /// The checkpoint.
    #[serde(flatten)]
    pub checkpoint: Checkpoint,
    /// How its files differ from those of the checkpoint before it.
    pub files: Vec<FileChange>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or its permissions are not what they were.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name and the same content.
    Renamed,
    /// It is another kind of thing, such as a link that was a file.
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
    /// Where, below the workspace.
    pub path: String,
    /// Its exact bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// How.
    pub kind: ChangeKind,
    /// What it was called before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// The exact bytes of that, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from_base64: Option<String>,
    /// Lines that are new, for a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insertions: Option<u64>,
    /// Lines that are gone, for a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    /// Whether it is no text.
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

/// Query of `GET …/diff`. A moment is the number of a record, a run id, a checkpoint's id, a commit or the beginning of
/// one, `-N` (N changing runs back), an RFC 3339 time, or `latest`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The older side. Without it: the checkpoint before `to`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub from: Option<String>,
    /// The newer side. Without it, or with `now`: the files as they are now.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub to: Option<String>,
    /// Only this path and what is below it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// Likewise, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Whether the texts' differences are wanted too, or only which files differ.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = true)]
    pub patch: Option<Switch>,
    /// Most bytes of the patch, up to 64 MiB. Without it: 1 MiB, and 64 MiB where the answer is the patch alone.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(maximum = 67_108_864)]
    pub max_bytes: Option<usize>,
    /// Whether the patch holds the contents of binary files, so that `git apply` can use it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub binary: Option<Switch>,
}

/// Query of `GET …/checkpoints/{checkpoint}/diff`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgainstParams {
    /// What it is compared with: another checkpoint, as the older side; or `now`, as the newer side. Without it: the
    /// checkpoint before it, as the older side.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub against: Option<String>,
    /// Only this path and what is below it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// Likewise, for a path that is not UTF-8.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path_base64: Option<String>,
    /// Whether the texts' differences are wanted too, or only which files differ.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = true)]
    pub patch: Option<Switch>,
    /// Most bytes of the patch, up to 64 MiB. Without it: 1 MiB, and 64 MiB where the answer is the patch alone.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(maximum = 67_108_864)]
    pub max_bytes: Option<usize>,
    /// Whether the patch holds the contents of binary files, so that `git apply` can use it.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>, default = false)]
    pub binary: Option<Switch>,
}

/// How two states of the files differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffResponse {
    /// The older side; `null` if that is before the first file.
    pub from: Option<CheckpointName>,
    /// The newer side; `null` if that is now.
    pub to: Option<CheckpointName>,
    /// What differs.
    pub files: Vec<FileChange>,
    /// The difference in git's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The exact bytes of that, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base64: Option<String>,
    /// Whether the patch is not all of it.
    pub truncated: bool,
}

/// Query of a route about one path.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PathParams {
    /// The path, below the workspace.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub path: Option<String>,
    /// Likewise, for a path that is not UTF-8.
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
    /// The checkpoint in which it is seen first.
    pub checkpoint_id: String,
    /// The commit of that.
    pub commit: String,
    /// Number of the record that tells of the checkpoint.
    pub seq: u64,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// The run that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The tool that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// How the path changed.
    pub kind: ChangeKind,
    /// Bytes of the file afterwards, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A moment in a session's time: the number of a record, or a text that names the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "a moment is the number of a record, or a text such as r12, a checkpoint's id, -1 or a time"
)]
pub enum Place {
    /// After the record with this number.
    Seq(#[serde(deserialize_with = "crate::whole::number")] u64),
    /// A run id (`r12`: after that run), a checkpoint's id, a commit or the beginning of one, `-N` (N changing runs back),
    /// an RFC 3339 time, a number, or `latest`.
    Name(String),
}

impl From<&str> for Place {
    /// As somebody types it.
    fn from(text: &str) -> Self {
        u64::from_str(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Seq)
    }
}

/// Body of `POST …/rewind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RewindRequest {
    /// To when: a moment as for a fork, or `undo` (before the last command, merge or rewind that changed something), or
    /// `redo` (before the last undo, if nothing has changed since).
    pub to: Place,
    /// Only say what would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub dry_run: Option<bool>,
    /// What becomes of running services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServicesChoice>,
}

/// What becomes of running services at a rewind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServicesChoice {
    /// They run on.
    #[default]
    Leave,
    /// They are stopped first.
    Stop,
}

/// What a rewind changed, or would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RewindResponse {
    /// Number of the record that the session is as after.
    pub to: u64,
    /// Number of the record that tells of the rewind; absent if it was only asked what would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Rewind to this in order to take it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
    /// The run that `undo` takes back; absent if it takes back a rewind or a merge, or if the rewind is no undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<String>,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The first of the files that change.
    pub files: Vec<FileChange>,
    /// How many files change, all in all.
    pub files_total: u64,
    /// Paths that are left as they are, and why.
    pub kept_back: Vec<LeftOut>,
    /// The first of the paths that may not be as they were then, each with the reason: no checkpoint of exactly that moment
    /// could be made. At most 1000 are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are; missing if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
    /// What changes in the shell.
    pub shell: Changes,
    /// The working directory afterwards.
    pub cwd: String,
    /// The version of the agent's state that is brought back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state_version: Option<u64>,
    /// Services that were stopped, or would be.
    pub services_stopped: Vec<String>,
    /// What you should know.
    pub notices: Vec<NoticeView>,
}

/// Body of `POST …/fork`. Every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// From when, as in a rewind. Without it: from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
    /// The new session's name. Without it: a UUID4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// With `session_id`, the new session's id becomes `thread_{user_id}_{session_id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Fork also a session that works outside its workspace: both work on the same files there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_files: Option<bool>,
}

/// Body of `POST …/merge_back`. Every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeBackRequest {
    /// Only say what would change, and what does not fit together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub dry_run: Option<bool>,
    /// Whose version is taken where both changed the same lines. Without it such a merge is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Side>,
}

/// One of the two sessions of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The fork.
    Fork,
    /// The session that it came from.
    Origin,
}

/// What a merge changed, or would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeBackResponse {
    /// The session that was changed.
    pub into: String,
    /// Number of the record in it that tells of its files afterwards; absent if nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Rewind that session to this in order to take the merge back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The first of the files that change in it.
    pub files: Vec<FileChange>,
    /// How many change, all in all.
    pub files_total: u64,
    /// Files that both changed so that they do not fit together.
    pub conflicts: Vec<LeftOut>,
    /// What the caller should know.
    pub notices: Vec<NoticeView>,
}

/// What a session's checkpoints take of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointUsage {
    /// The session.
    pub session_id: String,
    /// Checkpoints that are kept.
    pub checkpoints: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// How many they may be.
    pub limit: u64,
    /// Bytes that were given back just now, by `thin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimed: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_or_a_name() {
        let read = |text: &str| serde_json::from_str::<RewindRequest>(text).map(|request| request.to);
        assert_eq!(read(r#"{"to": 12}"#).unwrap(), Place::Seq(12));
        assert_eq!(read(r#"{"to": "manual_x"}"#).unwrap(), Place::Name("manual_x".to_owned()));
        assert!(read(r#"{"to": -1}"#).is_err() && read(r#"{"to": 1.5}"#).is_err() && read("{}").is_err());
        assert!(read(r#"{"to": 12, "dryrun": true}"#).unwrap_err().to_string().contains("dryrun"));
        assert_eq!((Place::from("12"), Place::from("ab12")), (Place::Seq(12), Place::Name("ab12".to_owned())));
    }

    #[test]
    fn kinds_and_causes_are_spelled_as_they_are_shown() {
        let kinds = [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted, ChangeKind::Renamed];
        for kind in kinds.into_iter().chain([ChangeKind::TypeChanged]) {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        use CheckpointCause::{Base, Fork, Manual, Merge, Rewind, Tool};
        for cause in [Tool, Base, Rewind, Fork, Merge, Manual] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.to_string());
        }
    }
}
