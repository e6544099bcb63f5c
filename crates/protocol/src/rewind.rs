//! Going back and branching off: moments, rewind, fork, merge back.

use crate::files::{FileChange, LeftOut};
use crate::output::is_zero;
use crate::run::{Changes, NoticeView};
use serde::{Deserialize, Serialize};
use std::str::FromStr as _;
use utoipa::ToSchema;

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
    /// Also undo changes that other sessions made in the same directory. Without it, such a rewind fails with
    /// `files_of_others`.
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
}
