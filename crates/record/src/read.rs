//! Reading a recording: a line by its number, a page, or everything in order. There is no index: lines are in order and
//! begin with their number, so a number is found by looking at few places. Nothing is held but the line at hand.

mod page;
mod scan;
mod seek;

use crate::budget::Budget;
use crate::line::{Line, Peek};
use crate::tail;
pub use page::{Filter, Page, Search};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// Why a recording, or a part of it, cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There are no files of a recording.
    #[error("{} has no recording", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{} cannot be read: {reason}", path.display())]
    Failed {
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A line is not one of a recording.
    #[error("line {line_number} of {} cannot be read: {reason}; run verify for the full list", path.display())]
    BadLine {
        path: PathBuf,
        /// Which line of the file, from 1; 0 if it was not counted.
        line_number: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Searching one line took all the time that a search has.
    #[error("the search timed out at event {seq}")]
    SearchSpent { seq: u64 },
    /// The caller is gone.
    #[error("the reader disconnected")]
    Cancelled,
}

/// A session's files, or one file that was exported from them.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) export: bool,
    /// How long it may be read.
    pub(crate) budget: Budget,
}

impl Recording {
    /// The recording in a session's directory. Files that are begun later are not seen.
    pub fn open(directory: &Path) -> Result<Self, ReadError> {
        let files = segments(directory).map_err(|error| failed(directory, &error))?;
        if files.is_empty() {
            return Err(ReadError::Missing { path: directory.to_owned() });
        }
        let files = files.into_iter().map(|number| directory.join(segment_name(number))).collect();
        Ok(Self { files, export: false, budget: Budget::unlimited() })
    }

    /// A recording that was exported to one file.
    pub fn open_export(file: &Path) -> Result<Self, ReadError> {
        match std::fs::metadata(file) {
            Ok(metadata) if metadata.is_file() => {
                Ok(Self { files: vec![file.to_owned()], export: true, budget: Budget::unlimited() })
            }
            Ok(_) => Err(ReadError::Missing { path: file.to_owned() }),
            Err(error) => Err(failed(file, &error)),
        }
    }

    /// The same, read within a budget: a caller who is gone ends the reading, and searching takes no longer than it may.
    pub fn within(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Whether it is a copy that was exported.
    pub fn is_export(&self) -> bool {
        self.export
    }

    /// Its files, in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The line with this number. A number in a hole has none.
    pub fn line(&self, seq: u64) -> Result<Option<Line>, ReadError> {
        match self.lines(seq)?.next() {
            Some(Ok(line)) if line.seq == seq => Ok(Some(line)),
            Some(Err(error)) => Err(error),
            _ => Ok(None),
        }
    }

    /// The last line before this number.
    pub fn before(&self, seq: u64) -> Result<Option<Line>, ReadError> {
        let place = self.seek(seq)?;
        let mut length = Some(place.offset);
        for path in self.files.iter().take(place.file + 1).rev() {
            let found = last_in(path, length.take())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The lines from this number on, in order.
    pub fn lines(&self, from_seq: u64) -> Result<Lines, ReadError> {
        Ok(Lines { raw: self.raw(from_seq)? })
    }

    pub fn first(&self) -> Result<Option<Line>, ReadError> {
        self.lines(0)?.next().transpose()
    }

    /// The last line that is whole.
    pub fn last(&self) -> Result<Option<Line>, ReadError> {
        self.before(u64::MAX)
    }

    /// How many whole lines there are. Reads everything, but looks for line breaks only.
    pub fn count(&self) -> Result<u64, ReadError> {
        let mut count = 0;
        for path in &self.files {
            let mut reader = RawFile::open(path, 0)?.reader;
            loop {
                let chunk = reader.fill_buf().map_err(|error| failed(path, &error))?;
                if chunk.is_empty() {
                    break;
                }
                count += memchr::memchr_iter(b'\n', chunk).count() as u64;
                let length = chunk.len();
                reader.consume(length);
            }
        }
        Ok(count)
    }

    /// The lines from this number on, as bytes.
    pub(crate) fn raw(&self, from_seq: u64) -> Result<RawLines, ReadError> {
        // Who wants everything need not look for the beginning, and gets also what has no number.
        if from_seq <= 1 {
            return Ok(self.raw_at(0, 0));
        }
        let place = self.seek(from_seq)?;
        Ok(self.raw_at(place.file, place.offset))
    }

    /// The lines of one file, as bytes.
    pub(crate) fn one_file(&self, file: usize) -> RawLines {
        RawLines {
            files: vec![self.files[file].clone()],
            at: 0,
            offset: 0,
            open: None,
            torn: None,
            budget: self.budget.clone(),
        }
    }

    pub(crate) fn raw_at(&self, file: usize, offset: u64) -> RawLines {
        RawLines { files: self.files.clone(), at: file, offset, open: None, torn: None, budget: self.budget.clone() }
    }
}

/// The lines of a recording, in order. After one that cannot be read it continues with the next.
pub struct Lines {
    raw: RawLines,
}

impl Iterator for Lines {
    type Item = Result<Line, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.raw.next() {
            Ok(Some(raw)) => Some(raw.parse()),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// A line as it is in its file.
pub(crate) struct RawLine<'a> {
    pub path: &'a Path,
    /// Which line of the file, from 1, if the file was read from its beginning.
    pub line_number: u64,
    /// Without its line break.
    pub bytes: &'a [u8],
}

impl RawLine<'_> {
    pub(crate) fn parse(&self) -> Result<Line, ReadError> {
        Line::parse(self.bytes).map_err(|error| self.bad(error.to_string()))
    }

    pub(crate) fn peek(&self) -> Result<Peek<'_>, ReadError> {
        Peek::at(self.bytes).ok_or_else(|| self.bad("it does not begin with a number and a type".to_owned()))
    }

    fn bad(&self, reason: String) -> ReadError {
        ReadError::BadLine { path: self.path.to_owned(), line_number: self.line_number, reason }
    }
}

/// Goes through the lines of several files. What follows the last line break is not a line yet.
pub(crate) struct RawLines {
    files: Vec<PathBuf>,
    at: usize,
    offset: u64,
    open: Option<RawFile>,
    /// How long a file was that ended without a line break.
    torn: Option<u64>,
    budget: Budget,
}

impl RawLines {
    pub(crate) fn next(&mut self) -> Result<Option<RawLine<'_>>, ReadError> {
        if self.budget.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        while let Some(path) = self.files.get(self.at) {
            if self.open.is_none() {
                self.open = Some(RawFile::open(path, std::mem::take(&mut self.offset))?);
            }
            let more = match &mut self.open {
                Some(open) => open.read().map_err(|error| failed(path, &error))?,
                None => false,
            };
            if more {
                break;
            }
            self.torn = self.torn.or(self.open.as_ref().filter(|open| open.torn).map(|open| open.read));
            self.open = None;
            self.at += 1;
        }
        let found = self.files.get(self.at).zip(self.open.as_ref());
        Ok(found.map(|(path, open)| RawLine { path, line_number: open.line_number, bytes: &open.line }))
    }

    /// How long the file was that ended without a line break.
    pub(crate) fn torn_at(&self) -> Option<u64> {
        self.torn
    }
}

struct RawFile {
    reader: BufReader<File>,
    line: Vec<u8>,
    line_number: u64,
    /// Bytes read so far.
    read: u64,
    torn: bool,
}

impl RawFile {
    fn open(path: &Path, offset: u64) -> Result<Self, ReadError> {
        let open = || -> io::Result<_> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(offset))?;
            Ok(BufReader::with_capacity(CHUNK, file))
        };
        let reader = open().map_err(|error| failed(path, &error))?;
        Ok(Self { reader, line: Vec::new(), line_number: 0, read: offset, torn: false })
    }

    fn read(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.read += self.reader.read_until(b'\n', &mut self.line)? as u64;
        self.line_number += 1;
        let ends = self.line.pop();
        self.torn = ends.is_some_and(|byte| byte != b'\n');
        Ok(ends == Some(b'\n'))
    }
}

fn last_in(path: &Path, length: Option<u64>) -> Result<Option<Line>, ReadError> {
    let read = || -> io::Result<_> {
        let file = File::open(path)?;
        let length = match length {
            Some(length) => length,
            None => file.metadata()?.len(),
        };
        tail::last_line(&file, length)
    };
    let line = read().map_err(|error| failed(path, &error))?;
    line.map(|line| RawLine { path, line_number: 0, bytes: &line.bytes }.parse()).transpose()
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => ReadError::Missing { path: path.to_owned() },
        _ => ReadError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

/// The name of a session's file with this number.
pub(crate) fn segment_name(number: u64) -> String {
    match number {
        0 => "events.jsonl".to_owned(),
        number => format!("events_{number}.jsonl"),
    }
}

/// The numbers of a session's files, ascending. A directory that is not there has none.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) else { continue };
        let number = match stem.strip_prefix("events_") {
            Some(number) => number.parse().ok(),
            None => (stem == "events").then_some(0),
        };
        numbers.extend(number.filter(|number| segment_name(*number).as_str() == name));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
