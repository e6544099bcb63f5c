//! The thread that writes history: it follows the journal and writes what it reads to the database, in batches and far
//! from any answer. While the database is away the journal keeps what it lacks.

use crate::database::{Database, DatabaseError};
use crate::open::open;
use crate::write::{self, JournalSource};
use crate::{schema, scrub, url};
use shellkeep_store::{Feed, FeedControl, FeedScrub, Woken};
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// First and longest pause between attempts to reach the database.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often an idle connection is tried: a database that is gone is reported although nothing happens.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// How long a stop waits for what is left. The next daemon writes the rest.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Writes history as long as it exists.
pub struct Outbox {
    control: FeedControl,
    ended: Receiver<()>,
}

impl Outbox {
    /// Starts to write to the database that a URL names. It need not be reachable yet.
    pub fn start(control: FeedControl, url: &str, source: JournalSource) -> io::Result<Self> {
        let (tell, ended) = mpsc::channel();
        let worker = Worker { feed: control.feed(), url: url.to_owned(), source, pause: PAUSES.0, _tell: tell };
        std::thread::Builder::new().name("history".to_owned()).spawn(|| worker.run())?;
        Ok(Self { control, ended })
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
    Failed(DatabaseError),
}

impl From<DatabaseError> for Left {
    fn from(error: DatabaseError) -> Self {
        Self::Failed(error)
    }
}

struct Worker {
    feed: Feed,
    url: String,
    source: JournalSource,
    pause: Duration,
    _tell: Sender<()>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let Left::Failed(error) = self.follow() else { return };
            self.feed.set_waiting(false);
            self.report(&error);
            if self.feed.rest(self.pause) {
                return;
            }
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
    }

    fn report(&self, error: &DatabaseError) {
        let (place, behind) = (url::without_login(&self.url), self.feed.behind_bytes());
        tracing::warn!(%error, database = place, behind, "history cannot be written; the journal keeps it");
        metrics::counter!("shellkeep_history_failures_total").increment(1);
        metrics::gauge!("shellkeep_history_behind_bytes").set(behind as f64);
        metrics::gauge!("shellkeep_history_up").set(0.0);
        self.feed.set_problem(Some(format!(
            "The history database {place} does not accept records ({error}). The journal keeps them, {behind} bytes so \
             far, and they are written when it does."
        )));
    }

    /// Connects, and writes until that fails or the store closes.
    fn follow(&mut self) -> Left {
        match self.try_to_follow() {
            Ok(()) => Left::Closing,
            Err(left) => left,
        }
    }

    fn try_to_follow(&mut self) -> Result<(), Left> {
        let mut database = open(&self.url)?;
        let database = &mut *database;
        self.feed.set_waiting(true);
        schema::migrate(database)?;
        let written = write::place(database, &self.source.id)?;
        let from = self.feed.begin_at(written);
        if written.is_some_and(|written| from < written) {
            write::go_back(database, &self.source, from)?;
        }
        self.feed.set_problem(None);
        self.pause = PAUSES.0;
        metrics::gauge!("shellkeep_history_up").set(1.0);
        let mut until = None;
        loop {
            self.feed.set_waiting(true);
            self.write_what_is_there(database, until)?;
            while let Some(scrub) = self.feed.take_scrub() {
                answer(database, scrub);
            }
            self.feed.set_waiting(false);
            if self.feed.is_closing() {
                if until.is_some() {
                    return Ok(());
                }
                until = Some(Instant::now() + LAST_WRITES);
                continue;
            }
            if self.feed.wait(TRY_EVERY) == Woken::Nothing {
                self.feed.set_waiting(true);
                database.query("SELECT 1", &[])?;
            }
        }
    }

    fn write_what_is_there(&mut self, database: &mut dyn Database, until: Option<Instant>) -> Result<(), Left> {
        while let Some(batch) = self.feed.next_batch().map_err(DatabaseError::failed)? {
            write::write(database, &self.source, &batch.entries, batch.to)?;
            metrics::counter!("shellkeep_history_records_total").increment(batch.entries.len() as u64);
            self.feed.done(batch.to);
            self.feed.set_waiting(true);
            if until.is_some_and(|until| Instant::now() > until) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn answer(database: &mut dyn Database, scrub: FeedScrub) {
    let done = scrub::scrub(database, &scrub.session_id, &scrub.redactor).map_err(|error| error.to_string());
    // The caller may be gone.
    let _ = scrub.answer.send(done);
}
