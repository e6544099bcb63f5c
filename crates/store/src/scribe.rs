//! The recorder's way through the journal. It has a mark of its own and may be behind the backend: a new session costs it
//! a directory and two files, and nobody who only wants to run a command should wait for those.
//!
//! It is given what the backend was given, as long as it keeps up, and reads the journal by itself otherwise. The mark is
//! beside the journal, in a file that is written over: if a crash leaves it old, lines that are there are passed over,
//! and if it cannot be read, the oldest segment is where it begins.

use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::recordings::Recordings;
use crate::sum::{self, Unsealed};
use crate::tail::{Batch, Tail};
use serde::{Deserialize, Serialize};
use shellkeep_session::{Event, Record, SessionId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much of the journal is held for the recorder in memory. What is beyond it is read again when its turn comes.
const HELD_BYTES: u64 = 4 * 1024 * 1024;

/// Pause after something failed that holds up all recordings.
const PAUSE: Duration = Duration::from_millis(100);

/// The file with the mark, in the journal's directory.
const PLACE: &str = "recorded";

/// Its length: more than it needs, so that it is written over whole.
const PLACE_BYTES: usize = 192;

/// What the file says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    /// Id of the backend for which the journal was written.
    store: String,
    mark: Mark,
}

/// Records that were read and not recorded. The recorder needs order within a session only, and one write for all that a
/// session has is cheapest.
#[derive(Default)]
struct Held {
    order: VecDeque<SessionId>,
    records: HashMap<SessionId, Vec<Record>>,
    bytes: u64,
}

impl Held {
    fn push(&mut self, record: Record) {
        let records = match self.records.get_mut(&record.session_id) {
            Some(records) => records,
            None => {
                self.order.push_back(record.session_id.clone());
                self.records.entry(record.session_id.clone()).or_default()
            }
        };
        if matches!(record.event, Event::SessionDestroyed) {
            // What would be written now would be removed in the next moment; but not what an agent removed before that.
            let is_kept = |record: &Record| matches!(record.event, Event::SessionDeleted { .. });
            let kept = records.iter().rposition(is_kept).map_or(0, |last| last + 1);
            records.truncate(kept);
        }
        records.push(record);
    }

    /// The records of the session that came first.
    fn pop(&mut self) -> Option<Vec<Record>> {
        loop {
            let session_id = self.order.pop_front()?;
            // One that was asked for has had its turn already.
            if let Some(records) = self.records.remove(&session_id) {
                return Some(records);
            }
        }
    }
}

/// The recorder on its way.
pub(crate) struct Scribe {
    recordings: Recordings,
    directory: PathBuf,
    store: String,
    file: Option<File>,
    /// Everything before this place is recorded, or known to be missing.
    mark: Mark,
    /// Its position is the place after what is held.
    tail: Tail,
    held: Held,
    /// Sessions that somebody asked for: everything of them before this place is recorded, ahead of the others.
    early: HashMap<SessionId, Mark>,
    /// When to try the disk again.
    rests_until: Option<Instant>,
}

impl Scribe {
    /// Goes on where an earlier daemon stopped: at its mark, or at the journal's oldest segment if there is none, or if
    /// that segment was kept for recordings which were left behind.
    pub(crate) fn new(recordings: Recordings, directory: &Path, store: &str, oldest: u64) -> Self {
        let begin = Mark { segment: oldest, offset: 0 };
        let left = std::fs::read(directory.join(PLACE)).ok().and_then(|bytes| place(&bytes));
        let is_ours = |place: &Place| place.store == store && place.mark.segment == oldest;
        let mark = match left.filter(is_ours) {
            Some(place) if !recordings.was_left_behind() => place.mark,
            _ => begin,
        };
        let tail = Tail::new(directory.to_owned(), mark);
        let (directory, store) = (directory.to_owned(), store.to_owned());
        let (held, early) = (Held::default(), HashMap::new());
        let mut scribe = Self { recordings, directory, store, file: None, mark, tail, held, early, rests_until: None };
        if scribe.note() {
            // The mark tells the next start what the word of those left behind told this one.
            scribe.recordings.publish();
        }
        scribe
    }

    /// Everything before this place is recorded, or known to be missing.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// The recordings themselves.
    pub(crate) fn recordings(&mut self) -> &mut Recordings {
        &mut self.recordings
    }

    /// When to look again at what could not be written.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.recordings.retry_at()
    }

    /// Takes over a batch that the backend has been given, if it follows on what is held and there is room.
    pub(crate) fn offer(&mut self, batch: Batch, from: Mark) {
        if self.tail.position() == from && self.held.bytes < HELD_BYTES {
            self.hold(batch);
        }
    }

    fn hold(&mut self, batch: Batch) {
        self.tail.advance(batch.mark);
        self.held.bytes += batch.bytes;
        for (entry, place) in batch.entries.into_iter().zip(batch.places) {
            if let Entry::Record(record) = entry
                && self.early.get(&record.session_id).is_none_or(|until| place >= *until)
            {
                self.held.push(record);
            }
        }
    }

    /// Does a little: one session's lines, or a stretch of the journal read. Whether there was anything to do up to
    /// this end.
    pub(crate) fn step(&mut self, end: &End) -> bool {
        if let Some(records) = self.held.pop() {
            self.record(&records);
            return true;
        }
        if self.mark != self.tail.position() {
            return self.settle();
        }
        match self.tail.next(end) {
            Ok(Some(batch)) => {
                self.hold(batch);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be read for the recordings; it is tried again");
                self.rest()
            }
        }
    }

    /// Does nothing for a moment.
    pub(crate) fn rest(&mut self) -> bool {
        self.rests_until = Some(Instant::now() + PAUSE);
        false
    }

    /// Until when a disk that failed is left alone, if it is.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|until| *until > Instant::now())
    }

    /// Whether all is recorded up to an end.
    pub(crate) fn is_at(&self, end: &End) -> bool {
        self.mark >= end.mark()
    }

    /// Moves the mark to where all that was read is recorded.
    fn settle(&mut self) -> bool {
        // Before the mark moves: what is not signed must come again after a crash, or nobody would know that we wrote it.
        self.recordings.sign(None, self.mark);
        if !self.recordings.sync() {
            return self.rest();
        }
        self.held = Held::default();
        self.mark = self.tail.position();
        self.early.retain(|_, until| *until > self.mark);
        self.note();
        true
    }

    fn record(&mut self, records: &[Record]) {
        self.recordings.take(&records.iter().collect::<Vec<_>>(), self.mark);
    }

    /// Brings one session's recording up to an end, ahead of the others.
    pub(crate) fn bring(&mut self, session_id: &SessionId, end: &End) {
        if let Some(records) = self.held.records.remove(session_id) {
            self.record(&records);
        }
        let from = self.early.get(session_id).copied().unwrap_or_default().max(self.tail.position());
        let mut tail = Tail::new(self.directory.clone(), from);
        if tail.is_at(end) {
            return;
        }
        let only = HashSet::from([session_id.as_str().as_bytes()]);
        loop {
            match tail.next_of(end, Some(&only)) {
                Ok(Some(batch)) => {
                    tail.advance(batch.mark);
                    self.recordings.take(&records_of(&batch.entries), self.mark);
                }
                Ok(None) => break,
                // It is met again, and told, when it is this stretch's turn.
                Err(_) => return,
            }
        }
        if !self.recordings.is_missed(session_id) {
            self.early.insert(session_id.clone(), end.mark());
        }
    }

    /// Signs how far all recordings have come.
    pub(crate) fn sign(&mut self) {
        self.recordings.sign(None, self.mark);
    }

    /// Signs how far one session's recording has come.
    pub(crate) fn seal(&mut self, session_id: &SessionId) {
        self.recordings.sign(Some(session_id), self.mark);
    }

    /// Records lines that wait in memory because the journal refuses them. They come again once it takes them, and are
    /// passed over then. What is before them must be recorded: the whole journal, or all of their session.
    pub(crate) fn take_queued(&mut self, lines: &[Vec<u8>]) {
        let records: Vec<Record> = lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
        if !records.is_empty() {
            self.record(&records);
        }
    }

    /// Looks again at recordings that could not be written, if it is time, and brings up those that can.
    pub(crate) fn recover(&mut self, now: bool) -> bool {
        if self.recordings.retry_at().is_none_or(|at| !now && at > Instant::now()) {
            return false;
        }
        let recovering = self.recordings.recovering();
        // From where they are brought up to, all that follows must come again.
        self.early.retain(|session_id, _| !recovering.contains_key(session_id));
        if let Some(from) = recovering.values().min().copied() {
            let only: HashSet<&[u8]> = recovering.keys().map(|session_id| session_id.as_str().as_bytes()).collect();
            self.bring_up(from, &only);
        }
        self.recordings.publish();
        !recovering.is_empty()
    }

    /// Gives the recorder again what it should have had, from a place in the journal to where it is now. What is held
    /// comes again, and is passed over.
    fn bring_up(&mut self, from: Mark, only: &HashSet<&[u8]>) {
        let end = End::from(self.tail.position());
        let mut tail = Tail::new(self.directory.clone(), from);
        loop {
            match tail.next_of(&end, Some(only)) {
                Ok(Some(batch)) => {
                    self.recordings.take(&records_of(&batch.entries), tail.position());
                    tail.advance(batch.mark);
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "the journal cannot be read again; recordings may have a hole");
                    return;
                }
            }
        }
    }

    /// Goes on at a place where nothing is left to read before it.
    pub(crate) fn pass_to(&mut self, mark: Mark) {
        self.tail.advance(mark);
        self.mark = mark;
        self.note();
    }

    /// Leaves word of the mark for the next start. An old one is as good, only slower.
    fn note(&mut self) -> bool {
        let written = self.write_place();
        if let Err(error) = &written {
            self.file = None;
            tracing::warn!(%error, "the recorder's place in the journal could not be noted");
        }
        written.is_ok()
    }

    fn write_place(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let path = self.directory.join(PLACE);
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            file.set_len(PLACE_BYTES as u64)?;
            self.file = Some(file);
        }
        let mut line = sum::seal(serde_json::to_vec(&Place { store: self.store.clone(), mark: self.mark })?);
        line.resize(PLACE_BYTES, b' ');
        self.file.as_ref().map_or(Ok(()), |file| file.write_all_at(&line, 0))
    }
}

/// What the file with the mark says, if it is as it was written. An older program wrote no checksum.
fn place(bytes: &[u8]) -> Option<Place> {
    match sum::unseal(bytes.trim_ascii_end().to_vec()) {
        Unsealed::Checked(bytes) | Unsealed::Without(bytes) => serde_json::from_slice(&bytes).ok(),
        Unsealed::Broken => None,
    }
}

fn records_of(entries: &[Entry]) -> Vec<&Record> {
    let records = entries.iter().filter_map(|entry| match entry {
        Entry::Record(record) => Some(record),
        Entry::Damaged { .. } => None,
    });
    records.collect()
}
