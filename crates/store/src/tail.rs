//! Reads the journal back, from the last applied mark on.

use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::segment;
use shellkeep_session::{Record, SessionId};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Records in a batch: enough to share the price of a transaction, few enough that a waiting reader or sync gets its
/// turn within milliseconds.
const BATCH_RECORDS: usize = 4096;

/// How much is read at once. A longer line makes the buffer grow to hold it.
const CHUNK_BYTES: usize = 512 * 1024;

/// A stretch of the journal.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// What it holds, in order.
    pub entries: Vec<Entry>,
    /// Sentences on lines that could not be read.
    pub unreadable: Vec<String>,
    /// Where each of them begins.
    pub places: Vec<Mark>,
    /// The place after it.
    pub mark: Mark,
    /// How long its lines are.
    pub bytes: u64,
}

impl Batch {
    /// Whether there is nothing to apply; a mark alone may still be worth it, at the end of a segment.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unreadable.is_empty()
    }
}

/// The journal's reading end.
pub(crate) struct Tail {
    directory: PathBuf,
    position: Mark,
    open: Option<(u64, File)>,
    buffer: Vec<u8>,
}

impl Tail {
    /// Begins to read at a mark.
    pub(crate) fn new(directory: PathBuf, position: Mark) -> Self {
        Self { directory, position, open: None, buffer: Vec::new() }
    }

    /// The next place to be read.
    pub(crate) fn position(&self) -> Mark {
        self.position
    }

    /// Goes on after a batch that has been applied.
    pub(crate) fn advance(&mut self, mark: Mark) {
        self.position = mark;
    }

    /// Whether everything up to the end has been read.
    pub(crate) fn is_at(&self, end: &End) -> bool {
        self.position >= end.mark()
    }

    /// The next batch; `None` at the end. The position stays until [`Tail::advance`], so a batch that could not be
    /// applied is read again.
    pub(crate) fn next(&mut self, end: &End) -> io::Result<Option<Batch>> {
        self.next_of(end, None)
    }

    /// The same with the lines of some sessions only; a line is passed over before it is parsed.
    pub(crate) fn next_of(&mut self, end: &End, only: Option<&HashSet<&[u8]>>) -> io::Result<Option<Batch>> {
        if self.is_at(end) {
            return Ok(None);
        }
        let current = self.position.segment == end.segment;
        let filled = self.fill(current.then_some(end.length))?;
        let mut batch = Batch { mark: self.position, ..Batch::default() };
        let mut rest = &self.buffer[..filled];
        while let Some((line, after)) = first_line(rest) {
            if only.is_none_or(|only| owner(line).is_some_and(|id| only.contains(id))) {
                self.take_line(line, &mut batch);
            }
            batch.places.resize(batch.entries.len(), batch.mark);
            batch.mark.offset += line.len() as u64 + 1;
            batch.bytes += line.len() as u64 + 1;
            rest = after;
            if batch.entries.len() >= BATCH_RECORDS {
                break;
            }
        }
        if batch.mark == self.position {
            if current {
                return Err(io::Error::other("the segment is shorter than what was written to it"));
            }
            // A closed segment has no more whole lines. What may be left is a line whose append never returned.
            batch.mark = Mark { segment: self.following(end)?, offset: 0 };
        }
        Ok(Some(batch))
    }

    /// Fills the buffer from the position, with at least one whole line if there is one.
    fn fill(&mut self, limit: Option<u64>) -> io::Result<usize> {
        let Some(file) = Self::open(&mut self.open, &self.directory, self.position.segment)? else { return Ok(0) };
        let available = limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.position.offset));
        let mut filled = 0;
        loop {
            let wanted = usize::try_from(available).unwrap_or(usize::MAX).min(filled + CHUNK_BYTES);
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            let read = file.read_at(&mut self.buffer[filled..wanted], self.position.offset + filled as u64)?;
            let found = self.buffer[filled..filled + read].contains(&b'\n');
            filled += read;
            if found || read == 0 {
                return Ok(filled);
            }
        }
    }

    /// The file of a segment, or nothing if the segment is not there.
    fn open<'a>(
        open: &'a mut Option<(u64, File)>,
        directory: &std::path::Path,
        number: u64,
    ) -> io::Result<Option<&'a File>> {
        if open.as_ref().is_none_or(|(open, _)| *open != number) {
            *open = match File::open(segment::path(directory, number)) {
                Ok(file) => Some((number, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(open.as_ref().map(|(_, file)| file))
    }

    fn following(&self, end: &End) -> io::Result<u64> {
        let numbers = segment::numbers(&self.directory)?;
        let following = |number: &u64| (self.position.segment + 1..=end.segment).contains(number);
        Ok(numbers.into_iter().find(following).unwrap_or(end.segment))
    }

    fn take_line(&self, line: &[u8], batch: &mut Batch) {
        let offset = batch.mark.offset;
        if offset == 0 && serde_json::from_slice::<segment::Header>(line).is_ok() {
            return;
        }
        match serde_json::from_slice::<Record>(line) {
            Ok(record) => batch.entries.push(Entry::Record(record)),
            Err(error) => {
                let place = format!("journal segment {}, byte {offset}", self.position.segment);
                let whose = whose(line);
                batch.unreadable.push(match &whose {
                    Some(id) => format!("A record of session {id} cannot be read ({place}: {error})."),
                    None => format!("A record of an unknown session cannot be read ({place}: {error})."),
                });
                let reason = format!("a record of its history cannot be read ({place}: {error})");
                batch.entries.extend(whose.map(|session_id| Entry::Damaged { session_id, reason }));
            }
        }
    }
}

/// The first whole line, without its end, and what follows it. The reader's way to look for a byte is faster than a
/// loop, and most of a journal is looked through for its line ends.
fn first_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    let length = rest.skip_until(b'\n').unwrap_or(0);
    let line = bytes[..length].strip_suffix(b"\n")?;
    Some((line, rest))
}

/// A record's line begins with its session's id, which often survives what follows it.
fn whose(line: &[u8]) -> Option<SessionId> {
    SessionId::parse(std::str::from_utf8(owner(line)?).ok()?).ok()
}

/// The same as it stands there. No id has a character that JSON would write in another way.
pub(crate) fn owner(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"session_id\":\"")?;
    let length = rest.iter().position(|byte| *byte == b'"')?;
    Some(&rest[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_broken_line_is_found_when_its_name_is_whole() {
        assert_eq!(whose(b"{\"session_id\":\"a.b\",\"se").map(String::from), Some("a.b".to_owned()));
        assert_eq!(whose(b"{\"session_id\":\"a.b"), None);
        assert_eq!(whose(b"\0\0\0"), None);
    }
}
