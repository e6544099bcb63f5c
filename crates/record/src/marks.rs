//! Marks in a recording: what a session was after some of its records, and which checkpoints came before. With them, what
//! it was at any record is found by reading the lines since the mark before it, and not all of them.
//!
//! A mark says nothing that the lines do not say. It is sealed with the session's key and bound to its line; one that is
//! damaged, forged or of another recording is passed over, and the lines are read instead.

use crate::chain::{Hash, SessionKey};
use crate::past::Fold;
use crate::read::{Filter, ReadError, Recording};
use crate::{DIRECTORY_MODE, FILE_MODE};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shellkeep_session::Timestamp;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Lines between two marks: reading so many takes some milliseconds, and a mark, which holds all variables and functions,
/// takes a small part of their space.
pub const EVERY: u64 = 1024;

/// The directory of the marks, in that of the recording.
const DIRECTORY: &str = "past";
const ENDING: &str = ".mark";
/// Lines of one page when the end of a recording is looked through.
const PAGE: usize = 1000;

/// Where a session's marks are, and what seals them.
#[derive(Clone)]
pub struct Marks {
    directory: PathBuf,
    key: SessionKey,
}

/// A line that tells of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointLine {
    /// Its number.
    pub seq: u64,
    /// When.
    pub timestamp: Timestamp,
    /// Its fields.
    pub data: Value,
}

/// What is known of a stretch of a recording.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Number of the line that it follows on.
    pub after: u64,
    /// Number of its last line.
    pub seq: u64,
    /// The hash of that.
    pub hash: Hash,
    /// The checkpoints in it.
    pub checkpoints: Vec<CheckpointLine>,
}

/// Removes all marks of the recording in a directory.
pub(crate) fn remove(recording: &Path) -> io::Result<()> {
    match fs::remove_dir_all(recording.join(DIRECTORY)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Marks {
    /// Those of the recording in a directory.
    pub fn new(recording: &Path, key: SessionKey) -> Self {
        Self { directory: recording.join(DIRECTORY), key }
    }

    /// The numbers of the lines that have one, ascending.
    fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let number = |name: &std::ffi::OsStr| name.to_str()?.strip_suffix(ENDING)?.parse().ok();
        let mut numbers: Vec<u64> = entries.filter_map(|entry| number(&entry.file_name())).collect();
        numbers.sort_unstable();
        numbers
    }

    fn path(&self, seq: u64) -> PathBuf {
        self.directory.join(format!("{seq}{ENDING}"))
    }

    /// The mark at or before a number.
    pub(crate) fn before(&self, recording: &Recording, seq: u64) -> Option<(u64, Fold)> {
        let numbers = self.numbers();
        numbers.into_iter().rev().filter(|number| *number <= seq).find_map(|number| {
            let mut reader = BufReader::new(File::open(self.path(number)).ok()?);
            let head: Head = self.unsealed(&mut reader)?;
            self.is_of(recording, number, &head).then_some(())?;
            Some((number, self.unsealed(&mut reader)?))
        })
    }

    /// What is known of the stretch that ends with a number.
    fn head(&self, recording: &Recording, seq: u64) -> Option<Head> {
        let mut reader = BufReader::new(File::open(self.path(seq)).ok()?);
        let head: Head = self.unsealed(&mut reader)?;
        self.is_of(recording, seq, &head).then_some(head)
    }

    fn is_of(&self, recording: &Recording, seq: u64, head: &Head) -> bool {
        head.seq == seq && recording.line(seq).is_ok_and(|line| line.is_some_and(|line| line.proof.hash == head.hash))
    }

    fn unsealed<T: DeserializeOwned>(&self, reader: &mut impl io::BufRead) -> Option<T> {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).ok()?;
        let (seal, text) = line.strip_suffix(b"\n")?.split_at_checked(64)?;
        let is_ours = Hash::parse(std::str::from_utf8(seal).ok()?)? == self.key.seal(text);
        is_ours.then(|| serde_json::from_slice(text).ok()).flatten()
    }

    /// Writes a mark. Without it more lines are read, and that is all.
    pub(crate) fn write(&self, head: &Head, fold: &Fold) {
        let written = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory)?;
            let path = self.path(head.seq);
            let unfinished = path.with_extension("tmp");
            let options =
                || OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&unfinished);
            let mut file = options()?;
            for text in [serde_json::to_vec(head)?, serde_json::to_vec(fold)?] {
                let mut line = self.key.seal(&text).to_string().into_bytes();
                line.extend_from_slice(&text);
                line.push(b'\n');
                file.write_all(&line)?;
            }
            fs::rename(&unfinished, &path)
        };
        if let Err(error) = written() {
            tracing::debug!(%error, "a mark could not be written");
        }
    }
}

impl Recording {
    /// The checkpoints that are told of after a number, oldest first, at most so many.
    pub fn checkpoints(&self, marks: &Marks, after: u64, most: usize) -> Result<Vec<CheckpointLine>, ReadError> {
        self.mark(marks, u64::MAX)?;
        let (mut found, mut at) = (Vec::new(), after);
        for number in marks.numbers().into_iter().filter(|number| *number > after) {
            if found.len() >= most {
                break;
            }
            // What follows a mark that is missing is read from the lines.
            let Some(head) = marks.head(self, number).filter(|head| head.after <= at) else { break };
            found.extend(head.checkpoints.into_iter().filter(|line| line.seq > at));
            at = number;
        }
        if found.len() < most {
            found.extend(self.checkpoints_in_lines(at, most - found.len())?);
        }
        found.truncate(most);
        Ok(found)
    }

    /// The newest checkpoint of which this is true.
    pub fn newest_checkpoint(
        &self,
        marks: &Marks,
        is_wanted: impl Fn(&CheckpointLine) -> bool,
    ) -> Result<Option<CheckpointLine>, ReadError> {
        self.mark(marks, u64::MAX)?;
        let mut numbers = marks.numbers();
        let last = numbers.last().copied().unwrap_or_default();
        if let Some(found) = self.checkpoints_in_lines(last, usize::MAX)?.into_iter().rfind(&is_wanted) {
            return Ok(Some(found));
        }
        let mut at = last;
        while let Some(number) = numbers.pop() {
            let Some(head) = marks.head(self, number).filter(|_| number == at) else { break };
            at = head.after;
            if let Some(found) = head.checkpoints.into_iter().rfind(&is_wanted) {
                return Ok(Some(found));
            }
        }
        if at == 0 {
            return Ok(None);
        }
        let early = self.checkpoints_in_lines(0, usize::MAX)?;
        Ok(early.into_iter().rfind(|line| line.seq <= at && is_wanted(line)))
    }

    fn checkpoints_in_lines(&self, after: u64, most: usize) -> Result<Vec<CheckpointLine>, ReadError> {
        let filter = Filter { types: vec!["checkpoint_created".to_owned()], ..Filter::default() };
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let page = self.page(after, PAGE.min(most - found.len()), &filter)?;
            let line = |line: crate::Line| CheckpointLine { seq: line.seq, timestamp: line.timestamp, data: line.data };
            found.extend(page.lines.into_iter().map(line));
            match page.next {
                Some(next) if found.len() < most => after = next,
                _ => return Ok(found),
            }
        }
    }

    /// Sets marks up to the end if many lines have none, in at most so many lines; whether there is more to do.
    pub fn mark(&self, marks: &Marks, most: u64) -> Result<bool, ReadError> {
        let last = self.last()?.map_or(0, |line| line.seq);
        let marked = marks.numbers().last().copied().unwrap_or_default();
        if last.saturating_sub(marked) < 2 * EVERY {
            return Ok(false);
        }
        // What it was does not matter here; the marks on the way do.
        let until = last.min(marked.saturating_add(most));
        let set = self.past_with(until, Some(marks));
        // Where a record cannot be read, or is missing, no mark can be set.
        Ok(set.is_ok() && until < last)
    }
}
