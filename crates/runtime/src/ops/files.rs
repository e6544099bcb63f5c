//! Operations on a session's files and on its time: checkpoints, differences, rewind, fork.

use super::SessionView;
use crate::hang_up::HangUp;
use shellkeep_session::{
    ByteString, Changes, Checkpoint, FilesAt, LeftOut, Notice, RewindStep, RunId, ServiceId, SessionId, Timestamp,
};
use std::time::Duration;

/// Checkpoints of one page unless the caller says otherwise, and at most.
pub const DEFAULT_CHECKPOINT_PAGE: usize = 100;
/// Most checkpoints of one page.
pub const MAX_CHECKPOINT_PAGE: usize = 1000;
/// Bytes of a patch unless the caller says otherwise.
pub const DEFAULT_PATCH_BYTES: usize = 1 << 20;
/// Most bytes of a patch in one answer.
pub const MAX_PATCH_BYTES: usize = 64 << 20;
/// Files that are named in the answer to a rewind or a merge; all are counted.
pub const MAX_NAMED_FILES: usize = 1000;

/// A moment in a session's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// After the record with this number.
    Seq(u64),
    /// After this run.
    Run(RunId),
    /// Before the last so many runs that changed the files or the shell.
    Back(u64),
    /// After the last record that is not younger than this.
    Time(Timestamp),
    /// As in a checkpoint, by its name, or by its commit or the beginning of it.
    Checkpoint(String),
    /// Before the last change that is in force, or, for a redo, before the last undo.
    Step(RewindStep),
}

impl Moment {
    /// The moment that somebody calls so: `12` is a record, `r12` a run, `-2` two changing runs back,
    /// `2026-11-16T08:00:00Z` a time, `undo` before the last change, `redo` before the last undo, and everything else the name or the commit of a checkpoint. Digits alone are a
    /// record's number: a commit that begins so needs one of its letters.
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
        // The name of a checkpoint ends with a time and begins with a word.
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
    /// Number of the record that tells of it.
    pub seq: u64,
    /// When it was taken.
    pub at: Timestamp,
    /// Whether its files are still there; old checkpoints are pruned.
    pub kept: bool,
    /// The command that changed the files, if a command did; its beginning, if it is long.
    pub command: Option<ByteString>,
}

/// A page of checkpoints, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointPage {
    /// The checkpoints.
    pub checkpoints: Vec<CheckpointView>,
    /// Where the next page starts, if there is one: pass it as `after`.
    pub next: Option<u64>,
    /// The checkpoint that the files were last kept in, or taken back to.
    pub current: Option<FilesAt>,
}

/// Compare two states of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffQuery {
    /// The older one; the checkpoint before `to` if none is given.
    pub from: Option<Moment>,
    /// The newer one; the files as they are now if none is given.
    pub to: Option<Moment>,
    /// Only this path and what is below it.
    pub path: Option<ByteString>,
    /// Whether the texts' differences are wanted too, and at most how many bytes of them.
    pub patch: Option<usize>,
    /// Whether the patch holds binary files' contents, so that it can be applied.
    pub binary: bool,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or its permissions are not what they were.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name; its content is the same.
    Renamed,
    /// It is another kind of thing: a file that was a link, for example.
    TypeChanged,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Where, below the workspace.
    pub path: ByteString,
    /// How.
    pub kind: ChangeKind,
    /// What it was called before.
    pub renamed_from: Option<ByteString>,
    /// Lines that are new, for a text.
    pub insertions: Option<u64>,
    /// Lines that are gone, for a text.
    pub deletions: Option<u64>,
    /// Whether it is no text.
    pub binary: bool,
}

/// The difference between two states of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffView {
    /// The older one; none if that is before the first file.
    pub from: Option<FilesAt>,
    /// The newer one; none if it is the present.
    pub to: Option<FilesAt>,
    /// What differs.
    pub files: Vec<FileChange>,
    /// The difference in git's format, if it was asked for.
    pub patch: Option<Vec<u8>>,
    /// Whether the patch was cut because it is too long.
    pub truncated: bool,
}

/// One change of a path, for `list_file_changes`.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The checkpoint in which it is seen first.
    pub at: FilesAt,
    /// Number of the record that tells of the checkpoint.
    pub seq: u64,
    /// When.
    pub time: Timestamp,
    /// Which run did it.
    pub run_id: Option<RunId>,
    /// By which tool.
    pub tool_name: Option<String>,
    /// How the path changed.
    pub kind: ChangeKind,
    /// Bytes of the file afterwards, if it is one.
    pub size: Option<u64>,
}

/// Take a session back to an earlier time.
#[derive(Debug, Clone)]
pub struct Rewind {
    /// To when.
    pub to: Moment,
    /// Only say what would change.
    pub dry_run: bool,
    /// What becomes of running services.
    pub services: ServicesAfter,
    /// Cancels it when its caller hangs up before it has begun.
    pub hang_up: Option<HangUp>,
}

impl Rewind {
    /// To a moment, with every setting at its default.
    pub fn to(to: Moment) -> Self {
        Self { to, dry_run: false, services: ServicesAfter::Leave, hang_up: None }
    }
}

/// What becomes of running services at a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServicesAfter {
    /// They run on.
    #[default]
    Leave,
    /// They are stopped first.
    Stop,
}

/// What a rewind changed, or would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewound {
    /// Number of the record that the session is as after.
    pub to: u64,
    /// Number of the record that tells of the rewind; none if it was only asked what would change.
    pub seq: Option<u64>,
    /// What to rewind to in order to take it back.
    pub undo: Option<u64>,
    /// The run that an undo takes back; none if it takes back a rewind or a merge, or is no undo.
    pub undone: Option<RunId>,
    /// The first of the files that change.
    pub files: Vec<FileChange>,
    /// How many files change, all in all.
    pub files_total: u64,
    /// Paths that are left as they are, and why.
    pub kept_back: Vec<LeftOut>,
    /// The first of the paths that may not be as they were then, and why.
    pub uncertain: Vec<LeftOut>,
    /// How many such paths there are.
    pub uncertain_total: u64,
    /// What changes in the shell.
    pub shell: Changes,
    /// The working directory afterwards.
    pub cwd: ByteString,
    /// The version of the agent's state that is brought back, if there was one.
    pub agent_state: Option<u64>,
    /// Services that were stopped, or would be.
    pub services_stopped: Vec<ServiceId>,
    /// What the caller should know.
    pub notices: Vec<Notice>,
}

/// Make a new session from an earlier time of another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fork {
    /// From when; from now if none is given.
    pub at: Option<Moment>,
    /// Its name; a UUID4 if none is given.
    pub session_id: Option<SessionId>,
    /// Whether it may work on the same files as the session it comes from, where that works outside its workspace.
    pub share_files: bool,
}

/// A session that was made from another.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new one.
    pub session: SessionView,
    /// What its caller should know.
    pub notices: Vec<Notice>,
}

/// Bring a fork's changes of files back to the session that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeBack {
    /// Only say what would change.
    pub dry_run: bool,
    /// Whose version is taken where both changed the same lines; without it, such a merge is refused.
    pub prefer: Option<Side>,
}

/// One of the two sessions of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The session that is merged into.
    Origin,
    /// The fork.
    Fork,
}

/// What a merge changed, or would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The session that was changed.
    pub into: SessionId,
    /// Number of the record in it that holds the files afterwards; none if nothing changed.
    pub seq: Option<u64>,
    /// What to rewind it to in order to take the merge back.
    pub undo: Option<u64>,
    /// The first of the files that change in it.
    pub files: Vec<FileChange>,
    /// How many change, all in all.
    pub files_total: u64,
    /// Files that both changed so that they do not fit together.
    pub conflicts: Vec<LeftOut>,
    /// What the caller should know.
    pub notices: Vec<Notice>,
}

/// What a session's checkpoints take of the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointUse {
    /// The session.
    pub session_id: SessionId,
    /// Checkpoints that are kept.
    pub checkpoints: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// How many they may be.
    pub limit: u64,
    /// Bytes that were given back just now, if that was asked for.
    pub reclaimed: u64,
}

/// A file as it was in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFile {
    /// The checkpoint.
    pub at: FilesAt,
    /// Its bytes; the target for a symbolic link.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

/// How files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Whether they are.
    pub on: bool,
    /// Larger files are left out.
    pub max_file_bytes: u64,
    /// What the checkpoints of one session may take of the disk.
    pub bytes_per_session: u64,
    /// More files than this are not kept.
    pub max_files: u64,
    /// How long one checkpoint may take.
    pub time: Duration,
    /// How many of the newest are all kept; of older ones, one an hour, and after a day one a day.
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
