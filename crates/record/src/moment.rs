//! Finding a moment in a recording: the end of a run, a time, N changing runs back. Each looks at few places; none
//! reads the whole recording.

use crate::line::Line;
use crate::read::{ReadError, Recording};
use crate::runs::{FILES_NEAR, is_files_of};
use shellkeep_session::{RunId, Source, Timestamp};

/// The most changing runs that one can go back by counting; a number, a run or a time names anything older.
pub const MAX_BACK: u64 = 1000;

/// Lines that are looked at for the run before a line. Farther away, its name says little.
const RUN_NEAR: usize = 256;

/// The number of the line that records how a run ended, if it has ended. `started` is where the search starts.
pub fn end_of_run(recording: &Recording, run_id: &RunId, started: u64) -> Result<Option<u64>, ReadError> {
    let mut raw = recording.raw(started)?;
    while let Some(line) = raw.next()? {
        if line.peek()?.event_type != "tool_call" {
            continue;
        }
        let line = line.parse()?;
        if run_of(&line) == Some(run_id.as_str()) {
            return Ok(Some(line.seq));
        }
    }
    Ok(None)
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub run_id: RunId,
    /// The number of the line that records it.
    pub seq: u64,
    pub at: Timestamp,
}

/// The end of the last run that ended after this number.
pub fn last_run_after(recording: &Recording, seq: u64) -> Result<Option<RunEnd>, ReadError> {
    let (mut raw, mut last) = (recording.raw(seq.saturating_add(1))?, None);
    while let Some(line) = raw.next()? {
        let peek = line.peek()?;
        // The first file is read from its beginning, whatever its first number is.
        if peek.seq <= seq || peek.event_type != "tool_call" {
            continue;
        }
        let line = line.parse()?;
        let run_id = run_of(&line).and_then(|run_id| RunId::parse(run_id).ok());
        last = run_id.map(|run_id| RunEnd { run_id, seq: line.seq, at: line.timestamp }).or(last);
    }
    Ok(last)
}

/// The number of the last line that is not younger than this time; none if all are. A clock that was set back makes
/// some lines older than those before them: then it is one of those around.
pub fn last_at(recording: &Recording, at: Timestamp) -> Result<Option<u64>, ReadError> {
    let Some(last) = recording.last()? else { return Ok(None) };
    // All lines up to `low` are old enough, none from `high` on is.
    let (mut low, mut high) = (0, last.seq + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match recording.before(middle + 1)? {
            // Between them there is a hole.
            Some(line) if line.seq <= low => low = middle,
            Some(line) if line.timestamp <= at => low = middle,
            Some(line) => high = line.seq,
            None => low = middle,
        }
    }
    Ok(recording.before(low + 1)?.map(|line| line.seq))
}

/// The number of the line before the run with which the last `count` runs that changed something began. What a rewind
/// took back is passed over. None if there were fewer.
pub fn changes_ago(recording: &Recording, count: u64) -> Result<Option<u64>, ReadError> {
    let (mut before, mut left) = (u64::MAX, count.min(MAX_BACK));
    while let Some(line) = recording.before(before)? {
        before = line.seq;
        match line.event_type.as_str() {
            "session_rewound" => {
                let to = line.data["to"].as_u64().unwrap_or_default();
                before = to.saturating_add(1).min(line.seq);
            }
            "tool_call" if is_change(recording, &line)? => {
                left = left.saturating_sub(1);
                if left == 0 {
                    let run = run_of(&line).and_then(|id| RunId::parse(id).ok());
                    return Ok(Some(run.and_then(|run| run.seq()).unwrap_or(line.seq).saturating_sub(1)));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The run after which the session was as it was after this line: the last one that had ended, if nothing else has
/// changed the session since. What a rewind took back is passed over.
pub fn run_before(recording: &Recording, seq: u64) -> Result<Option<RunId>, ReadError> {
    let mut before = seq.saturating_add(1);
    for _ in 0..RUN_NEAR {
        let Some(line) = recording.before(before)? else { return Ok(None) };
        before = line.seq;
        match line.event_type.as_str() {
            "session_rewound" => before = line.data["to"].as_u64().unwrap_or_default().saturating_add(1).min(before),
            "checkpoint_created" if ["merge", "outside"].iter().any(|cause| line.data["cause"] == **cause) => {
                return Ok(None);
            }
            "kv_changed" | "session_restarted" => return Ok(None),
            "tool_call" if run_of(&line).is_some() => {
                return Ok(run_of(&line).and_then(|id| RunId::parse(id).ok()));
            }
            "tool_call" if is_file_change(&line) => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether a run changed the shell or the files.
pub(crate) fn is_change(recording: &Recording, ended: &Line) -> Result<bool, ReadError> {
    if run_of(ended).is_none() {
        return Ok(false);
    }
    if ended.data.get("changes").is_some() {
        return Ok(true);
    }
    let mut raw = recording.raw(ended.seq + 1)?;
    for _ in 0..FILES_NEAR {
        let Some(line) = raw.next()? else { return Ok(false) };
        if line.peek()?.event_type == "checkpoint_created" && is_files_of(&line.parse()?, ended) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The run whose end a line records; a tool call that an agent's framework reported has none.
pub(crate) fn run_of(line: &Line) -> Option<&str> {
    line.data.get("run_id")?.as_str()
}

/// Whether a line mentions a file that was written or removed through the daemon. What an agent posts is its word only.
pub fn is_file_change(line: &Line) -> bool {
    line.author.source == Source::Runtime
        && run_of(line).is_none()
        && matches!(line.data["tool_name"].as_str(), Some("write_file" | "remove_file"))
}
