//! The reader that writes the recordings. It may be far behind the backend: a new session costs a directory and two
//! files, and a command must not wait for those.
//!
//! While it keeps up, it takes the parts that the backend was passed; otherwise it reads the journal itself. Its mark
//! is in a file next to the journal that is overwritten: if a crash leaves an old mark, existing lines are skipped, and
//! if it cannot be read, reading starts at the oldest segment.

use crate::backend::{Entry, Mark};
use crate::journal::End;
use crate::reader::{Follower, Reader};
use crate::recordings::Recordings;
use crate::sealed;
use crate::sum;
use crate::tail::Batch;
use serde::{Deserialize, Serialize};
use shellkeep_session::{Event, Json, Record, SessionId};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much of the journal is held for the recorder in memory. What is beyond it is read again when its turn comes.
const HELD_BYTES: u64 = 4 * 1024 * 1024;

/// Pause after a failure that affects all recordings.
const PAUSE: Duration = Duration::from_millis(100);

/// The file with the mark, in the journal's directory.
const PLACE: &str = "recorded";

/// Its length: more than it needs, so that it is overwritten completely.
const PLACE_BYTES: usize = 192;

/// What the file says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ReaderFile {
    /// Id of the backend for which the journal was written.
    store: String,
    mark: Mark,
}

/// A record of a batch that is shared with other readers.
struct Shared {
    batch: Arc<Batch>,
    index: usize,
}

impl Shared {
    fn record(&self) -> Option<&Record> {
        match &self.batch.entries[self.index] {
            Entry::Record(record) => Some(record),
            Entry::Damaged { .. } => None,
        }
    }
}

/// Records that were taken and not recorded. Recordings need order within a session only, and one write per session is
/// cheapest.
#[derive(Default)]
struct Held {
    order: VecDeque<SessionId>,
    records: HashMap<SessionId, Vec<Shared>>,
    bytes: u64,
}

impl Held {
    fn push(&mut self, batch: &Arc<Batch>, index: usize) {
        let shared = Shared { batch: Arc::clone(batch), index };
        let Some(record) = shared.record() else { return };
        let records = match self.records.get_mut(&record.session_id) {
            Some(records) => records,
            None => {
                self.order.push_back(record.session_id.clone());
                self.records.entry(record.session_id.clone()).or_default()
            }
        };
        if matches!(record.event, Event::SessionDestroyed) {
            // What would be written now would be deleted immediately; but not what an agent deleted before that.
            let is_deletion = |record: &Record| matches!(record.event, Event::SessionDeleted { .. });
            let deletion = records.iter().rposition(|shared| shared.record().is_some_and(is_deletion));
            records.truncate(deletion.map_or(0, |last| last + 1));
        }
        records.push(shared);
    }

    /// The records of the session that came first.
    fn pop(&mut self) -> Option<Vec<Shared>> {
        loop {
            let session_id = self.order.pop_front()?;
            // One that was completed early is gone.
            if let Some(records) = self.records.remove(&session_id) {
                return Some(records);
            }
        }
    }
}

/// What a turn of [`RecordingReader::work`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Worked,
    /// Everything that was taken is recorded.
    Idle,
    /// The disk failed; it is retried after a pause.
    Resting,
}

/// The reader that writes the recordings.
pub(crate) struct RecordingReader {
    recordings: Recordings,
    place: PlaceFile,
    /// Everything before this place is recorded, or known to be missing.
    mark: Mark,
    held: Held,
    /// The place after what is held.
    taken: Mark,
    /// How many are still signed one at a turn, once everything is recorded, before the mark moves.
    to_sign: Option<usize>,
    /// When to try the disk again.
    rests_until: Option<Instant>,
}

impl Reader for RecordingReader {
    fn mark(&self) -> Mark {
        self.mark
    }

    fn apply(&mut self, batch: &Arc<Batch>) -> Result<(), String> {
        self.taken = batch.mark;
        self.held.bytes += batch.bytes;
        for index in 0..batch.entries.len() {
            self.held.push(batch, index);
        }
        Ok(())
    }

    fn apply_early(&mut self, entries: &[Entry]) -> Result<(), String> {
        let records = records_of(entries);
        self.recordings.take(&records, self.mark);
        match records.iter().any(|record| self.recordings.is_missed(&record.session_id)) {
            true => Err("a recording cannot be written".to_owned()),
            false => Ok(()),
        }
    }

    fn complete(&mut self, session_id: &SessionId) {
        if let Some(records) = self.held.records.remove(session_id) {
            self.record(&records);
        }
    }

    fn has_room(&self) -> bool {
        self.held.bytes < HELD_BYTES
    }
}

impl RecordingReader {
    /// Continues where an earlier daemon stopped: at its mark, or at the journal's oldest segment if there is none, or if
    /// that segment was kept for recordings which were left behind.
    pub(crate) fn new(recordings: Recordings, directory: &Path, store: &str, oldest: u64) -> Self {
        let place = PlaceFile { path: directory.join(PLACE), store: store.to_owned(), file: None };
        let found = place.read().filter(|mark| mark.segment == oldest && !recordings.was_left_behind());
        let mark = found.unwrap_or(Mark { segment: oldest, offset: 0 });
        let mut reader =
            Self { recordings, place, mark, held: Held::default(), taken: mark, to_sign: None, rests_until: None };
        if reader.place.write(mark) {
            // From now on the mark replaces the marker of those that were left behind.
            reader.recordings.publish();
        }
        reader
    }

    pub(crate) fn recordings(&mut self) -> &mut Recordings {
        &mut self.recordings
    }

    /// When to try again to write recordings that could not be written.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.recordings.retry_at()
    }

    /// Records what it has taken of one session, or signs the recording of one, or moves the mark if nothing is left. Callers
    /// that wait for the thread get their answer between two turns, and a hundred signatures take several milliseconds.
    fn work(&mut self) -> Turn {
        if let Some(records) = self.held.pop() {
            self.record(&records);
            return Turn::Worked;
        }
        if self.mark == self.taken {
            return Turn::Idle;
        }
        // Those whose records callers bring forward meanwhile do not keep the mark from moving.
        let left = self.to_sign.get_or_insert_with(|| self.recordings.unsigned());
        if let Some(fewer) = left.checked_sub(1) {
            *left = fewer;
            self.recordings.sign_one(self.mark);
            return Turn::Worked;
        }
        self.to_sign = None;
        self.settle()
    }

    /// Pauses after a failed write.
    pub(crate) fn rest(&mut self) -> Turn {
        self.rests_until = Some(Instant::now() + PAUSE);
        Turn::Resting
    }

    /// Until when to pause after a failed write, if at all.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        self.rests_until.filter(|until| *until > Instant::now())
    }

    /// Whether everything is recorded up to an end.
    pub(crate) fn is_at(&self, end: &End) -> bool {
        self.mark >= end.mark()
    }

    /// Moves the mark to where everything is recorded.
    fn settle(&mut self) -> Turn {
        // Before the mark moves: unsigned lines must be written again after a crash, because they could not be
        // distinguished from forged ones.
        self.recordings.sign(None, self.mark);
        if !self.recordings.sync() {
            return self.rest();
        }
        self.held = Held::default();
        self.mark = self.taken;
        self.place.write(self.mark);
        Turn::Worked
    }

    fn record(&mut self, records: &[Shared]) {
        self.recordings.take(&records.iter().filter_map(Shared::record).collect::<Vec<_>>(), self.mark);
    }

    /// Signs recordings up to their last line, all or that of one session.
    pub(crate) fn sign(&mut self, only: Option<&SessionId>) {
        self.recordings.sign(only, self.mark);
    }

    /// Records lines that wait in memory because the journal rejects them. They are passed again once it accepts them,
    /// and skipped then. What is before them must be recorded: the whole journal, or all of their session.
    pub(crate) fn take_queued(&mut self, lines: &[Vec<u8>]) {
        let records: Vec<Record> = lines.iter().filter_map(|line| Record::from_json(line).ok()).collect();
        self.recordings.take(&records.iter().collect::<Vec<_>>(), self.mark);
    }
}

impl Follower<RecordingReader> {
    /// One turn: records what one session has, or takes the next stretch of the journal up to an end.
    pub(crate) fn turn(&mut self, end: &End) -> Turn {
        match self.reader.work() {
            Turn::Idle => match self.step(end) {
                Ok(Some(_)) => Turn::Worked,
                Ok(None) => Turn::Idle,
                Err(error) => {
                    tracing::warn!(error, "recordings have to wait; they are tried again");
                    self.reader.rest()
                }
            },
            turn => turn,
        }
    }

    /// Tries again to write recordings that could not be written, if it is time, and brings up those that can; whether
    /// there are such.
    pub(crate) fn recover(&mut self, now: bool) -> bool {
        if self.reader.retry_at().is_none_or(|at| !now && at > Instant::now()) {
            return false;
        }
        let recovering = self.reader.recordings.recovering();
        // What comes after the place up to which they are brought must come again.
        self.forget_early(|session_id| recovering.contains_key(session_id));
        if let Some(from) = recovering.values().min() {
            // What is held is passed again, and skipped.
            let repeated = self.repeat(*from, recovering.keys(), |reader, batch, at| {
                reader.recordings.take(&records_of(&batch.entries), at);
            });
            if let Err(error) = repeated {
                tracing::warn!(error, "recordings may have a hole");
            }
        }
        self.reader.recordings.publish();
        !recovering.is_empty()
    }

    /// Continues at a place before which nothing is left to record.
    pub(crate) fn close_at(&mut self, mark: Mark) {
        self.pass_to(mark);
        (self.reader.mark, self.reader.taken) = (mark, mark);
        self.reader.place.write(mark);
    }
}

/// The file with the mark, for the next start. An old mark only costs time.
struct PlaceFile {
    path: PathBuf,
    store: String,
    file: Option<File>,
}

impl PlaceFile {
    /// The mark in the file, if the journal was written for the same backend.
    fn read(&self) -> Option<Mark> {
        let bytes = std::fs::read(&self.path).ok()?;
        let place: ReaderFile = sealed::decode(bytes.trim_ascii_end().to_vec()).ok()?;
        (place.store == self.store).then_some(place.mark)
    }

    /// Writes a mark; whether that worked.
    fn write(&mut self, mark: Mark) -> bool {
        let written = self.try_write(mark);
        if let Err(error) = &written {
            self.file = None;
            tracing::warn!(%error, "the recordings' mark in the journal could not be written");
        }
        written.is_ok()
    }

    fn try_write(&mut self, mark: Mark) -> io::Result<()> {
        let mut line = sum::seal(serde_json::to_vec(&ReaderFile { store: self.store.clone(), mark })?);
        line.resize(PLACE_BYTES, b' ');
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
                file.set_len(PLACE_BYTES as u64)?;
                self.file.insert(file)
            }
        };
        file.write_all_at(&line, 0)
    }
}

fn records_of(entries: &[Entry]) -> Vec<&Record> {
    let records = entries.iter().filter_map(|entry| match entry {
        Entry::Record(record) => Some(record),
        Entry::Damaged { .. } => None,
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Teller;
    use crate::error::Durability;
    use crate::recordings::{RecordOptions, RecordingSet, Setup};
    use shellkeep_session::Event;

    const MARK: Mark = Mark { segment: 1, offset: 9 };

    /// A reader that has taken these records.
    fn reader(data: &Path, records: Vec<Record>) -> RecordingReader {
        let (root, options) = (data.join("sessions"), RecordOptions::default());
        let recordings = Recordings::open(Setup {
            set: Arc::new(RecordingSet::open(root, data, &options).unwrap()),
            data_dir: data,
            journal: None,
            options: &options,
            durability: Durability::Process,
            faults: Arc::default(),
            problems: Arc::default(),
        });
        let mut reader = RecordingReader::new(recordings.unwrap(), data, "store", 1);
        let entries = records.into_iter().map(Entry::Record).collect();
        reader.apply(&Arc::new(Batch { entries, mark: MARK, ..Batch::default() })).unwrap();
        reader
    }

    #[test]
    fn no_turn_signs_more_than_one_recording() {
        let (data, names) = (tempfile::tempdir().unwrap(), ["a", "b", "c"]);
        let records = names.iter().flat_map(|name| Teller::begin(name, None).records);
        let mut reader = reader(data.path(), records.collect());
        let has_head = |name: &&&str| data.path().join("sessions").join(name).join("heads.jsonl").exists();
        let signed = || names.iter().filter(has_head).count();
        let mut before = 0;
        while reader.work() == Turn::Worked {
            assert!(signed() <= before + 1);
            before = signed();
        }
        assert_eq!((before, reader.mark()), (names.len(), MARK));
    }

    #[test]
    fn a_session_that_callers_bring_forward_does_not_keep_the_mark() {
        let data = tempfile::tempdir().unwrap();
        let mut reader = reader(data.path(), Teller::begin("z", None).records);
        let mut hot = Teller::begin("a", None);
        for generation in 1..50 {
            hot.say(Event::ShellStarted { generation });
            reader.apply_early(&hot.records.drain(..).map(Entry::Record).collect::<Vec<_>>()).unwrap();
            reader.work();
        }
        assert_eq!(reader.mark(), MARK);
    }
}
