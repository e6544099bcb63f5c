//! Files and time: checkpoints, differences, rewind, fork, merge. A path is text; where it is not UTF-8, a second field
//! has its exact bytes in base64.

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

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A moment in a session's history: the number of a record, or a text that names the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "a moment is the number of a record, or a text such as r12, a checkpoint's id, -1 or a time"
)]
pub enum Place {
    /// After the record with this number.
    Seq(#[serde(deserialize_with = "crate::whole::number")] u64),
    /// A run id (`r12`: after that run), a checkpoint's id, a commit or a prefix of one, `-N` (N changing runs back),
    /// an RFC 3339 time, a number, or `latest`.
    Name(String),
}

impl From<&str> for Place {
    /// A moment as typed by a user.
    fn from(text: &str) -> Self {
        u64::from_str(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Seq)
    }
}

/// Body of `POST …/rewind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RewindRequest {
    /// The moment: as for a fork, or `undo` (before the last command, merge or rewind that changed something), or
    /// `redo` (before the last undo, if nothing has changed since).
    pub to: Place,
    /// Only report what would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub dry_run: Option<bool>,
    /// What happens to running services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServicesChoice>,
    /// Take back also what other sessions in the same directory have changed since. Without it, such a rewind is refused
    /// with `files_of_others`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub force: Option<bool>,
}

/// What happens to running services at a rewind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServicesChoice {
    /// They keep running.
    #[default]
    Leave,
    /// They are stopped first.
    Stop,
}

/// What an undo takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndoneKind {
    /// A run.
    Run,
    /// A file that was written or removed with `…/files/content`.
    File,
    /// Changes of the keyed store, as many as there were in a row.
    Kv,
    /// A merge.
    Merge,
    /// A rewind.
    Rewind,
}

/// What a rewind changed, or would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RewindResponse {
    /// Number of the record that the session was rewound to.
    pub to: u64,
    /// The last run before that moment, if nothing but runs has changed the session up to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_run: Option<String>,
    /// Number of the rewind's record; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Rewind to this record to undo the rewind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
    /// The run that `undo` undoes; absent if it undoes something else, or if the rewind is not an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<String>,
    /// What `undo` undoes; absent if the rewind is not an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_kind: Option<UndoneKind>,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// The files that change; only the first ones.
    pub files: Vec<FileChange>,
    /// Total number of files that change.
    pub files_total: u64,
    /// Paths that were not changed, and why.
    pub kept_back: Vec<LeftOut>,
    /// Paths that may differ from that moment, each with the reason: there is no checkpoint of exactly that moment. At
    /// most 1000 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<LeftOut>,
    /// Total number of such paths; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain_total: u64,
    /// The first of the paths that other sessions in the same directory have changed since, and who did. At most 1000 are
    /// named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_others: Vec<LeftOut>,
    /// What changes in the shell.
    pub shell: Changes,
    /// The working directory afterwards.
    pub cwd: String,
    /// The version of the agent's state that was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state_version: Option<u64>,
    /// The version that the keyed store gets; absent if nothing changes in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_version: Option<u64>,
    /// Services that were stopped, or would be.
    pub services_stopped: Vec<String>,
    /// Notices.
    pub notices: Vec<NoticeView>,
}

/// Body of `POST …/fork`. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The moment, as in a rewind. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
    /// The new session's name. Default: a UUID4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// With `session_id`, the new session's id becomes `thread_{user_id}_{session_id}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Fork even if the session works outside its workspace: both then use the same files there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_files: Option<bool>,
}

/// Body of `POST …/merge_back`. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeBackRequest {
    /// Only report what would change, and any conflicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub dry_run: Option<bool>,
    /// Which side wins where both changed the same lines. Without it, such a merge is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Side>,
}

/// One of the two sessions of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The fork.
    Fork,
    /// The session that it was forked from.
    Origin,
}

/// What a merge changed, or would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeBackResponse {
    /// The session that was changed.
    pub into: String,
    /// Number of the record of the checkpoint after the merge; absent if nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Rewind that session to this record to undo the merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<u64>,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// The files that change in it; only the first ones.
    pub files: Vec<FileChange>,
    /// Total number of files that change.
    pub files_total: u64,
    /// Files with conflicting changes.
    pub conflicts: Vec<LeftOut>,
    /// Notices.
    pub notices: Vec<NoticeView>,
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
        use CheckpointCause::{Base, Fork, Manual, Merge, Outside, Rewind, Tool};
        for cause in [Tool, Base, Rewind, Fork, Merge, Manual, Outside] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.to_string());
        }
    }
}
