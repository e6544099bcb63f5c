//! Opens a store from a URL and a directory.

use crate::backend::Backend;
use crate::check::{self, Checked};
use crate::error::{Durability, OpenError};
use crate::fault::Faults;
use crate::feed_port::FeedPort;
use crate::filesystem::FilesystemBackend;
use crate::identity::Home;
use crate::journal::{Journal, JournalOptions, QUEUE_BYTES, SEGMENT_BYTES};
use crate::lock;
use crate::marker;
use crate::memory::MemoryBackend;
use crate::problems::Problems;
use crate::recording_reader::RecordingReader;
use crate::recordings::{RecordOptions, RecordingSet, Recordings, Setup};
use crate::scheduler::{self, Leftovers, Scheduler, Shared};
use crate::segment::{self, After};
use crate::sqlite::SqliteBackend;
use crate::store::{Held, Store};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

enum StoreLocation {
    Memory,
    Filesystem(PathBuf),
    Sqlite(PathBuf),
}

impl StoreLocation {
    /// The file without which there is no store, if it is missing or empty.
    fn missing(&self) -> Option<PathBuf> {
        let path = match self {
            Self::Memory => return None,
            Self::Filesystem(directory) => directory.join("applied.json"),
            Self::Sqlite(path) => path.clone(),
        };
        std::fs::metadata(&path).map_or(true, |file| file.len() == 0).then_some(path)
    }

    /// Where the sessions' recordings are. A memory store starts with empty recordings.
    fn recordings(&self, data_dir: &Path) -> Result<PathBuf, OpenError> {
        match self {
            Self::Filesystem(directory) => Ok(directory.join("sessions")),
            Self::Sqlite(_) => Ok(data_dir.join("sessions")),
            Self::Memory => {
                let root = data_dir.join("memory-sessions");
                match std::fs::remove_dir_all(&root) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(OpenError::not_writable(&root, &error))
                    }
                    _ => Ok(root),
                }
            }
        }
    }
}

/// A relative path is relative to the data directory, so that the daemon's working directory does not matter.
fn parse(url: &str, data_dir: &Path) -> Result<StoreLocation, OpenError> {
    let unsupported = || OpenError::Unsupported { url: url.to_owned() };
    let (scheme, rest) = url.split_once("://").ok_or_else(unsupported)?;
    match (scheme, rest) {
        ("memory", "") => Ok(StoreLocation::Memory),
        ("file", path) if !path.is_empty() => Ok(StoreLocation::Filesystem(data_dir.join(path))),
        ("sqlite", path) if !path.is_empty() => Ok(StoreLocation::Sqlite(data_dir.join(path))),
        _ => Err(unsupported()),
    }
}

impl Store {
    /// Opens the store that a URL names: `memory://`, `file://DIRECTORY` or `sqlite://FILE`. The lock and the journal
    /// are in the data directory. What an earlier daemon wrote to the journal and did not apply is applied before the
    /// first read is answered.
    pub fn open(url: &str, data_dir: &Path, durability: Durability) -> Result<Self, OpenError> {
        Self::open_with(url, data_dir, durability, RecordOptions::default())
    }

    /// [`Store::open`], with settings for recordings.
    pub fn open_with(
        url: &str,
        data_dir: &Path,
        durability: Durability,
        options: RecordOptions,
    ) -> Result<Self, OpenError> {
        Self::open_in_segments(url, data_dir, durability, options, SEGMENT_BYTES)
    }

    /// The same with another size of the journal's segments, which lets tests see many.
    pub(crate) fn open_in_segments(
        url: &str,
        data_dir: &Path,
        durability: Durability,
        options: RecordOptions,
        segment_bytes: u64,
    ) -> Result<Self, OpenError> {
        let place = parse(url, data_dir)?;
        lock::private_directory(data_dir).map_err(|error| OpenError::not_writable(data_dir, &error))?;
        let lock = lock::take(&data_dir.join("lock"))?;
        let home = Home::settle(data_dir)?;
        let faults = Arc::new(Faults::from_environment());
        let problems = Arc::new(Problems::default());
        let root = place.recordings(data_dir)?;
        if let Some(path) = place.missing().filter(|_| !options.accept_loss)
            && let Some(evidence) = evidence(data_dir, &root)
        {
            return Err(OpenError::StoreMissing { path, evidence });
        }
        let set = Arc::new(RecordingSet::open(root, data_dir, &options)?);
        let directory = data_dir.join("journal");
        let setup = |journal| Setup {
            set: Arc::clone(&set),
            data_dir,
            journal,
            options: &options,
            durability,
            faults: Arc::clone(&faults),
            problems: Arc::clone(&problems),
        };
        let record = |journal| if options.on { Recordings::open(setup(journal)).map(Some) } else { Ok(None) };
        let backend: Box<dyn Backend> = match &place {
            StoreLocation::Memory if options.feed.is_some() => {
                return Err(OpenError::NoJournal { url: url.to_owned() });
            }
            StoreLocation::Memory => {
                let recordings = record(None)?;
                let held = Held { set, home, lock };
                return Ok(Self::in_memory(MemoryBackend::default(), recordings, faults, problems, held));
            }
            StoreLocation::Filesystem(directory) => Box::new(FilesystemBackend::open(directory, durability)?),
            StoreLocation::Sqlite(path) => Box::new(SqliteBackend::open(path, durability)?),
        };
        let Prepared { first, oldest, after } = prepare(data_dir, backend.as_ref(), options.accept_loss)?;
        let is_ahead = scheduler::has_lost_its_end(&directory, backend.applied());
        let recordings = record(Some(&directory))?;
        let feed = options.feed.map(|feed| FeedPort::from_segment(oldest, feed)).unwrap_or_default();
        let options = JournalOptions {
            first,
            after,
            directory: directory.clone(),
            store: backend.id().to_owned(),
            keep_unsynced: durability == Durability::Power,
            segment_bytes,
            queue_bytes: QUEUE_BYTES,
        };
        let not_writable = |error: io::Error| OpenError::not_writable(&directory, &error);
        let journal = Journal::begin(options, Arc::clone(&faults), Arc::clone(&problems)).map_err(not_writable)?;
        let shared = Arc::new(Shared::new(journal, faults, problems, feed, Arc::clone(&set)));
        let recorder = recordings.map(|recordings| RecordingReader::new(recordings, &directory, backend.id(), oldest));
        let scheduler = Scheduler::new(Arc::clone(&shared), backend, recorder, Leftovers { oldest, is_ahead });
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(|| scheduler.run())
            .map_err(not_writable)?;
        shared.attach(thread.thread().clone());
        Ok(Self::journalled(shared, thread, durability, Held { set, home, lock }))
    }
}

/// Evidence that a data directory has had a store.
fn evidence(data_dir: &Path, recordings: &Path) -> Option<String> {
    if marker::is_there(data_dir) {
        return Some("store.json says that there was one".to_owned());
    }
    let places = [recordings.to_owned(), data_dir.join("checkpoints"), data_dir.join("journal")];
    let used = |place: &PathBuf| std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    places.iter().find(|place| used(place)).map(|place| format!("{} is not empty", place.display()))
}

/// Where a new journal begins.
struct Prepared {
    /// Number of the segment to begin.
    first: u64,
    /// Number of the oldest segment.
    oldest: u64,
    /// What is before the first.
    after: After,
}

/// Checks and repairs what an earlier daemon left.
fn prepare(data_dir: &Path, backend: &dyn Backend, accept_loss: bool) -> Result<Prepared, OpenError> {
    let directory = &data_dir.join("journal");
    let not_writable = |error: io::Error| OpenError::not_writable(directory, &error);
    lock::private_directory(directory).map_err(not_writable)?;
    let mut headers = BTreeMap::new();
    for number in segment::numbers(directory).map_err(not_writable)? {
        headers.insert(number, segment::check_header(directory, number, backend.id())?);
    }
    if let Some(last) = headers.keys().next_back() {
        segment::repair(directory, *last).map_err(not_writable)?;
    }
    let applied = backend.applied();
    let newest = if accept_loss { None } else { marker::read(data_dir)?.map(|marker| marker.segment) };
    let Checked { after, lost } = check::check(directory, &headers, applied, newest).map_err(not_writable)?;
    match lost {
        Some(lost) if accept_loss => tracing::error!(%lost, "started without lost records"),
        Some(lost) => return Err(lost),
        None => {}
    }
    let last = headers.keys().next_back().copied().unwrap_or(0);
    let oldest = headers.keys().next().copied().unwrap_or(applied.segment).min(applied.segment);
    Ok(Prepared { first: last.max(applied.segment) + 1, oldest, after })
}
