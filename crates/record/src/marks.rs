//! Marks in a recording: what a session was after some of its records, and which checkpoints came before. With them, what
//! it was at any record is found by reading the lines since the mark before it, and not all of them.
//!
//! A mark says nothing that the lines do not say. It is sealed with the session's key and bound to its line; one that is
//! damaged, forged or of another recording is passed over, and the lines are read instead.

use crate::chain::SessionKey;
use crate::hash::Hash;
use crate::private;
use crate::read::Recording;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shellkeep_session::Timestamp;
use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// Lines between two marks: reading them takes a few milliseconds, and a mark, which holds all variables and functions,
/// takes a small part of their space.
pub const EVERY: u64 = 1024;

/// The directory of the marks, in that of the recording.
const DIRECTORY: &str = "past";
const ENDING: &str = ".mark";

/// Where a session's marks are, and what seals them.
#[derive(Clone)]
pub struct Marks {
    directory: PathBuf,
    key: SessionKey,
}

/// A line that records a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointLine {
    pub seq: u64,
    pub timestamp: Timestamp,
    pub data: Value,
}

/// What is known of a stretch of a recording.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Number of the line that it follows on.
    pub after: u64,
    /// Number of its last line.
    pub seq: u64,
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
    pub(crate) fn numbers(&self) -> Vec<u64> {
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
    pub(crate) fn before<T: DeserializeOwned>(&self, recording: &Recording, seq: u64) -> Option<(u64, T)> {
        let numbers = self.numbers();
        numbers.into_iter().rev().filter(|number| *number <= seq).find_map(|number| {
            let mut reader = BufReader::new(File::open(self.path(number)).ok()?);
            let head: Head = self.unsealed(&mut reader)?;
            self.is_of(recording, number, &head).then_some(())?;
            Some((number, self.unsealed(&mut reader)?))
        })
    }

    /// What is known of the stretch that ends with a number.
    pub(crate) fn head(&self, recording: &Recording, seq: u64) -> Option<Head> {
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
    pub(crate) fn write<T: Serialize>(&self, head: &Head, fold: &T) {
        let written = || -> io::Result<()> {
            private::make_directory(&self.directory)?;
            let path = self.path(head.seq);
            let unfinished = path.with_extension("tmp");
            let mut file = private::open_empty(&unfinished)?;
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
