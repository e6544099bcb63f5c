//! The journal's files: `NNNNNNNNNN.jsonl`, each with a header line and then one record a line.

use crate::open::OpenError;
use serde::{Deserialize, Serialize};
use shellkeep_session::FORMAT_VERSION;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The longest header that is read; a real one has under a hundred bytes.
const MAX_HEADER: u64 = 4096;

/// How much of a file's end is searched for the last newline at a time.
const REPAIR_CHUNK: u64 = 64 * 1024;

/// The first line of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Version of the lines that follow.
    pub format: u32,
    /// Id of the backend that the lines are for.
    pub store: String,
}

/// A segment's file.
pub(crate) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:010}.jsonl"))
}

/// Numbers of the segments there are, ascending.
pub(crate) fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|stem| stem.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes a new segment with its header. A file of that number can only be an attempt that failed, so it is emptied.
/// Only its owner may read it: variables hold secrets. Gives the file, open for appending, and its length.
pub(crate) fn create(directory: &Path, number: u64, store: &str) -> io::Result<(File, u64)> {
    let path = path(directory, number);
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
    file.set_len(0)?;
    let header = Header { format: FORMAT_VERSION, store: store.to_owned() };
    let mut line = serde_json::to_vec(&header)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok((file, line.len() as u64))
}

/// Refuses a segment of a newer format or of another store. A header that was never finished, or cannot be read, is
/// no reason to refuse: the reader reports unreadable lines one by one.
pub(crate) fn check_header(directory: &Path, number: u64, store: &str) -> Result<(), OpenError> {
    let path = path(directory, number);
    let mut line = Vec::new();
    File::open(&path)
        .and_then(|file| BufReader::new(file.take(MAX_HEADER)).read_until(b'\n', &mut line))
        .map_err(|error| OpenError::not_writable(&path, &error))?;
    let Ok(header) = serde_json::from_slice::<Header>(&line) else { return Ok(()) };
    if header.format > FORMAT_VERSION {
        return Err(OpenError::NewerFormat { place: path, found: header.format, ours: FORMAT_VERSION });
    }
    if header.store != store {
        return Err(OpenError::OtherStore { path });
    }
    Ok(())
}

/// Cuts a last line that has no end: its append never returned, so nobody was told that it is kept.
pub(crate) fn repair(directory: &Path, number: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path(directory, number))?;
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(REPAIR_CHUNK);
        let mut chunk = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut chunk)?;
        if let Some(position) = chunk.iter().rposition(|byte| *byte == b'\n') {
            end = start + position as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length {
        tracing::warn!(segment = number, bytes = length - end, "cut an unfinished line from the journal's end");
        file.set_len(end)?;
    }
    Ok(())
}
