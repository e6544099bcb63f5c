//! Operations on a session's files and history: checkpoints, differences, rewind, fork.

use super::SessionView;
use crate::hang_up::HangUp;
pub use shellkeep_record::steps::ChangedBy;
use shellkeep_session::{
    ByteString, Changes, Checkpoint, FilesAt, LeftOut, Notice, RewindStep, RunId, ServiceId, SessionId, Timestamp,
};
use std::time::Duration;

/// Default number of checkpoints per page.
pub const DEFAULT_CHECKPOINT_PAGE: usize = 100;
/// Maximum number of checkpoints per page.
pub const MAX_CHECKPOINT_PAGE: usize = 1000;
/// Default number of bytes of a patch.
pub const DEFAULT_PATCH_BYTES: usize = 1 << 20;
/// Maximum number of bytes of a patch.
pub const MAX_PATCH_BYTES: usize = 64 << 20;
/// How many files the response to a rewind or a merge lists; all are counted.
pub const MAX_NAMED_FILES: usize = 1000;

/// A moment in a session's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// After the record with this number.
    Seq(u64),
    /// After this run.
    Run(RunId),
    /// Before the last N runs that changed the files or the shell.
    Back(u64),
    /// After the last record that is not newer than this.
    Time(Timestamp),
    /// A checkpoint, by its name, its commit or a prefix of that.
    Checkpoint(String),
    /// Before the last change that was not undone, or, for a redo, before the last undo.
    Step(RewindStep),
}

impl Moment {
    /// Parses a moment: `12` is a record, `r12` a run, `-2` two changing runs back, `2026-11-16T08:00:00Z` a time,
    /// `undo` before the last change, `redo` before the last undo, and everything else the name or the commit of a
    /// checkpoint. Digits alone are a record's number: a commit prefix needs a letter.
    pub fn parse(text: &str) -> Self {
        match text {
            "undo" => return Self::Step(RewindStep::Undo),
            "redo" => return Self::Step(RewindStep::Redo),
            _ => {}
        }
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        if let Some(seq) = digits(text) {
            return Self::Seq(seq);
        }
        if let Some(back) = text.strip_prefix('-').and_then(digits) {
            return Self::Back(back);
        }
        if let Some(run_id) = RunId::parse(text).ok().filter(|run_id| run_id.seq().is_some()) {
            return Self::Run(run_id);
        }
        // The name of a checkpoint starts with a word and ends with a time.
        let is_time = text.as_bytes().first().is_some_and(u8::is_ascii_digit) && text.contains(['T', 't']);
        match text.parse() {
            Ok(time) if is_time => Self::Time(time),
            _ => Self::Checkpoint(text.to_owned()),
        }
    }
}

/// A checkpoint in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointView {
    /// What is known of it.
    pub checkpoint: Checkpoint,
    /// Number of its record.
    pub seq: u64,
    /// When it was taken.
    pub at: Timestamp,
    /// Whether its files are still kept; old checkpoints are pruned.
    pub kept: bool,
    /// The command that changed the files, if a command did; its beginning, if it is long.
    pub command: Option<ByteString>,
}

/// A page of checkpoints, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointPage {
    pub checkpoints: Vec<CheckpointView>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<u64>,
    /// The checkpoint that the files were last saved in or rewound to.
    pub current: Option<FilesAt>,
}

/// Compare two states of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffQuery {
    /// The older one; the checkpoint before `to` if none is given.
    pub from: Option<Moment>,
    /// The session of the older one if it is another; without `from`, its files as they are now.
    pub from_session: Option<SessionId>,
    /// The newer one; the files as they are now if none is given.
    pub to: Option<Moment>,
    /// Only this path and everything below it.
    pub path: Option<ByteString>,
    /// The maximum number of bytes of the patch, if one is requested.
    pub patch: Option<usize>,
    /// Whether the patch includes the contents of binary files.
    pub binary: bool,
    /// Whether secrets in the patch are masked.
    pub redact: bool,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was added.
    Added,
    /// Its content or permissions changed.
    Modified,
    /// It was deleted.
    Deleted,
    /// It has another name; its content is the same.
    Renamed,
    /// Its kind changed, for example from a link to a file.
    TypeChanged,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path, relative to the workspace.
    pub path: ByteString,
    pub kind: ChangeKind,
    /// Its previous path.
    pub renamed_from: Option<ByteString>,
    /// Number of added lines, for a text file.
    pub insertions: Option<u64>,
    /// Number of deleted lines, for a text file.
    pub deletions: Option<u64>,
    /// Whether it is a binary file.
    pub binary: bool,
}

/// The difference between two states of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffView {
    /// The older one; none if it is before the first checkpoint.
    pub from: Option<FilesAt>,
    /// The newer one; none if it is the present.
    pub to: Option<FilesAt>,
    /// What differs.
    pub files: Vec<FileChange>,
    /// The difference in git's format, if it was requested.
    pub patch: Option<Vec<u8>>,
    /// Whether the patch was truncated.
    pub truncated: bool,
}

/// One change of a path, for `list_file_changes`.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The first checkpoint that contains it.
    pub at: FilesAt,
    /// Number of the checkpoint's record.
    pub seq: u64,
    pub time: Timestamp,
    /// The run that made the change.
    pub run_id: Option<RunId>,
    /// The tool that made the change.
    pub tool_name: Option<String>,
    /// How the path changed.
    pub kind: ChangeKind,
    /// Bytes of the file afterwards, if it is one.
    pub size: Option<u64>,
}

/// Rewind a session to an earlier moment.
#[derive(Debug, Clone)]
pub struct Rewind {
    pub to: Moment,
    /// Only report what would change.
    pub dry_run: bool,
    /// What happens to running services.
    pub services: ServicesAfter,
    /// Whether to also undo changes that other sessions made in the same directory.
    pub force: bool,
    /// Cancels it when its caller hangs up before it has begun.
    pub hang_up: Option<HangUp>,
}

impl Rewind {
    /// To a moment, with every setting at its default.
    pub fn to(to: Moment) -> Self {
        Self { to, dry_run: false, services: ServicesAfter::Leave, force: false, hang_up: None }
    }
}

/// What happens to running services at a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServicesAfter {
    /// They keep running.
    #[default]
    Leave,
    /// They are stopped first.
    Stop,
}

/// What a rewind changed, or would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewound {
    /// Number of the record that the session was rewound to.
    pub to: u64,
    /// The last run before that moment, if nothing but runs has changed the session up to it.
    pub after_run: Option<RunId>,
    /// Number of the rewind's record; none for a dry run.
    pub seq: Option<u64>,
    /// The record to rewind to in order to undo it.
    pub undo: Option<u64>,
    /// What an undo undoes; none if it is not an undo.
    pub undone: Option<ChangedBy>,
    /// The first files that change.
    pub files: Vec<FileChange>,
    /// Total number of files that change.
    pub files_total: u64,
    /// Paths that were not changed, and why.
    pub kept_back: Vec<LeftOut>,
    /// The first paths that may differ from that moment, and why.
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are.
    pub uncertain_total: u64,
    /// The first of the paths that other sessions have changed since, and who did.
    pub of_others: Vec<LeftOut>,
    /// What changes in the shell.
    pub shell: Changes,
    /// The working directory afterwards.
    pub cwd: ByteString,
    /// The version of the agent's state that was restored, if there was one.
    pub agent_state: Option<u64>,
    /// The version that the keyed store gets, if its content changes.
    pub kv_version: Option<u64>,
    /// Services that were stopped, or would be.
    pub services_stopped: Vec<ServiceId>,
    pub notices: Vec<Notice>,
}

/// Create a session from an earlier moment of another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fork {
    /// The moment; by default now.
    pub at: Option<Moment>,
    /// Its name; a UUID4 if none is given.
    pub session_id: Option<SessionId>,
    /// The user that its name was made for, if it was.
    pub user_id: Option<String>,
    /// Whether it may use the same files as its origin, if that works outside its workspace.
    pub share_files: bool,
}

/// A session that was forked from another.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new one.
    pub session: SessionView,
    pub notices: Vec<Notice>,
}

/// Merge a fork's file changes back into the session it was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeBack {
    /// Only report what would change.
    pub dry_run: bool,
    /// Which side wins where both changed the same lines; without it, such a merge is rejected.
    pub prefer: Option<Side>,
}

/// One of the two sessions of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The session that is merged into.
    Origin,
    Fork,
}

/// What a merge changed, or would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The session that was changed.
    pub into: SessionId,
    /// Number of the record of the checkpoint after the merge; none if nothing changed.
    pub seq: Option<u64>,
    /// The record to rewind it to in order to undo the merge.
    pub undo: Option<u64>,
    /// The first files that change in it.
    pub files: Vec<FileChange>,
    /// Total number of files that change.
    pub files_total: u64,
    /// Files with conflicting changes.
    pub conflicts: Vec<LeftOut>,
    pub notices: Vec<Notice>,
}

/// The disk usage of a session's checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointUse {
    pub session_id: SessionId,
    /// Checkpoints that are kept.
    pub checkpoints: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// The limit in bytes.
    pub limit: u64,
    /// Bytes that were freed by pruning, if that was requested.
    pub reclaimed: u64,
}

/// A file as it was in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFile {
    pub at: FilesAt,
    /// Its bytes; the target for a symbolic link.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

/// The settings of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Whether checkpoints are taken.
    pub on: bool,
    /// Larger files are left out.
    pub max_file_bytes: u64,
    /// How much disk space the checkpoints of one session may use.
    pub bytes_per_session: u64,
    /// How many files of a workspace are saved at most.
    pub max_files: u64,
    /// How long one checkpoint may take.
    pub time: Duration,
    /// How many of the newest are all kept; of older ones, one per hour, and after a day one per day.
    pub keep_all: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            on: true,
            max_file_bytes: 32 << 20,
            bytes_per_session: 1 << 30,
            max_files: 200_000,
            time: Duration::from_secs(10),
            keep_all: 200,
        }
    }
}
