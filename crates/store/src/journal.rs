//! The hot path: a record becomes one line and one `write(2)`.
//!
//! A mutex is held around the write. The kernel serialises appends to one file anyway, and an uncontended lock costs
//! nanoseconds; in return the length is always known, so a short write can be truncated, and the order is kept when
//! lines must wait in memory because the disk rejects them.
//!
//! A failed sync leaves uncertainty: the kernel may have dropped what it could not write, and the next sync would
//! report success. So everything since the last good sync is written again, to a new segment, and counts as on disk
//! only when that segment is synced.

mod stretch;

use crate::backend::Mark;
use crate::fault::{Faults, Point};
use crate::line::{self, Body};
use crate::lock::hold;
use crate::marker;
use crate::problems::{Part, Problems};
use crate::segment::{self, After, NewSegment};
use shellkeep_session::{Json, Record, SessionId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use stretch::{Extent, Stretch};

/// A segment is closed at this size: small enough to read again in a second after a crash, large enough that changing
/// segments costs little.
pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of lines that may wait in memory while the disk rejects writes: minutes of a busy node's records.
pub(crate) const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// A thread's line buffer is freed above this size, so that one huge record does not hold memory forever.
const BUFFER_KEEP: usize = 256 * 1024;

/// Why an append did not reach the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The record is kept in memory and written as soon as the disk accepts it. Only a crash before that loses it.
    #[error("the store could not write ({reason}); the record is kept in memory and the write is being retried")]
    Retrying {
        /// What the disk said.
        reason: String,
    },
    /// The queue in memory is full, so this record was dropped.
    #[error("the store could not write ({reason}) and its queue is full; this record is not kept")]
    Full {
        /// What the disk said.
        reason: String,
    },
    /// The same, because the disk has no space.
    #[error("the store could not write ({reason}): disk and queue are full; this record is not kept")]
    NoSpace {
        /// What the disk said.
        reason: String,
    },
    /// The store has been closed.
    #[error("the store is closed; this record is not kept")]
    Closed,
    /// The record cannot be written as JSON.
    #[error("the record cannot be written: {reason}")]
    Invalid {
        /// What the encoder said.
        reason: String,
    },
}

thread_local! {
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Where the journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The segment that is written.
    pub segment: u64,
    pub length: u64,
    /// Whether lines wait in memory.
    pub queued: bool,
}

impl End {
    /// The position of a reader that has read everything.
    pub(crate) fn mark(&self) -> Mark {
        Mark { segment: self.segment, offset: self.length }
    }
}

impl From<Mark> for End {
    /// The end for a reader that must stop at a position.
    fn from(mark: Mark) -> Self {
        Self { segment: mark.segment, length: mark.offset, queued: false }
    }
}

struct Front {
    file: Arc<File>,
    segment: u64,
    length: u64,
    /// Its lines, without the header.
    lines: u64,
    /// The segment ends in a partial line that could not be truncated; the next line needs a new segment.
    spoiled: bool,
    /// How much of the segment is on disk for certain.
    synced: Extent,
    /// Segments that were closed and not yet synced.
    unsynced: Vec<Stretch>,
    /// A sync has failed, and its data has not been rewritten.
    suspect: bool,
    queue: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    /// How many lines of the queue, from its front, the backend has been given directly.
    handed: usize,
    /// The same for the recorder.
    recorded: usize,
    /// Why the last write failed, and whether the disk is full.
    reason: String,
    is_full: bool,
    closed: bool,
}

impl Front {
    /// A write failed.
    fn note(&mut self, error: &io::Error) {
        self.reason = error.to_string();
        self.is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    }

    /// The part of the current segment that may not be on disk.
    fn part(&self) -> Stretch {
        let to = Extent { bytes: self.length, lines: self.lines };
        Stretch { number: self.segment, file: Arc::clone(&self.file), from: self.synced, to }
    }
}

/// The journal's writing end.
pub(crate) struct Journal {
    directory: PathBuf,
    store: String,
    keep_unsynced: bool,
    segment_bytes: u64,
    queue_bytes: usize,
    front: Mutex<Front>,
    faults: Arc<Faults>,
    problems: Arc<Problems>,
}

/// What a journal is made of.
pub(crate) struct JournalOptions {
    /// Where the segments are.
    pub directory: PathBuf,
    /// The backend's id.
    pub store: String,
    /// Number of the segment to start.
    pub first: u64,
    /// What is before it.
    pub after: After,
    /// Whether closed segments must be synced.
    pub keep_unsynced: bool,
    /// Size at which a segment is closed.
    pub segment_bytes: u64,
    /// Bytes of lines that may wait in memory.
    pub queue_bytes: usize,
}

impl Journal {
    /// Starts a new segment. Every start does: the segments of an earlier daemon are never appended to.
    pub(crate) fn begin(options: JournalOptions, faults: Arc<Faults>, problems: Arc<Problems>) -> io::Result<Self> {
        let JournalOptions { directory, store, first, after, keep_unsynced, segment_bytes, queue_bytes } = options;
        let NewSegment { file, length } = segment::create(&directory, first, &store, after)?;
        let front = Front {
            file: Arc::new(file),
            segment: first,
            length,
            lines: 0,
            spoiled: false,
            synced: Extent { bytes: length, lines: 0 },
            unsynced: Vec::new(),
            suspect: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            handed: 0,
            recorded: 0,
            reason: String::new(),
            is_full: false,
            closed: false,
        };
        let journal = Self {
            directory,
            store,
            keep_unsynced,
            segment_bytes,
            queue_bytes,
            front: Mutex::new(front),
            faults,
            problems,
        };
        journal.sync_directory()?;
        journal.note_newest(first);
        Ok(journal)
    }

    /// Appends one record.
    pub(crate) fn append(&self, record: &Record) -> Result<(), AppendError> {
        LINE.with_borrow_mut(|line| {
            line.clear();
            record.write_json(line).map_err(|error| AppendError::Invalid { reason: error.to_string() })?;
            let body = Body::of(line);
            let appended = self.append_line(line, &body);
            if line.capacity() > BUFFER_KEEP {
                *line = Vec::new();
            }
            appended
        })
    }

    fn append_line(&self, line: &mut Vec<u8>, body: &Body) -> Result<(), AppendError> {
        let mut front = hold(&self.front);
        if front.closed {
            return Err(AppendError::Closed);
        }
        if front.queue.is_empty() {
            match self.write(&mut front, line, body) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    body.undo(line);
                    front.note(&error);
                    self.problems.failed(Part::Journal, &front.reason);
                }
            }
        }
        let reason = front.reason.clone();
        if front.queued_bytes + line.len() > self.queue_bytes {
            return Err(if front.is_full { AppendError::NoSpace { reason } } else { AppendError::Full { reason } });
        }
        front.queued_bytes += line.len();
        front.queue.push_back(line.clone());
        Err(AppendError::Retrying { reason })
    }

    /// Completes a line with its number and writes it atomically.
    fn write(&self, front: &mut Front, line: &mut Vec<u8>, body: &Body) -> io::Result<()> {
        self.faults.check(Point::JournalWrite)?;
        if front.spoiled || front.length + line.len() as u64 > self.segment_bytes {
            self.rotate(front)?;
        }
        body.complete(line, front.lines + 1);
        let written = loop {
            match (&*front.file).write(line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written < line.len() {
            front.spoiled = front.file.set_len(front.length).is_err();
            return Err(io::Error::new(io::ErrorKind::StorageFull, "only a part of the line was written"));
        }
        front.length += line.len() as u64;
        front.lines += 1;
        Ok(())
    }

    fn rotate(&self, front: &mut Front) -> io::Result<()> {
        let after = After { segment: front.segment, lines: front.lines };
        let NewSegment { file, length } = segment::create(&self.directory, front.segment + 1, &self.store, after)?;
        // Before anything is written to it: after a power failure the directory would lack it, with all its lines.
        if let Err(error) = self.sync_directory() {
            // The old one goes on, so what the new one says of it would be wrong.
            let _ = fs::remove_file(segment::path(&self.directory, front.segment + 1));
            return Err(error);
        }
        if self.keep_unsynced {
            let closed = front.part();
            front.unsynced.push(closed);
        }
        front.file = Arc::new(file);
        front.segment += 1;
        front.length = length;
        front.lines = 0;
        front.synced = Extent { bytes: length, lines: 0 };
        front.spoiled = false;
        self.note_newest(front.segment);
        Ok(())
    }

    /// Notes the newest segment, so that its loss is detected.
    fn note_newest(&self, number: u64) {
        let Some(data_dir) = self.directory.parent() else { return };
        if let Err(error) = marker::write(data_dir, &self.store, number) {
            tracing::warn!(%error, "cannot note the newest segment of the journal");
        }
    }

    /// Starts a new segment, so that the old ones can be deleted once they are applied.
    pub(crate) fn begin_segment(&self) -> io::Result<()> {
        self.rotate(&mut hold(&self.front))
    }

    /// Writes what waits in memory, as far as the disk accepts it. Returns whether anything still waits.
    pub(crate) fn drain(&self) -> Result<(), String> {
        let mut front = hold(&self.front);
        if front.queue.is_empty() {
            return Ok(());
        }
        while let Some(mut line) = front.queue.pop_front() {
            let (body, length) = (Body::of(&line), line.len());
            if let Err(error) = self.write(&mut front, &mut line, &body) {
                body.undo(&mut line);
                front.queue.push_front(line);
                front.note(&error);
                self.problems.failed(Part::Journal, &front.reason);
                return Err(front.reason.clone());
            }
            front.queued_bytes -= length;
            front.handed = front.handed.saturating_sub(1);
            front.recorded = front.recorded.saturating_sub(1);
        }
        self.problems.recovered(Part::Journal);
        Ok(())
    }

    /// The waiting lines that the backend has not been given yet, and how many they are counted from the front.
    pub(crate) fn waiting(&self) -> (Vec<Vec<u8>>, usize) {
        let front = hold(&self.front);
        (front.queue.iter().skip(front.handed).cloned().collect(), front.queue.len())
    }

    /// How many lines wait that the backend has not been given either.
    pub(crate) fn unwritten(&self) -> usize {
        let front = hold(&self.front);
        front.queue.len() - front.handed
    }

    /// The waiting lines of one session.
    pub(crate) fn waiting_of(&self, session_id: &SessionId) -> Vec<Vec<u8>> {
        let is_its = |line: &&Vec<u8>| line::session_id(line) == Some(session_id.as_str().as_bytes());
        hold(&self.front).queue.iter().filter(is_its).cloned().collect()
    }

    /// The waiting lines that the recorder has not been given yet. They count as passed on now.
    pub(crate) fn waiting_to_be_recorded(&self) -> Vec<Vec<u8>> {
        let mut front = hold(&self.front);
        let lines = front.queue.iter().skip(front.recorded).cloned().collect();
        front.recorded = front.queue.len();
        lines
    }

    /// Passes all waiting lines to the recorder again.
    pub(crate) fn record_again(&self) {
        hold(&self.front).recorded = 0;
    }

    /// Notes that the backend has the first `count` waiting lines. Only the writer thread drains, so the count
    /// still means the same lines.
    pub(crate) fn handed(&self, count: usize) {
        hold(&self.front).handed = count;
    }

    /// Where the journal ends now.
    pub(crate) fn end(&self) -> End {
        let front = hold(&self.front);
        End { segment: front.segment, length: front.length, queued: !front.queue.is_empty() }
    }

    /// Rejects further appends.
    pub(crate) fn close(&self) {
        hold(&self.front).closed = true;
    }

    /// Syncs everything to disk. After a failure, everything written since the last success is uncertain, and the next
    /// call writes it again.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.is_suspect() {
            return self.write_again();
        }
        let parts = {
            let mut front = hold(&self.front);
            let current = front.part();
            let mut parts = std::mem::take(&mut front.unsynced);
            parts.push(current);
            parts
        };
        let forced = |part: &Stretch| self.faults.check(Point::JournalSync).and_then(|()| part.file.sync_data());
        let synced = parts.iter().try_for_each(forced);
        let mut front = hold(&self.front);
        let Some(last) = parts.last() else { return Ok(()) };
        if let Err(error) = synced {
            front.suspect = true;
            // The last one is still the current segment, or has been closed in the meantime and is already listed.
            let earlier = parts[..parts.len() - 1].iter().cloned();
            front.unsynced.splice(0..0, earlier);
            return Err(error);
        }
        if front.segment == last.number {
            front.synced = last.to;
        } else if let Some(part) = front.unsynced.iter_mut().find(|part| part.number == last.number) {
            part.from = last.to;
        }
        Ok(())
    }

    /// Syncs everything before the backend gets it, in power mode. The next sync meets and reports the same failure.
    pub(crate) fn sync_ahead(&self) -> io::Result<()> {
        if !self.keep_unsynced || self.is_suspect() {
            return Ok(());
        }
        let parts = {
            let front = hold(&self.front);
            let mut parts = front.unsynced.clone();
            parts.push(front.part());
            parts
        };
        let synced = parts.iter().filter(|part| part.from != part.to).try_for_each(|part| part.file.sync_data());
        if synced.is_err() {
            hold(&self.front).suspect = true;
        }
        synced
    }

    /// Whether a sync has failed and its data has not been rewritten.
    pub(crate) fn is_suspect(&self) -> bool {
        hold(&self.front).suspect
    }

    /// Writes everything since the last good sync to a new segment and syncs it. Appends wait in the meantime.
    fn write_again(&self) -> io::Result<()> {
        let mut front = hold(&self.front);
        let mut parts = front.unsynced.clone();
        parts.push(front.part());
        let Some(first) = parts.first() else { return Ok(()) };
        let after = After { segment: first.number, lines: first.from.lines };
        let number = front.segment + 1;
        // Until it is complete it has another name: its header says that it replaces the original lines.
        let draft = segment::draft(&self.directory, number);
        let NewSegment { mut file, mut length } = segment::create_at(&draft, &self.store, after)?;
        let mut lines = 0;
        for mut line in parts.iter().map(Stretch::lines).collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
            lines += 1;
            Body::of(&line).complete(&mut line, lines);
            file.write_all(&line)?;
            length += line.len() as u64;
        }
        self.faults.check(Point::JournalSync)?;
        file.sync_data()?;
        std::fs::rename(&draft, segment::path(&self.directory, number))?;
        self.sync_directory()?;
        for part in &parts {
            // The repeated part is truncated, so that possibly damaged data is never read.
            let _ = part.file.set_len(part.from.bytes).and_then(|()| part.file.sync_data());
        }
        front.file = Arc::new(file);
        (front.segment, front.length, front.lines) = (number, length, lines);
        front.synced = Extent { bytes: length, lines };
        self.note_newest(number);
        front.unsynced.clear();
        (front.spoiled, front.suspect) = (false, false);
        tracing::warn!(lines, "the data of a failed sync was rewritten and is on disk");
        Ok(())
    }

    /// Removes a segment whose lines are all in the backend.
    pub(crate) fn remove(&self, number: u64) {
        let path = segment::path(&self.directory, number);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(segment = number, %error, "an applied journal segment could not be removed");
        }
    }

    /// How much of the journal is after a place.
    pub(crate) fn bytes_since(&self, mark: Mark) -> u64 {
        (mark.segment..=self.end().segment).map(|number| self.size(number)).sum::<u64>().saturating_sub(mark.offset)
    }

    /// Length of a segment; 0 if it is not there.
    pub(crate) fn size(&self, number: u64) -> u64 {
        fs::metadata(segment::path(&self.directory, number)).map_or(0, |file| file.len())
    }

    /// Where the segments are.
    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// A new file survives only if its directory is synced too.
    fn sync_directory(&self) -> io::Result<()> {
        if !self.keep_unsynced {
            return Ok(());
        }
        self.faults.check(Point::JournalDirectory)?;
        File::open(&self.directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Event, Timestamp};
    use std::path::Path;

    fn journal(directory: &Path) -> (Journal, Arc<Faults>) {
        let options = JournalOptions {
            directory: directory.to_owned(),
            store: "x".to_owned(),
            first: 1,
            after: After::default(),
            keep_unsynced: true,
            segment_bytes: SEGMENT_BYTES,
            queue_bytes: 1000,
        };
        let faults = Arc::new(Faults::default());
        (Journal::begin(options, Arc::clone(&faults), Arc::default()).unwrap(), faults)
    }

    fn record(seq: u64) -> Record {
        let session_id = SessionId::parse("a").unwrap();
        Record { session_id, seq, at: Timestamp::UNIX_EPOCH, event: Event::SessionDestroyed }
    }

    /// A segment was used although its directory entry was not on the disk, which nothing tried again: a power failure could
    /// take the file, and all lines in it, away.
    #[test]
    fn a_segment_that_a_power_failure_could_remove_is_not_used() {
        let directory = tempfile::TempDir::new().unwrap();
        let (journal, faults) = journal(directory.path());
        let second = segment::path(directory.path(), 2);
        faults.arm(Point::JournalDirectory, 1);
        journal.begin_segment().unwrap_err();
        assert!(!second.exists());
        journal.append(&record(1)).unwrap();
        assert_eq!(journal.end().segment, 1);
        journal.begin_segment().unwrap();
        journal.append(&record(2)).unwrap();
        assert_eq!((second.exists(), journal.end().segment), (true, 2));
    }

    #[test]
    fn what_waits_in_memory_is_bounded_and_written_once_the_disk_takes_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let (journal, faults) = journal(directory.path());
        faults.arm(Point::JournalWrite, u64::MAX);
        let refused = |seq| journal.append(&record(seq)).unwrap_err();
        let taken = (1..100).take_while(|seq| matches!(refused(*seq), AppendError::Retrying { .. })).count();
        assert!((5..50).contains(&taken), "{taken}");
        assert!(matches!(refused(100), AppendError::Full { .. }));
        faults.arm(Point::JournalWrite, 0);
        journal.drain().unwrap();
        journal.append(&record(101)).unwrap();
        journal.sync().unwrap();
        let text = fs::read_to_string(segment::path(directory.path(), 1)).unwrap();
        assert_eq!(text.lines().count(), 1 + taken + 1);
        assert_eq!(text.len() as u64, journal.end().length);
    }

    #[test]
    fn a_record_that_is_dropped_says_whether_the_disk_is_full() {
        let directory = tempfile::TempDir::new().unwrap();
        let (journal, _) = journal(directory.path());
        hold(&journal.front).file = Arc::new(File::options().write(true).open("/dev/full").unwrap());
        let mut refused = (1..100).map(|seq| journal.append(&record(seq)).unwrap_err());
        let dropped = refused.find(|error| !matches!(error, AppendError::Retrying { .. })).unwrap();
        assert!(matches!(dropped, AppendError::NoSpace { .. }), "{dropped}");
    }
}
