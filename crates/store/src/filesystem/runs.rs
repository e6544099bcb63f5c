//! The runs of a session in a list. The names of their files list them; only those of a page are read.

use super::files::SessionFiles;
use super::json::failed;
use crate::backend::BackendError;
use shellkeep_session::{RunId, StoredRun};
use std::{fs, io};

/// The newest runs that started before a record, newest first.
pub(super) fn newest(files: &SessionFiles, before: u64, limit: usize) -> Result<Vec<StoredRun>, BackendError> {
    let directory = files.directory.join("runs");
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&directory, &error)),
    };
    let number = |entry: fs::DirEntry| RunId::parse(entry.file_name().to_str()?.strip_suffix(".json")?).ok()?.seq();
    let mut numbers: Vec<u64> = entries.flatten().filter_map(number).filter(|seq| *seq < before).collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.truncate(limit);
    let found: Result<Vec<_>, BackendError> = numbers.into_iter().map(|seq| files.run(&RunId::from_seq(seq))).collect();
    Ok(found?.into_iter().flatten().collect())
}
