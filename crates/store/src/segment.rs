//! The journal's files: `NNNNNNNNNN.jsonl`, each with a header line and then one record a line.

use crate::error::OpenError;
use crate::line;
use crate::sum;
use serde::{Deserialize, Serialize};
use shellkeep_session::FORMAT_VERSION;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
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
    /// What was before this segment; older versions did not store this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}

impl Header {
    /// Whether each line has a number and a sum.
    pub(crate) fn has_sums(&self) -> bool {
        self.format >= FIRST_WITH_SUMS
    }
}

/// The first format whose lines have sums.
const FIRST_WITH_SUMS: u32 = 4;

/// Where the journal ended when a segment was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct After {
    /// The segment before.
    pub segment: u64,
    /// How many lines it has, without its header.
    pub lines: u64,
}

/// A segment with nothing but its header.
pub(crate) struct NewSegment {
    /// Open for appending.
    pub file: File,
    pub length: u64,
}

/// What the first line of a segment is.
pub(crate) enum Begin {
    Header {
        header: Header,
        /// With the line's end.
        length: u64,
    },
    /// Nothing: the daemon died while it made the file.
    Unfinished,
    /// Something else, with what is wrong.
    Damaged(String),
}

/// A segment's file.
pub(crate) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:010}.jsonl"))
}

/// The name of a segment while it is not whole.
pub(crate) fn draft(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:010}.tmp"))
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

/// Creates a segment with its header. An existing file with that number can only be a failed attempt, so it is
/// truncated. Only its owner may read it: variables contain secrets.
pub(crate) fn create(directory: &Path, number: u64, store: &str, after: After) -> io::Result<NewSegment> {
    create_at(&path(directory, number), store, after)
}

/// The same under another name.
pub(crate) fn create_at(path: &Path, store: &str, after: After) -> io::Result<NewSegment> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    file.set_len(0)?;
    let header = Header { format: FORMAT_VERSION, store: store.to_owned(), after: Some(after) };
    let line = sum::seal(serde_json::to_vec(&header)?);
    file.write_all(&line)?;
    Ok(NewSegment { file, length: line.len() as u64 })
}

/// Reads the first line of a segment.
pub(crate) fn begin(file: &File) -> io::Result<Begin> {
    let mut line = Vec::new();
    BufReader::new(file.take(MAX_HEADER)).read_until(b'\n', &mut line)?;
    if line.pop_if(|byte| *byte == b'\n').is_none() && file.metadata()?.len() <= MAX_HEADER {
        return Ok(Begin::Unfinished);
    }
    let length = line.len() as u64 + 1;
    let (bytes, checked) = match sum::unseal(line) {
        sum::Unsealed::Checked(bytes) => (bytes, true),
        sum::Unsealed::Without(bytes) => (bytes, false),
        sum::Unsealed::Broken => return Ok(Begin::Damaged(format!("its first line: {}", sum::MISMATCH))),
    };
    Ok(match serde_json::from_slice::<Header>(&bytes) {
        // A newer one may have its sum elsewhere.
        Ok(header) if !checked && header.has_sums() && header.format <= FORMAT_VERSION => {
            Begin::Damaged(format!("its first line: {}", sum::MISSING))
        }
        Ok(header) => Begin::Header { header, length },
        Err(error) => Begin::Damaged(format!("its first line cannot be read: {error}")),
    })
}

/// Rejects a segment of a newer format, of another store, or with a damaged first line.
pub(crate) fn check_header(directory: &Path, number: u64, store: &str) -> Result<Option<Header>, OpenError> {
    let path = path(directory, number);
    let begin = File::open(&path).and_then(|file| begin(&file));
    match begin.map_err(|error| OpenError::not_writable(&path, &error))? {
        Begin::Header { header, .. } if header.format > FORMAT_VERSION => {
            Err(OpenError::NewerFormat { place: path, found: header.format, ours: FORMAT_VERSION })
        }
        Begin::Header { header, .. } if header.store != store => Err(OpenError::OtherStore { path }),
        Begin::Header { header, .. } => Ok(Some(header)),
        Begin::Unfinished => Ok(None),
        Begin::Damaged(reason) => Err(OpenError::Corrupt { path, reason }),
    }
}

/// Truncates a last line without a line break: its append never returned, so it was never acknowledged. A line that is
/// complete except for its line break was damaged later, and gets it back.
pub(crate) fn repair(directory: &Path, number: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path(directory, number))?;
    let length = file.metadata()?.len();
    let end = last_line_end(&file, length)?;
    if end == length {
        return Ok(());
    }
    let mut last = vec![0; usize::try_from(length - end).unwrap_or(0)];
    file.read_exact_at(&mut last, end)?;
    let is_whole = |line: &[u8]| line::check(line).is_ok();
    let whole = if is_whole(&last) { last.len() } else { last.len() - 1 };
    if is_whole(&last[..whole]) {
        tracing::warn!(segment = number, "the journal's last line had lost its end");
        return file.write_all_at(b"\n", end + whole as u64);
    }
    tracing::warn!(segment = number, bytes = length - end, "truncated an incomplete line at the journal's end");
    file.set_len(end)
}

/// The place after the last newline.
fn last_line_end(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(REPAIR_CHUNK);
        let mut chunk = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(&mut chunk, start)?;
        if let Some(position) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + position as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
