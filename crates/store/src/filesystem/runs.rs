//! The runs of a session in a list, and those of all sessions. The names of their files list them; only those of a page
//! are read.

use super::files::SessionFiles;
use super::json::failed;
use crate::backend::BackendError;
use shellkeep_session::{RunId, RunKey, SessionId, StoredRun};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// How much older than its newest file a directory's time may be: file systems keep coarse times.
const COARSE: Duration = Duration::from_secs(1);

/// The newest runs that started before a record, newest first.
pub(super) fn newest(files: &SessionFiles, before: u64, limit: usize) -> Result<Vec<StoredRun>, BackendError> {
    let mut numbers = numbers(files)?;
    numbers.retain(|seq| *seq < before);
    numbers.truncate(limit);
    let found: Result<Vec<_>, BackendError> = numbers.into_iter().map(|seq| files.run(&RunId::from_seq(seq))).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// The newest runs of all sessions, newest first. A session's directory of runs changes when a run starts, so sessions
/// whose directory is older than what was found already are not read.
pub(super) fn newest_of_all(
    sessions: impl Iterator<Item = (SessionFiles, SessionId)>,
    before: Option<&RunKey>,
    limit: usize,
) -> Result<Vec<RunKey>, BackendError> {
    let last_start =
        |files: &SessionFiles| fs::metadata(files.directory.join("runs")).and_then(|found| found.modified());
    let mut sessions: Vec<(SystemTime, SessionFiles, SessionId)> =
        sessions.filter_map(|(files, id)| Some((last_start(&files).ok()?, files, id))).collect();
    sessions.sort_by_key(|(last_start, ..)| std::cmp::Reverse(*last_start));
    let mut newest = BTreeSet::new();
    for (last_start, files, session_id) in sessions {
        let is_full = newest.len() >= limit;
        let oldest = newest.first().filter(|_| is_full).map(|key: &RunKey| SystemTime::from(key.started_at));
        if oldest.is_some_and(|oldest| last_start + COARSE < oldest) {
            break;
        }
        for seq in numbers(&files)? {
            // A run whose file is damaged is reported by those who read it.
            let Ok(Some(run)) = files.run(&RunId::from_seq(seq)) else { continue };
            let key = RunKey { started_at: run.started_at, session_id: session_id.clone(), seq };
            if before.is_some_and(|before| key >= *before) {
                continue;
            }
            if newest.len() >= limit && newest.first().is_some_and(|oldest| key < *oldest) {
                break;
            }
            newest.insert(key);
            if newest.len() > limit {
                newest.pop_first();
            }
        }
    }
    Ok(newest.into_iter().rev().collect())
}

/// The numbers of a session's runs, newest first.
fn numbers(files: &SessionFiles) -> Result<Vec<u64>, BackendError> {
    let directory = files.directory.join("runs");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&directory, &error)),
    };
    let number = |entry: fs::DirEntry| RunId::parse(entry.file_name().to_str()?.strip_suffix(".json")?).ok()?.seq();
    let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    Ok(numbers)
}
