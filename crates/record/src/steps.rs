//! What undo and redo revert. Changes are searched from the newest on; an undo reverts the newest change that was not
//! undone, and a redo the newest undo.

use crate::line::Line;
use crate::moment::{is_change, run_of};
use crate::read::{ReadError, Recording};
use shellkeep_session::{RunId, Source};

/// A change of a session: by a run, a rewind or a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undoable {
    /// Number of the line after which the session was as before the change.
    pub before: u64,
    /// The run, if a run did it.
    pub run_id: Option<RunId>,
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

/// Goes through the changes, newest first. `see` gets each, and whether a newer one reverted it.
fn last_step(recording: &Recording, see: impl Fn(Kind, bool) -> Seen) -> Result<Option<Undoable>, ReadError> {
    let (mut before, mut taken_back) = (u64::MAX, 0_u64);
    while let Some(line) = recording.before(before)? {
        before = line.seq;
        let Some((kind, step)) = step(recording, &line)? else { continue };
        match see(kind, taken_back > 0) {
            Seen::TakesBack => taken_back += 1,
            Seen::TakenBack => taken_back -= 1,
            Seen::Wanted => return Ok(Some(step)),
            Seen::Barrier => return Ok(None),
        }
    }
    Ok(None)
}

/// The change that a line tells of, if it tells of one.
fn step(recording: &Recording, line: &Line) -> Result<Option<(Kind, Undoable)>, ReadError> {
    let here = Undoable { before: line.seq.saturating_sub(1), run_id: None };
    Ok(match line.event_type.as_str() {
        "session_rewound" => Some(match line.data["step"].as_str() {
            Some("undo") => (Kind::Undo, here),
            Some("redo") => (Kind::Redo, here),
            _ => (Kind::Change, here),
        }),
        "checkpoint_created" if line.data["cause"] == "merge" => Some((Kind::Change, here)),
        "tool_call" if is_file_change(line) => Some((Kind::Change, here)),
        "tool_call" if is_change(recording, line)? => {
            let run_id = run_of(line).and_then(|id| RunId::parse(id).ok());
            let started = run_id.as_ref().and_then(RunId::seq).unwrap_or(line.seq);
            Some((Kind::Change, Undoable { before: started.saturating_sub(1), run_id }))
        }
        _ => None,
    })
}

/// Whether a line tells of a file that was written or removed through the daemon. What an agent posts is its word only.
fn is_file_change(line: &Line) -> bool {
    line.author.source == Source::Runtime
        && run_of(line).is_none()
        && matches!(line.data["tool_name"].as_str(), Some("write_file" | "remove_file"))
}
