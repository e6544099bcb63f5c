//! Files that lie beside a recording because they are too large for a line: outputs, agent states, the snapshot. A line
//! has their length and hash.

use crate::read::{ReadError, Recording};
use shellkeep_session::FileSum;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;

/// Type of the line that lists the files removed to make room.
pub const RECLAIMED: &str = "files_reclaimed";

/// Begins the name of a line in which something was masked, among what the record of a scrub lists.
const LINE: &str = "line ";

/// How a scrub calls a line in which something was masked: its own hash is that of what it was, so what it is now has one
/// in the line that records the scrub.
pub(crate) fn line_name(seq: u64) -> String {
    format!("{LINE}{seq}")
}

/// The number of a line by that name.
pub(crate) fn line_number(name: &str) -> Option<u64> {
    name.strip_prefix(LINE)?.parse().ok()
}

/// The length and hash of bytes as they come.
#[derive(Debug, Clone, Default)]
pub struct Summer {
    hasher: blake3::Hasher,
}

impl Summer {
    /// Takes over the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// Length and hash of all that came so far.
    pub fn sum(&self) -> FileSum {
        FileSum { bytes: self.hasher.count(), hash: self.hasher.finalize().to_hex().to_string() }
    }
}

/// Length and hash of bytes.
pub fn sum(bytes: &[u8]) -> FileSum {
    FileSum { bytes: bytes.len() as u64, hash: blake3::hash(bytes).to_hex().to_string() }
}

/// Length and hash of a file.
pub fn sum_file(path: &Path) -> io::Result<FileSum> {
    sum_open(&mut File::open(path)?)
}

/// Length and hash of an open file, from where it is read.
pub fn sum_open(file: &mut File) -> io::Result<FileSum> {
    let (mut summer, mut chunk) = (Summer::default(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(summer.sum()),
            read => summer.update(&chunk[..read]),
        }
    }
}

impl Recording {
    /// What the lines tell last of a file beside them.
    pub fn told_of(&self, name: &str) -> Result<Option<FileSum>, ReadError> {
        let mut raw = self.raw(0)?;
        let mut told = None;
        // A line that does not have the name in it does not tell of the file.
        let finder = memchr::memmem::Finder::new(name);
        while let Some(line) = raw.next()? {
            if finder.find(line.bytes).is_some()
                && let Some(sum) = line.parse()?.proof.files.remove(name)
            {
                told = Some(sum);
            }
        }
        Ok(told)
    }
}

/// Whether a file is the one that was recorded. The length is compared first: a file that grew to any size is not read.
pub fn is_as_recorded(path: &Path, recorded: &FileSum) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != recorded.bytes {
        return Ok(false);
    }
    Ok(sum_open(&mut file)? == *recorded)
}
