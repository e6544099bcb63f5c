//! Reads the journal back, from the last applied mark on.

use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::line;
use crate::segment::{self, Begin};
use shellkeep_session::{Json, Record, SessionId};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Records in a batch: enough to share the cost of a transaction, few enough that a waiting query or sync gets its turn
/// within milliseconds.
const BATCH_RECORDS: usize = 4096;

/// How much is read at once. A longer line makes the buffer grow to hold it.
const CHUNK_BYTES: usize = 512 * 1024;

/// A part of the journal.
#[derive(Debug, Default, Clone)]
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
    /// Its entries, each with the place where it begins.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Entry, Mark)> {
        self.entries.iter().zip(self.places.iter().copied())
    }

    /// Adds the stretch that follows.
    pub(crate) fn append(&mut self, next: Self) {
        self.entries.extend(next.entries);
        self.places.extend(next.places);
        self.unreadable.extend(next.unreadable);
        self.mark = next.mark;
        self.bytes += next.bytes;
    }

    /// Removes the entries for which this is not true.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Entry, Mark) -> bool) {
        let all = std::mem::take(&mut self.entries).into_iter().zip(std::mem::take(&mut self.places));
        (self.entries, self.places) = all.filter(|(entry, place)| is_kept(entry, *place)).unzip();
    }
}

/// A segment that is being read.
struct Open {
    number: u64,
    file: File,
    /// Whether its lines have sums. Only the header of an older program's segment says that they have none.
    sums: bool,
}

/// The journal's reading end.
pub(crate) struct Tail {
    directory: PathBuf,
    position: Mark,
    open: Option<Open>,
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

    /// Continues after a batch that has been applied.
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

    /// The same with the lines of some sessions only; other lines are skipped before they are parsed.
    pub(crate) fn next_of(&mut self, end: &End, only: Option<&HashSet<&[u8]>>) -> io::Result<Option<Batch>> {
        if self.is_at(end) {
            return Ok(None);
        }
        let current = self.position.segment == end.segment;
        let filled = self.fill(current.then_some(end.length))?;
        let mut batch = Batch { mark: self.position, ..Batch::default() };
        let mut rest = &self.buffer[..filled];
        while let Some((line, after)) = first_line(rest) {
            if only.is_none_or(|only| line::session_id(line).is_some_and(|id| only.contains(id))) {
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
                return Err(io::Error::other("the segment was truncated"));
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
    fn open<'a>(open: &'a mut Option<Open>, directory: &Path, number: u64) -> io::Result<Option<&'a File>> {
        if open.as_ref().is_none_or(|open| open.number != number) {
            *open = match File::open(segment::path(directory, number)) {
                Ok(file) => {
                    let sums = !matches!(segment::begin(&file)?, Begin::Header { header, .. } if !header.has_sums());
                    Some(Open { number, file, sums })
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(open.as_ref().map(|open| &open.file))
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
        let sums = self.open.as_ref().is_none_or(|open| open.sums);
        let checked = if sums { line::check(line).map(|_| ()).map_err(str::to_owned) } else { Ok(()) };
        let (error, whose) = match checked.map(|()| Record::from_json(line)) {
            Ok(Ok(record)) => return batch.entries.push(Entry::Record(record)),
            Ok(Err(error)) => (error.to_string(), line::told_session(line)),
            Err(error) => (error, line::proven_session(line)),
        };
        let place = format!("journal segment {}, byte {offset}", self.position.segment);
        batch.unreadable.push(match &whose {
            Some(id) => format!("A record of session {id} cannot be read ({place}: {error})."),
            None => format!("A record of an unknown session cannot be read ({place}: {error})."),
        });
        let reason = format!("a record of its history cannot be read ({place}: {error})");
        batch.entries.extend(whose.map(|session_id| Entry::Damaged { session_id, reason }));
    }
}

/// Reads the lines of some sessions between two places; each batch comes with the place where it begins.
pub(crate) fn replay<'a>(
    directory: &Path,
    from: Mark,
    end: &End,
    session_ids: impl Iterator<Item = &'a SessionId>,
    mut apply: impl FnMut(Batch, Mark) -> Result<(), String>,
) -> Result<(), String> {
    let only: HashSet<&[u8]> = session_ids.map(|id| id.as_str().as_bytes()).collect();
    let mut tail = Tail::new(directory.to_owned(), from);
    while let Some(batch) =
        tail.next_of(end, Some(&only)).map_err(|error| format!("cannot read the journal: {error}"))?
    {
        let at = tail.position();
        tail.advance(batch.mark);
        apply(batch, at)?;
    }
    Ok(())
}

/// The first whole line, without its end, and what follows it. `BufRead` searches faster than a loop, and most of the
/// journal is only searched for line breaks.
fn first_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    let length = rest.skip_until(b'\n').unwrap_or(0);
    let line = bytes[..length].strip_suffix(b"\n")?;
    Some((line, rest))
}
