//! The thread that writes history: it follows the journal and writes what it reads to a database or a broker, in batches
//! and far from any answer. While that is away the journal keeps what it lacks.

use crate::broker::Tasks;
use crate::mask::mask;
use crate::proof::Copied;
use crate::queue_sink::{Progress, QueueSink};
use crate::retention::{Passes, Removal, Removed, Retention};
use crate::sink::{DatabaseSink, Sink, SinkError};
use crate::url::{self, Kind};
use crate::write::JournalSource;
use shellkeep_record::Masker;
use shellkeep_session::SessionId;
use shellkeep_store::{Feed, FeedControl, FeedScrub, Woken};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// First and longest pause between attempts to reach the database or broker.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often an idle connection is tried: a database or broker that is gone is reported although nothing happens.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// How long a stop waits for what is left. The next daemon writes the rest.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// How often signed recordings are copied: many lines of a session at a time.
const COPY_EVERY: Duration = Duration::from_millis(500);

/// For how long they are copied before records are written again: after an upgrade there are many.
const COPY_TIME: Duration = Duration::from_millis(500);

/// The thread's nice value.
const NICE: i32 = 5;

/// How many times as long as it worked the thread rests: where the database is on the same machine, what it is given to do
/// takes a processor from commands.
const RESTS: u32 = 3;

/// The longest rest, and how far behind the journal the thread does not rest.
const LONGEST_REST: Duration = Duration::from_millis(500);
const MAY_BE_BEHIND: u64 = 16 * 1024 * 1024;

/// What is counted, so that it is 0 and not missing before the first time.
const COUNTERS: [&str; 5] = [
    "shellkeep_history_records_total",
    "shellkeep_history_failures_total",
    "shellkeep_history_dropped_bytes_total",
    "shellkeep_history_removed_rows_total",
    "shellkeep_history_removed_sessions_total",
];

/// Writes history as long as it exists.
pub struct Outbox {
    control: FeedControl,
    keeper: Keeper,
    ended: Receiver<()>,
}

/// Changes how long history is kept.
#[derive(Clone)]
pub struct Keeper {
    control: FeedControl,
    retention: Arc<Mutex<Retention>>,
}

impl Keeper {
    /// From now on history is kept for this long.
    pub fn set(&self, retention: Retention) {
        *self.retention.lock().unwrap_or_else(PoisonError::into_inner) = retention;
        self.control.wake();
    }

    fn get(&self) -> Retention {
        self.retention.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What an outbox starts with.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// The database or broker.
    pub url: String,
    pub source: JournalSource,
    /// A file for the place up to which a broker has confirmed the journal.
    pub place_file: PathBuf,
    /// A directory for files that say how far recordings were sent to a broker.
    pub sent_files: PathBuf,
    /// How long history is kept in a database.
    pub retention: Retention,
    /// Masks records before they are written, if the host wants that.
    pub masker: Option<Masker>,
    /// Takes what was removed.
    pub removed: tokio::sync::mpsc::Sender<Removed>,
}

impl Outbox {
    /// Starts to write. The database or broker need not be reachable yet.
    pub fn start(control: FeedControl, options: OutboxOptions) -> io::Result<Self> {
        let target = match url::kind(&options.url).map_err(io::Error::other)? {
            Kind::Database => Target::Database,
            Kind::Broker => Target::Broker(Tasks::new()?),
        };
        for counter in COUNTERS {
            metrics::counter!(counter).increment(0);
        }
        let (tell, ended) = mpsc::channel();
        let retention = Arc::new(Mutex::new(options.retention.clone()));
        let keeper = Keeper { control: control.clone(), retention };
        let worker = Worker {
            feed: control.feed(),
            passes: Passes::new(options.retention.clone()),
            keeper: keeper.clone(),
            options,
            unproven: BTreeSet::new(),
            copied_last: None,
            pause: PAUSES.0,
            _tell: tell,
        };
        std::thread::Builder::new().name("history".to_owned()).spawn(|| worker.run(target))?;
        Ok(Self { control, keeper, ended })
    }

    /// What changes how long history is kept.
    pub fn keeper(&self) -> Keeper {
        self.keeper.clone()
    }

    /// Writes what is left, for some seconds at most. Blocks meanwhile.
    pub fn close(&self) {
        self.control.close();
        // It sends nothing; the channel closes with the thread.
        let _ = self.ended.recv_timeout(LAST_WRITES + TRY_EVERY);
    }
}

/// Why the thread left a connection.
enum Left {
    /// The store is about to close.
    Closing,
    Failed(SinkError),
}

/// What is written to.
enum Target {
    Database,
    Broker(Tasks),
}

impl Target {
    fn name(&self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Broker(_) => "broker",
        }
    }
}

struct Worker {
    feed: Feed,
    options: OutboxOptions,
    keeper: Keeper,
    passes: Passes,
    /// Sessions with records whose recording is not copied yet.
    unproven: BTreeSet<SessionId>,
    /// The session whose turn was last.
    copied_last: Option<SessionId>,
    pause: Duration,
    _tell: Sender<()>,
}

impl Worker {
    fn run(mut self, target: Target) {
        // What is in the journal is safe.
        let _ = rustix::process::nice(NICE);
        let OutboxOptions { url, source, place_file, sent_files, .. } = self.options.clone();
        let name = target.name();
        match &target {
            Target::Database => self.run_with(name, || DatabaseSink::open(&url, &source)),
            Target::Broker(tasks) => {
                let (within, progress) = (tasks.enter(), Progress::new(place_file, sent_files, &url));
                self.run_with(name, || QueueSink::open(&within, &url, &source, &progress));
            }
        }
    }

    fn run_with<S: Sink>(&mut self, target: &str, open: impl Fn() -> Result<S, SinkError>) {
        loop {
            let Left::Failed(error) = self.follow(&open) else { return };
            self.feed.set_waiting(false);
            self.report(target, &error);
            if self.feed.rest(self.pause) {
                return;
            }
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
    }

    fn report(&self, target: &str, error: &SinkError) {
        let (place, behind) = (url::without_login(&self.options.url), self.feed.behind_bytes());
        tracing::warn!(%error, target, place, behind, "history cannot be written; the journal keeps it");
        metrics::counter!("shellkeep_history_failures_total").increment(1);
        metrics::gauge!("shellkeep_history_behind_bytes").set(behind as f64);
        metrics::gauge!("shellkeep_history_up").set(0.0);
        self.feed.set_problem(Some(format!(
            "The history {target} {place} does not accept records ({error}). The journal keeps them, {behind} bytes so \
             far, and they are written when it does."
        )));
    }

    /// Connects, and writes until that fails or the store closes.
    fn follow<S: Sink>(&mut self, open: impl Fn() -> Result<S, SinkError>) -> Left {
        match self.try_to_follow(open) {
            Ok(()) => Left::Closing,
            Err(error) => Left::Failed(error),
        }
    }

    fn try_to_follow<S: Sink>(&mut self, open: impl Fn() -> Result<S, SinkError>) -> Result<(), SinkError> {
        self.feed.set_waiting(true);
        let mut sink = open()?;
        let written = sink.place()?;
        let from = self.feed.begin_at(written);
        if written.is_some_and(|written| from < written) {
            sink.go_back(from)?;
        }
        self.unproven.extend(sink.unproven()?);
        self.feed.set_problem(None);
        self.pause = PAUSES.0;
        metrics::gauge!("shellkeep_history_up").set(1.0);
        let (mut until, mut copied_at) = (None, None);
        loop {
            self.feed.set_waiting(true);
            self.write_what_is_there(&mut sink, until)?;
            while let Some(scrub) = self.feed.take_scrub() {
                self.unproven.insert(scrub.session_id.clone());
                answer(&mut sink, scrub);
            }
            if until.is_some() || copied_at.is_none_or(|at: Instant| at.elapsed() >= COPY_EVERY) {
                let start = Instant::now();
                self.copy_recordings(&mut sink, until.unwrap_or(start + COPY_TIME))?;
                self.give_way(start.elapsed(), until);
                copied_at = Some(Instant::now());
            }
            let is_removing = self.remove_a_little(&mut sink)?;
            self.feed.set_waiting(false);
            if self.feed.is_closing() {
                if until.is_some() {
                    return Ok(());
                }
                until = Some(Instant::now() + LAST_WRITES);
                continue;
            }
            if is_removing {
                continue;
            }
            let pause = if self.unproven.is_empty() { TRY_EVERY } else { COPY_EVERY };
            if self.feed.wait(pause) == Woken::Nothing {
                self.feed.set_waiting(true);
                sink.check()?;
            }
        }
    }

    /// Copies what is signed of the recordings of sessions that have new records. They take turns.
    fn copy_recordings(&mut self, sink: &mut impl Sink, until: Instant) -> Result<(), SinkError> {
        let is_next = |session_id: &SessionId| self.copied_last.as_ref().is_none_or(|last| session_id > last);
        let (next, later): (Vec<_>, Vec<_>) = self.unproven.iter().cloned().partition(is_next);
        for session_id in next.into_iter().chain(later) {
            if Instant::now() > until {
                break;
            }
            self.copied_last = Some(session_id.clone());
            let (directory, key) = self.feed.recording(&session_id);
            // History was faster than the recording, which is about to begin.
            if !directory.exists() && !self.feed.is_recorded() {
                continue;
            }
            if sink.copy(&session_id, &directory, &key)? == Copied::All {
                self.unproven.remove(&session_id);
            }
        }
        sink.end_copies()
    }

    /// Removes some of what is too old; whether there is more.
    fn remove_a_little(&mut self, sink: &mut impl Sink) -> Result<bool, SinkError> {
        self.passes.set(self.keeper.get());
        match self.passes.step(|pass| sink.remove(pass))? {
            Removal::Idle => Ok(false),
            Removal::UnderWay => Ok(true),
            Removal::Done(removed) => {
                if removed.rows > 0 {
                    tracing::info!(%removed, "old history was removed");
                    // The daemon may be about to end.
                    let _ = self.options.removed.blocking_send(removed);
                }
                Ok(false)
            }
        }
    }

    /// Rests after some work, unless there is much to do, or little time until the end.
    fn give_way(&self, worked: Duration, until: Option<Instant>) {
        if until.is_none() && self.feed.behind_bytes() < MAY_BE_BEHIND {
            self.feed.set_waiting(false);
            self.feed.give_way((worked * RESTS).min(LONGEST_REST));
        }
        self.feed.set_waiting(true);
    }

    fn write_what_is_there(&mut self, sink: &mut impl Sink, until: Option<Instant>) -> Result<(), SinkError> {
        while let Some(mut batch) = self.feed.next_batch().map_err(SinkError::Journal)? {
            if let Some(masker) = &self.options.masker {
                batch.entries.iter_mut().try_for_each(|entry| mask(&mut entry.record, masker))?;
            }
            let start = Instant::now();
            sink.write(&batch)?;
            self.unproven.extend(batch.entries.iter().map(|entry| entry.record.session_id.clone()));
            metrics::counter!("shellkeep_history_records_total").increment(batch.entries.len() as u64);
            self.feed.done(batch.to);
            self.give_way(start.elapsed(), until);
            if until.is_some_and(|until| Instant::now() > until) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn answer(sink: &mut impl Sink, scrub: FeedScrub) {
    let done = sink.scrub(&scrub.session_id, &scrub.redactor).map_err(|error| error.to_string());
    // The caller may be gone.
    let _ = scrub.answer.send(done);
}
