//! The sessions' recordings, written by the thread behind the journal. A recording that cannot be written blocks
//! nothing: it falls behind, is retried, and catches up from the journal.

use crate::anchor::{Anchor, AnchorOptions};
use crate::backend::Mark;
use crate::error::{Durability, OpenError};
use crate::fault::{Faults, Point};
use crate::feed_port::FeedOptions;
use crate::key;
use crate::lock::{self, hold};
use crate::problems::Problems;
use shellkeep_record::append::SEGMENT_BYTES;
use shellkeep_record::marks::{EVERY, Marks};
use shellkeep_record::{
    Checkpoints, Key, Masker, PublicKey, Recorder, RecorderOptions, Recording, Scrubbed, SessionKey, SignedNow, Signer,
    Stall,
};
use shellkeep_redact::Redactor;
use shellkeep_session::{Event, Record, SessionId};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How much of the journal is kept for recordings that are behind. Beyond that they get a hole.
pub const BEHIND_BYTES: u64 = 256 * 1024 * 1024;

/// First and longest pause between attempts to write recordings.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How many sessions' lines are counted; beyond that, those with few lines are forgotten.
const MOST_COUNTED: usize = 10_000;

/// Lines for which marks are set at a time: a few milliseconds, for which others wait.
const MARKED_AT_ONCE: u64 = 2 * EVERY;

/// The directory of sessions that their agents deleted, in the data directory.
pub const DELETED: &str = "deleted";

/// The file beside the journal that says that recordings are behind.
const MARKER: &str = "behind";

/// How sessions are recorded.
#[derive(Clone)]
pub struct RecordOptions {
    /// Whether sessions are recorded.
    pub on: bool,
    /// A line that would make a file longer than this starts the next file.
    pub segment_bytes: u64,
    /// How much of the journal is kept for recordings that are behind.
    pub behind_bytes: u64,
    /// Masks what it finds, and the values of names that look secret, before it is written.
    pub redactor: Option<Redactor>,
    /// Whether to start even if records of the journal, or the whole store, are lost.
    pub accept_loss: bool,
    /// Where the signing key is, if it is not in the data directory.
    pub signing_key: Option<PathBuf>,
    /// Where signed heads are anchored, and how often.
    pub anchor: Option<AnchorOptions>,
    /// Whether a reader outside the store follows the journal, and what it may read.
    pub feed: Option<FeedOptions>,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            on: true,
            segment_bytes: SEGMENT_BYTES,
            behind_bytes: BEHIND_BYTES,
            redactor: None,
            accept_loss: false,
            signing_key: None,
            anchor: None,
            feed: None,
        }
    }
}

impl RecordOptions {
    /// No recordings at all, to measure what they cost.
    pub fn off() -> Self {
        Self { on: false, ..Self::default() }
    }
}

/// Read access to recordings.
pub(crate) struct RecordingSet {
    root: PathBuf,
    key: Key,
    signer: Arc<Signer>,
    /// How many cannot be written, so that the check costs one load while all can.
    count: AtomicUsize,
    stalled: Mutex<BTreeMap<SessionId, String>>,
}

impl RecordingSet {
    /// Recordings in a directory, with the key of the data directory.
    pub(crate) fn open(root: PathBuf, data_dir: &Path, options: &RecordOptions) -> Result<Self, OpenError> {
        let key = key::read(data_dir)?;
        lock::private_directory(&root).map_err(|error| OpenError::not_writable(&root, &error))?;
        let sign_old = |signer: &Signer| {
            let signed = shellkeep_record::unsigned::sign_old(&root, signer)?;
            if signed > 0 {
                tracing::info!(recordings = signed, "signing recordings from before signatures existed");
            }
            Ok(())
        };
        let signer = Arc::new(key::signer(data_dir, options.signing_key.as_deref(), sign_old)?);
        Ok(Self { root, key, signer, count: AtomicUsize::new(0), stalled: Mutex::default() })
    }

    /// Where a session's recording is.
    pub(crate) fn directory(&self, session_id: &SessionId) -> PathBuf {
        self.root.join(session_id.as_str())
    }

    /// The key that proves a session's recording.
    pub(crate) fn key(&self, session_id: &SessionId) -> SessionKey {
        self.key.of(session_id)
    }

    /// The key that checks its signatures.
    pub(crate) fn public_key(&self) -> PublicKey {
        self.signer.public_key()
    }

    /// Why a session's recording cannot be written at the moment, if it cannot.
    pub(crate) fn problem(&self, session_id: &SessionId) -> Option<String> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        hold(&self.stalled).get(session_id).cloned()
    }
}

/// What recordings are written with.
pub(crate) struct Setup<'a> {
    /// The recordings.
    pub set: Arc<RecordingSet>,
    pub data_dir: &'a Path,
    /// The journal's directory, if there is a journal.
    pub journal: Option<&'a Path>,
    /// How to record.
    pub options: &'a RecordOptions,
    /// What an answered command survives.
    pub durability: Durability,
    /// Armed faults.
    pub faults: Arc<Faults>,
    /// Where to report problems.
    pub problems: Arc<Problems>,
}

/// The recorder, and what it could not write.
pub(crate) struct Recordings {
    recorder: Recorder,
    set: Arc<RecordingSet>,
    problems: Arc<Problems>,
    anchor: Option<Anchor>,
    /// The position of the first missing record of each stalled session.
    missed: BTreeMap<SessionId, Mark>,
    behind_bytes: u64,
    marker: Option<PathBuf>,
    marked: bool,
    /// Whether lines must survive a power failure.
    power: bool,
    /// Whether the last sync failed.
    unsynced: bool,
    backoff: Duration,
    retry_at: Option<Instant>,
    /// Lines since the last mark, of sessions that were written to.
    unmarked: HashMap<SessionId, u64>,
}

impl Recordings {
    /// Starts recording.
    pub(crate) fn open(setup: Setup<'_>) -> Result<Self, OpenError> {
        let Setup { set, data_dir, journal, options, durability, faults, problems } = setup;
        let recorder_options = RecorderOptions {
            segment_bytes: options.segment_bytes,
            outputs: Some(data_dir.join("outputs")),
            deleted: Some(data_dir.join(DELETED)),
            masker: options.redactor.clone().map(Masker::new),
            before_write: Some(Arc::new(move || faults.check(Point::RecordWrite))),
            signer: Some(Arc::clone(&set.signer)),
            ..RecorderOptions::default()
        };
        let recorder = Recorder::open(set.root.clone(), set.key.clone(), recorder_options)
            .map_err(|error| OpenError::not_writable(&set.root, &error))?;
        let marker = journal.map(|directory| directory.join(MARKER));
        let marked = marker.as_ref().is_some_and(|marker| marker.exists());
        let anchor = options.anchor.as_ref().map(Anchor::start).transpose();
        let anchor = anchor.map_err(|error| OpenError::not_writable(data_dir, &error))?;
        Ok(Self {
            recorder,
            anchor,
            set,
            problems,
            missed: BTreeMap::new(),
            behind_bytes: options.behind_bytes,
            marker,
            marked,
            power: durability == Durability::Power,
            unsynced: false,
            backoff: BACKOFF.0,
            retry_at: None,
            unmarked: HashMap::new(),
        })
    }

    /// Whether an earlier daemon left recordings behind.
    pub(crate) fn was_left_behind(&self) -> bool {
        self.marked
    }

    /// Writes the lines of records that come from a place in the journal or after it.
    pub(crate) fn take(&mut self, records: &[&Record], from: Mark) {
        if !records.is_empty() {
            self.take_records(records, from);
        }
    }

    /// Signs recordings up to their last line, all or that of one session. What cannot be signed is repeated from a
    /// position in the journal.
    pub(crate) fn sign(&mut self, only: Option<&SessionId>, from: Mark) {
        let SignedNow { heads, stalls } = self.recorder.sign(only);
        if let Some(anchor) = &self.anchor {
            anchor.take(heads);
        }
        self.stalled(stalls, from);
    }

    /// The same for one of those that are not signed, if there is one.
    pub(crate) fn sign_one(&mut self, from: Mark) {
        let unsigned = self.recorder.unsigned().next().cloned();
        if let Some(session_id) = unsigned {
            self.sign(Some(&session_id), from);
        }
    }

    /// How many are not signed.
    pub(crate) fn unsigned(&self) -> usize {
        self.recorder.unsigned().len()
    }

    /// Syncs what was written, in power mode; returns whether that worked.
    pub(crate) fn sync(&mut self) -> bool {
        if !self.power {
            return true;
        }
        let synced = File::open(&self.set.root).and_then(|root| Ok(rustix::fs::syncfs(&root)?));
        let failed = synced.as_ref().err().map(|error| {
            tracing::warn!(%error, "cannot sync recordings to disk");
            format!(
                "Recordings cannot be synced to disk ({error}); the journal is kept for them, and the sync is retried."
            )
        });
        if failed.is_some() {
            self.problems.recordings(failed);
        } else if self.unsynced {
            self.publish();
        }
        self.unsynced = synced.is_err();
        synced.is_ok()
    }

    /// Where a session's recording is.
    pub(crate) fn directory(&self, session_id: &SessionId) -> PathBuf {
        self.set.directory(session_id)
    }

    /// Whether something of a session is missing because it could not be written.
    pub(crate) fn is_missed(&self, session_id: &SessionId) -> bool {
        self.missed.contains_key(session_id)
    }

    /// Records one record of a store without a journal. What cannot be written becomes a hole.
    pub(crate) fn take_now(&mut self, record: &Record) {
        if self.missed.contains_key(&record.session_id) && self.recorder.try_again(&record.session_id).is_ok() {
            self.missed.remove(&record.session_id);
            self.publish();
        }
        self.take_records(&[record], Mark::default());
    }

    fn take_records(&mut self, records: &[&Record], from: Mark) {
        self.count(records);
        let stalls = self.recorder.take(records);
        self.stalled(stalls, from);
    }

    fn stalled(&mut self, stalls: Vec<Stall>, from: Mark) {
        if stalls.is_empty() {
            return;
        }
        for Stall { session_id, reason } in stalls {
            metrics::counter!("shellkeep_record_failures_total").increment(1);
            if self.set.problem(&session_id).is_none() {
                tracing::warn!(%session_id, reason, "cannot write a recording; the session continues without it");
            }
            self.missed.entry(session_id).or_insert(from);
        }
        self.retry_at.get_or_insert_with(|| Instant::now() + BACKOFF.0);
        self.publish();
    }

    fn count(&mut self, records: &[&Record]) {
        for record in records {
            match record.event {
                Event::SessionDestroyed => drop(self.unmarked.remove(&record.session_id)),
                _ => match self.unmarked.get_mut(&record.session_id) {
                    Some(lines) => *lines += 1,
                    None => drop(self.unmarked.insert(record.session_id.clone(), 1)),
                },
            }
        }
        if self.unmarked.len() > MOST_COUNTED {
            self.unmarked.retain(|_, lines| *lines >= 2 * EVERY);
        }
    }

    /// Sets marks in one recording that has many lines without one; returns whether there was one. For idle time.
    pub(crate) fn mark_one(&mut self) -> bool {
        let found = self.unmarked.iter().find(|(_, lines)| **lines >= 2 * EVERY).map(|(id, _)| id.clone());
        let Some(session_id) = found else { return false };
        let directory = self.set.directory(&session_id);
        let marks = Marks::new(&directory, self.set.key(&session_id));
        // If this does not set them, the first reader that needs them does.
        let is_more = Recording::open(&directory)
            .and_then(|recording| Checkpoints { recording: &recording, marks: &marks }.mark(MARKED_AT_ONCE));
        if !is_more.unwrap_or(false) {
            self.unmarked.remove(&session_id);
        }
        true
    }

    /// When to check again whether recordings can be written.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Checks which recordings can be written again, and returns where each must continue.
    pub(crate) fn recovering(&mut self) -> BTreeMap<SessionId, Mark> {
        let mut recovering = BTreeMap::new();
        for (session_id, mark) in std::mem::take(&mut self.missed) {
            match self.recorder.try_again(&session_id) {
                Ok(()) => drop(recovering.insert(session_id, mark)),
                Err(_) => {
                    metrics::counter!("shellkeep_record_failures_total").increment(1);
                    self.missed.insert(session_id, mark);
                }
            }
        }
        self.backoff = if recovering.is_empty() { (self.backoff * 2).min(BACKOFF.1) } else { BACKOFF.0 };
        self.retry_at = (!self.missed.is_empty()).then(|| Instant::now() + self.backoff);
        recovering
    }

    /// Reports the state once nothing is missing, or something is.
    pub(crate) fn publish(&mut self) {
        let stalled: BTreeMap<SessionId, String> =
            self.recorder.stalled().map(|(session_id, reason)| (session_id.clone(), reason.to_owned())).collect();
        let count = stalled.len();
        metrics::gauge!("shellkeep_record_stalled").set(count as f64);
        self.problems.recordings(stalled.values().next().map(|reason| {
            let whose = if count == 1 { "one session".to_owned() } else { format!("{count} sessions") };
            format!(
                "The recording of {whose} cannot be written ({reason}); commands continue, and the write is \
                retried."
            )
        }));
        self.set.count.store(count, Ordering::Relaxed);
        let before = std::mem::replace(&mut *hold(&self.set.stalled), stalled);
        for session_id in before.keys().filter(|session_id| !self.missed.contains_key(session_id)) {
            tracing::info!(%session_id, "a recording is written again");
        }
        if count == 0 {
            self.retry_at = None;
        }
        self.mark(count > 0);
    }

    /// Leaves a note for the next start. If that fails too, it is retried when something changes.
    fn mark(&mut self, behind: bool) {
        let Some(marker) = &self.marker else { return };
        if behind == self.marked {
            return;
        }
        let done = match behind {
            true => File::create(marker).map(drop),
            false => fs::remove_file(marker),
        };
        match done {
            Ok(()) => self.marked = behind,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.marked = behind,
            Err(error) => tracing::warn!(%error, "cannot note whether recordings are behind"),
        }
    }

    /// The first segment of the journal that a recording still needs.
    pub(crate) fn needs_from(&self) -> Option<u64> {
        self.missed.values().map(|mark| mark.segment).min()
    }

    /// How much of the journal may be kept.
    pub(crate) fn behind_bytes(&self) -> u64 {
        self.behind_bytes
    }

    /// Drops missing records before a segment: the recordings get a hole.
    pub(crate) fn give_up_before(&mut self, segment: u64) {
        for (session_id, mark) in self.missed.iter_mut().filter(|(_, mark)| mark.segment < segment) {
            tracing::warn!(%session_id, "a recording is too far behind; it will have a hole");
            *mark = Mark { segment, offset: 0 };
        }
    }

    /// Masks what the redactor finds in a session's recording.
    pub(crate) fn scrub(&mut self, session_id: &SessionId, redactor: &Redactor) -> io::Result<Scrubbed> {
        self.recorder.scrub(session_id, redactor)
    }
}
