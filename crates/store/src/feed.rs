//! The journal for a reader outside the store, such as the one that writes history to a database. It reads at its own pace
//! from a place that it keeps itself, and the journal is kept until it says that it is past it, within a limit.

use crate::backend::{Backend, Entry, Mark};
use crate::feed_port::{FeedScrub, Gate, Woken};
use crate::scheduler::{Request, Shared};
use crate::store::Store;
use crate::tail::Tail;
use shellkeep_record::SessionKey;
use shellkeep_session::{Event, Record, SessionId, Timestamp};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A record on its way out of the node.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Where it is in the journal.
    pub place: Mark,
    /// The epoch of the node's claim to the session; 0 where nodes share nothing.
    pub epoch: u64,
    /// When its session was created, which tells apart sessions that had the same name one after another; none if that is
    /// no longer known.
    pub created_at: Option<Timestamp>,
    pub record: Record,
}

/// A part of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedBatch {
    pub entries: Vec<FeedEntry>,
    /// The place after it.
    pub to: Mark,
}

/// The reading end.
pub struct Feed {
    shared: Arc<Shared>,
    tail: Tail,
    /// Which session each name means at the place up to which all is done.
    origins: HashMap<SessionId, Origin>,
    /// What the part that was read last changes of it; none for a session that is deleted there.
    ahead: HashMap<SessionId, Option<Origin>>,
}

/// What records do not say about their session.
#[derive(Debug, Clone, Copy, Default)]
struct Origin {
    /// The epoch under which its next record is written.
    epoch: u64,
    created_at: Option<Timestamp>,
}

/// What the rest of the node says to a reader outside the store.
#[derive(Clone)]
pub struct FeedControl(Arc<Shared>);

impl FeedControl {
    /// That of a store which was opened for such a reader.
    pub fn of(store: &Store) -> Option<Self> {
        store.shared().filter(|shared| shared.feed.mark().is_some()).map(|shared| Self(Arc::clone(shared)))
    }

    /// The reading end.
    pub fn feed(&self) -> Feed {
        Feed::new(Arc::clone(&self.0))
    }

    /// Says which records may leave the node.
    pub fn set_gate(&self, gate: Gate) {
        self.0.feed.set_gate(gate);
    }

    /// More records may leave the node.
    pub fn wake(&self) {
        self.0.feed.wake();
    }

    /// Tells the reader to write what is left, and to end.
    pub fn close(&self) {
        self.0.feed.close();
    }
}

impl Feed {
    fn new(shared: Arc<Shared>) -> Self {
        let from = shared.feed.mark().unwrap_or_default();
        let tail = Tail::new(shared.journal.directory().to_owned(), from);
        Self { shared, tail, origins: HashMap::new(), ahead: HashMap::new() }
    }

    /// Where a session's recording is, and the key that proves it. It may be behind the journal, or gone with its session.
    pub fn recording(&self, session_id: &SessionId) -> (PathBuf, SessionKey) {
        (self.shared.recordings.directory(session_id), self.shared.recordings.key(session_id))
    }

    /// Whether recordings have everything that this reader has. If so, one that is not there is gone with its session.
    pub fn is_recorded(&self) -> bool {
        self.shared.feed.is_recorded()
    }

    /// Continues at a place; at the oldest record that is left if it is none, or one that this journal does not have.
    /// Returns where that is.
    pub fn begin_at(&mut self, place: Option<Mark>) -> Mark {
        let (oldest, end) = (self.shared.feed.mark().unwrap_or_default(), self.shared.journal.end().mark());
        let from = match place {
            Some(place) if place <= end => place.max(oldest),
            Some(place) => {
                tracing::warn!(?place, ?end, "history is ahead of the journal: the data directory was restored");
                oldest
            }
            None => oldest,
        };
        self.origins.clear();
        self.tail.advance(from);
        self.shared.feed.set_mark(from);
        from
    }

    /// The next part of the journal; nothing if there is no more that may leave the node. The same part comes again until
    /// [`Feed::done`].
    pub fn next_batch(&mut self) -> io::Result<Option<FeedBatch>> {
        let end = self.shared.journal.end();
        let Some(batch) = self.tail.next(&end)? else { return Ok(None) };
        self.ahead.clear();
        let mut to = batch.mark;
        let mut entries = Vec::with_capacity(batch.entries.len());
        for (entry, place) in batch.entries.into_iter().zip(batch.places) {
            let Entry::Record(record) = entry else { continue };
            let origin = self.origin_of(&record);
            if !self.shared.feed.may_leave(&record, origin.created_at) {
                to = place;
                break;
            }
            self.ahead.insert(record.session_id.clone(), (!record.event.destroys()).then_some(origin));
            let Origin { epoch, created_at } = origin;
            entries.push(FeedEntry { place, epoch, created_at, record });
        }
        Ok((to > self.tail.position()).then_some(FeedBatch { entries, to }))
    }

    /// Everything before a place is where it belongs: the journal need not keep it.
    pub fn done(&mut self, to: Mark) {
        for (id, origin) in self.ahead.drain() {
            match origin {
                Some(origin) => self.origins.insert(id, origin),
                None => self.origins.remove(&id),
            };
        }
        let is_past = to.segment > self.tail.position().segment;
        self.tail.advance(to);
        self.shared.feed.set_mark(to);
        metrics::gauge!("shellkeep_history_behind_bytes").set(self.shared.journal.bytes_since(to) as f64);
        if is_past {
            self.shared.post(Request::Remove);
        }
    }

    /// How many bytes of the journal are left to read.
    pub fn behind_bytes(&self) -> u64 {
        self.shared.journal.bytes_since(self.tail.position())
    }

    /// Sleeps until there is something to read or to do.
    pub fn wait(&self, most: Duration) -> Woken {
        self.shared.feed.wait(most)
    }

    /// Sleeps for a while, or until the store is about to close; whether it is.
    pub fn rest(&self, pause: Duration) -> bool {
        self.shared.feed.rest(pause)
    }

    /// Sleeps for a while, or until there is something to do that somebody waits for.
    pub fn give_way(&self, pause: Duration) {
        self.shared.feed.give_way(pause);
    }

    /// Whether the store is about to close.
    pub fn is_closing(&self) -> bool {
        self.shared.feed.is_closing()
    }

    /// Says what is wrong, in a sentence; nothing if all is well.
    pub fn set_problem(&self, problem: Option<String>) {
        let is_wrong = problem.is_some();
        self.shared.feed.set_problem(problem);
        if is_wrong {
            // Callers that wait for this reader are answered.
            self.shared.post(Request::Remove);
        }
    }

    /// Says that it waits for an answer from now on, or no longer, so that a database that hangs is reported.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.shared.feed.set_waiting(is_waiting);
    }

    /// A secret to be masked in what was written.
    pub fn take_scrub(&self) -> Option<FeedScrub> {
        self.shared.feed.take_scrub()
    }

    /// Under which epoch a record was written, and when its session was created. Other records of the session say so; if
    /// those are before what is read here, its state knows.
    fn origin_of(&self, record: &Record) -> Origin {
        let (id, is_gated) = (&record.session_id, self.shared.feed.has_gate());
        let known = match self.ahead.get(id) {
            Some(ahead) => *ahead,
            None => self.origins.get(id).copied(),
        };
        let mut origin = match (&record.event, known) {
            (_, Some(known)) => known,
            (Event::SessionCreated { .. }, None) if !is_gated => Origin::default(),
            (_, None) => {
                let Origin { epoch, created_at } = self.origin_from_state(id, record.seq);
                // The name may mean a later session by now.
                Origin { epoch, created_at: created_at.filter(|created_at| *created_at <= record.at) }
            }
        };
        match &record.event {
            Event::SessionCreated { meta, .. } => origin.created_at = Some(meta.created_at),
            Event::Owned { claim, .. } if is_gated => origin.epoch = claim.epoch,
            // It stands for records that another owner may have begun.
            Event::RecordsLost { state, .. } if is_gated => {
                origin.created_at = Some(state.meta.created_at);
                origin.epoch = state.claims.of(record.seq).map_or(origin.epoch, |claim| claim.epoch);
            }
            _ => {}
        }
        origin
    }

    fn origin_from_state(&self, session_id: &SessionId, seq: u64) -> Origin {
        let (answer, waiting) = mpsc::channel();
        let id = session_id.clone();
        self.shared.post(Request::Peek(Box::new(move |backend: Result<&mut dyn Backend, String>| {
            let state = backend.ok().and_then(|backend| backend.load(&id).ok()).flatten();
            let origin = state.map(|state| Origin {
                epoch: state.claims.of(seq).map_or(0, |claim| claim.epoch),
                created_at: Some(state.meta.created_at),
            });
            // The reader may be gone.
            let _ = answer.send(origin);
        })));
        waiting.recv().ok().flatten().unwrap_or_default()
    }
}
