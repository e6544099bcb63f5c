//! What undo and redo revert. Changes are searched from the newest on; an undo reverts the newest change that was not
//! undone, and a redo the newest undo.

use crate::line::Line;
use crate::moment::{is_change, is_file_change, run_of};
use crate::past::{END_OF_A_BEGINNING, FORKED};
use crate::read::{ReadError, Recording};
use shellkeep_session::{NoticeCode, RunId};

/// A change of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undoable {
    /// Number of the line after which the session was as before the change.
    pub before: u64,
    /// What changed it.
    pub by: ChangedBy,
}

/// A run whose changes of files no checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsavedRun {
    pub run_id: RunId,
    /// Number of the line with its end.
    pub ended: u64,
}

/// What changed a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedBy {
    /// This run.
    Run(RunId),
    /// A file was written or removed through the daemon.
    File,
    /// Keys of the keyed store were changed, perhaps several times in a row.
    Kv,
    /// Another session's changes were merged.
    Merge,
    /// It was rewound.
    Rewind,
}

/// How a change came about.
#[derive(Clone, Copy)]
enum Kind {
    /// By a run, a merge, or a rewind to a moment that was named.
    Change,
    /// By an undo.
    Undo,
    /// By a redo.
    Redo,
}

/// What a change means to who looks for one, from the newest on.
enum Seen {
    /// It takes back one that is older.
    TakesBack,
    /// A newer one has taken it back.
    TakenBack,
    /// It is the one.
    Wanted,
    /// There is none.
    Barrier,
}

/// What an undo reverts: the last change that was not undone. None if there is none.
pub fn last_change(recording: &Recording) -> Result<Option<Undoable>, ReadError> {
    last_step(recording, |kind, taken_back| match kind {
        Kind::Undo => Seen::TakesBack,
        Kind::Change | Kind::Redo if taken_back => Seen::TakenBack,
        Kind::Change | Kind::Redo => Seen::Wanted,
    })
}

/// What a redo reverts: the last undo after which nothing else has changed. None if there is none.
pub fn last_undo(recording: &Recording) -> Result<Option<Undoable>, ReadError> {
    last_step(recording, |kind, taken_back| match kind {
        Kind::Redo => Seen::TakesBack,
        Kind::Undo if taken_back => Seen::TakenBack,
        Kind::Undo => Seen::Wanted,
        Kind::Change => Seen::Barrier,
    })
}

/// The run whose changes of files no checkpoint holds, if the newest of them are its own: the last one since the last
/// checkpoint or rewind that was not told that an earlier one's changes were not saved.
pub fn last_unsaved_run(recording: &Recording) -> Result<Option<UnsavedRun>, ReadError> {
    let (mut before, mut found) = (u64::MAX, None);
    while let Some(line) = recording.before(before)? {
        before = line.seq;
        match line.event_type.as_str() {
            "checkpoint_created" | "session_rewound" => break,
            "tool_call" => {}
            _ => continue,
        }
        let Some(run_id) = run_of(&line).and_then(|id| RunId::parse(id).ok()) else { continue };
        found = Some(UnsavedRun { run_id, ended: line.seq });
        if !was_told(&line, NoticeCode::CheckpointIncomplete) {
            break;
        }
    }
    Ok(found)
}

fn was_told(line: &Line, code: NoticeCode) -> bool {
    let code = serde_json::json!(code);
    line.data["notices"].as_array().is_some_and(|notices| notices.iter().any(|notice| notice["code"] == code))
}

/// Goes through the changes, newest first. `see` gets each, and whether a newer one reverted it.
fn last_step(recording: &Recording, see: impl Fn(Kind, bool) -> Seen) -> Result<Option<Undoable>, ReadError> {
    let (mut before, mut taken_back) = (u64::MAX, 0_u64);
    let mut decide = |kind, step| match see(kind, taken_back > 0) {
        Seen::TakesBack => {
            taken_back += 1;
            None
        }
        Seen::TakenBack => {
            taken_back -= 1;
            None
        }
        Seen::Wanted => Some(Some(step)),
        Seen::Barrier => Some(None),
    };
    // Changes of the keyed store in a row are one step: a framework that saves its state there makes many.
    let mut of_kv: Option<Undoable> = None;
    while let Some(line) = recording.before(before)? {
        before = line.seq;
        if ends_a_beginning(&line) {
            break;
        }
        let Some((kind, step)) = step(recording, &line)? else { continue };
        if step.by == ChangedBy::Kv {
            of_kv = Some(step);
            continue;
        }
        if let Some(found) = of_kv.take().and_then(|of_kv| decide(Kind::Change, of_kv)) {
            return Ok(found);
        }
        if let Some(found) = decide(kind, step) {
            return Ok(found);
        }
    }
    Ok(of_kv.and_then(|of_kv| decide(Kind::Change, of_kv)).flatten())
}

/// Whether a fork begins with what is recorded up to this line: the keys that it has from its origin are no change of it.
fn ends_a_beginning(line: &Line) -> bool {
    line.event_type == END_OF_A_BEGINNING && line.data["reason"] == FORKED
}

/// The change that a line records, if it records one.
fn step(recording: &Recording, line: &Line) -> Result<Option<(Kind, Undoable)>, ReadError> {
    let here = |by| Undoable { before: line.seq.saturating_sub(1), by };
    Ok(match line.event_type.as_str() {
        "session_rewound" => {
            let kind = match line.data["step"].as_str() {
                Some("undo") => Kind::Undo,
                Some("redo") => Kind::Redo,
                _ => Kind::Change,
            };
            Some((kind, here(ChangedBy::Rewind)))
        }
        "checkpoint_created" if line.data["cause"] == "merge" => Some((Kind::Change, here(ChangedBy::Merge))),
        "kv_changed" => Some((Kind::Change, here(ChangedBy::Kv))),
        "tool_call" if is_file_change(line) => Some((Kind::Change, here(ChangedBy::File))),
        "tool_call" if is_change(recording, line)? => {
            let Some(run_id) = run_of(line).and_then(|id| RunId::parse(id).ok()) else { return Ok(None) };
            let started = run_id.seq().unwrap_or(line.seq);
            Some((Kind::Change, Undoable { before: started.saturating_sub(1), by: ChangedBy::Run(run_id) }))
        }
        _ => None,
    })
}
