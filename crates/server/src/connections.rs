//! The connections of a door: which of them are not authenticated yet, and their timeouts. A request sets no timer,
//! which would cost more than a small command: every connection notes what it waits for, and all of them are checked
//! twice a second.

use crate::sync::lock;
use shellkeep_runtime::{Engine, Lent, OpError, Share, most_descriptors};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often connections are checked.
const TICK: Duration = Duration::from_millis(500);
/// Most unauthenticated connections of a door. One more closes the oldest of them: a client with a token gets in,
/// however many have none.
const UNPROVEN: usize = 1024;
/// The share of the process's descriptors that such connections may use: an eighth where anyone can connect. On the
/// Unix socket the host is identified immediately, and a burst of its own connections must not close the first of them.
pub(crate) const TCP_PART: usize = 8;
pub(crate) const SOCKET_PART: usize = 1;

/// When to check connections, from `start` on. Checks that were missed, because the process was stopped, are not made up for: they
/// count time, and no client was late meanwhile.
pub(crate) fn checks(start: Instant) -> Interval {
    let mut checks = interval_at(start, TICK);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

/// How long a connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// From the connection to the end of its first request's head.
    pub(crate) first: Duration,
    /// From the first byte of a later request to the end of its head.
    pub(crate) head: Duration,
    /// Between an answer and the next request.
    pub(crate) idle: Duration,
    /// Without reading anything that was written to it.
    pub(crate) write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            write: Duration::from_secs(60),
        }
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    First = 0,
    Idle = 1,
    Head = 2,
    Busy = 3,
}

impl Phase {
    fn of(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::First,
            1 => Self::Idle,
            2 => Self::Head,
            _ => Self::Busy,
        }
    }
}

/// All connections of a door.
pub(crate) struct Connections {
    patience: Patience,
    unproven_most: usize,
    /// Number of checks so far: a clock that costs nothing to read.
    ticks: Arc<AtomicU64>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    /// Oldest first.
    unproven: BTreeMap<u64, Arc<Connection>>,
}

/// One connection.
pub(crate) struct Connection {
    number: u64,
    /// What it waits for, and since which check.
    state: AtomicU64,
    ticks: Arc<AtomicU64>,
    is_proven: AtomicBool,
    /// Whether the next answer says that the connection closes.
    closes: AtomicBool,
    share: Mutex<Option<Share>>,
    end: Notify,
}

/// A connection's entry; removed when this is dropped.
pub(crate) struct Entered {
    book: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(patience: Patience, part: usize) -> Arc<Self> {
        let most = most_descriptors().and_then(|most| usize::try_from(most).ok());
        let unproven_most = most.map_or(UNPROVEN, |most| UNPROVEN.min(most / part)).max(1);
        Arc::new(Self { patience, unproven_most, ticks: Arc::default(), book: Mutex::default() })
    }

    /// A new connection. If too many are unauthenticated, the oldest of those is closed.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        let mut book = self.book();
        book.next += 1;
        let number = book.next;
        let connection = Arc::new(Connection {
            number,
            state: AtomicU64::new(0),
            ticks: Arc::clone(&self.ticks),
            is_proven: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            share: Mutex::default(),
            end: Notify::new(),
        });
        connection.set(Phase::First);
        book.all.insert(number, Arc::clone(&connection));
        book.unproven.insert(number, Arc::clone(&connection));
        if book.unproven.len() > self.unproven_most
            && let Some((_, oldest)) = book.unproven.pop_first()
        {
            metrics::counter!("shellkeep_connections_displaced_total").increment(1);
            oldest.end.notify_one();
        }
        drop(book);
        Entered { book: Arc::clone(self), connection }
    }

    /// No descriptor is left: the oldest unauthenticated connection is closed.
    pub(crate) fn make_room(&self) {
        if let Some((_, oldest)) = self.book().unproven.pop_first() {
            oldest.end.notify_one();
        }
    }

    /// Closes the connections that have timed out.
    pub(crate) fn look(&self) {
        let now = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        let Patience { first, head, idle, .. } = self.patience;
        let over = |connection: &&Arc<Connection>| {
            let state = connection.state.load(Ordering::Relaxed);
            let limit = match Phase::of(state) {
                Phase::First => first,
                Phase::Head => head,
                Phase::Idle => idle,
                Phase::Busy => return false,
            };
            // It may have started in the middle of an interval.
            TICK * u32::try_from(now.saturating_sub(state >> 2)).unwrap_or(u32::MAX) > limit + TICK
        };
        self.book().all.values().filter(over).for_each(|connection| connection.end.notify_one());
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

impl Connection {
    fn set(&self, phase: Phase) {
        self.state.store(self.ticks.load(Ordering::Relaxed) << 2 | phase as u64, Ordering::Relaxed);
    }

    /// Bytes have arrived.
    pub(crate) fn received(&self) {
        if Phase::of(self.state.load(Ordering::Relaxed)) == Phase::Idle {
            self.set(Phase::Head);
        }
    }

    /// A request has arrived.
    pub(crate) fn asked(&self) {
        self.set(Phase::Busy);
    }

    /// Its response is complete.
    pub(crate) fn answered(&self) {
        self.set(Phase::Idle);
    }

    /// What was left of a request's body has been read after the response. Its bytes were no next request's.
    pub(crate) fn rests(&self) {
        let state = self.state.load(Ordering::Relaxed);
        if Phase::of(state) == Phase::Head {
            let idle = self.ticks.load(Ordering::Relaxed) << 2 | Phase::Idle as u64;
            // If this fails, the next request has arrived.
            let _ = self.state.compare_exchange(state, idle, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The next answer says that the connection closes: it cannot be kept.
    pub(crate) fn close_next(&self) {
        self.closes.store(true, Ordering::Relaxed);
    }

    /// Whether the answer that is due says so.
    pub(crate) fn takes_leave(&self) -> bool {
        self.closes.swap(false, Ordering::Relaxed)
    }

    /// Returns when the connection must be closed.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }
}

/// What a request knows about its connection.
#[derive(Clone)]
pub(crate) struct Way {
    book: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Way {
    /// The peer is authenticated. From now on the connection counts towards its own limit.
    pub(crate) fn prove(&self, engine: &Engine) -> Result<(), OpError> {
        if self.connection.is_proven.load(Ordering::Relaxed) {
            return Ok(());
        }
        let share = engine.lend(Lent::Connections, 1)?;
        *lock(&self.connection.share) = Some(share);
        self.connection.is_proven.store(true, Ordering::Relaxed);
        self.book.book().unproven.remove(&self.connection.number);
        Ok(())
    }

    /// The same for the caller of this one request: another node sends those of many callers on a connection.
    pub(crate) fn prove_again(&self, engine: &Engine) -> Result<(), OpError> {
        // Given back before it is asked for: the caller may be the same, at its limit.
        *lock(&self.connection.share) = None;
        self.connection.is_proven.store(false, Ordering::Relaxed);
        self.prove(engine)
    }
}

impl Entered {
    /// How long a peer may not read.
    pub(crate) fn patience(&self) -> Duration {
        self.book.patience.write
    }

    /// The handle for its requests.
    pub(crate) fn way(&self) -> Way {
        Way { book: Arc::clone(&self.book), connection: Arc::clone(&self.connection) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut book = self.book.book();
        book.all.remove(&self.connection.number);
        book.unproven.remove(&self.connection.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn has_ended(connection: &Connection) -> bool {
        pin!(connection.ended()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn looks(connections: &Connections, count: u32) {
        (0..count).for_each(|_| connections.look());
    }

    #[test]
    fn each_phase_has_its_own_patience() {
        let connections = Connections::new(Patience::default(), TCP_PART);
        let per = |span: Duration| (span.as_millis() / TICK.as_millis()) as u32;
        let silent = connections.enter();
        looks(&connections, per(connections.patience.first));
        assert!(!has_ended(&silent.connection));
        looks(&connections, 2);
        assert!(has_ended(&silent.connection), "it has asked nothing");

        let works = connections.enter();
        works.connection.asked();
        looks(&connections, per(Duration::from_secs(3600)));
        assert!(!has_ended(&works.connection), "a command may take its time");
        works.connection.answered();
        looks(&connections, per(connections.patience.idle));
        assert!(!has_ended(&works.connection), "a client may keep its connection");
        works.connection.received();
        looks(&connections, per(connections.patience.head) / 2);
        works.connection.received();
        looks(&connections, per(connections.patience.head) / 2 + 2);
        assert!(has_ended(&works.connection), "more bytes of a head do not make it more patient");
    }

    /// A daemon that was stopped for a quarter of a minute made up for thirty checks at once when it went on, and closed the
    /// connections that it had just accepted as if they had been silent for all that time.
    #[tokio::test]
    async fn checks_that_were_missed_are_not_made_up_for() {
        let mut checks = checks(Instant::now().checked_sub(Duration::from_secs(120)).unwrap());
        let is_due =
            |checks: &mut Interval| pin!(checks.tick()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let due = (0..1000).take_while(|_| is_due(&mut checks)).count();
        // More than one only if this test itself was stopped.
        assert!((1..100).contains(&due), "{due} at once");
    }

    #[test]
    fn the_oldest_without_a_token_makes_room() {
        let connections = Connections::new(Patience::default(), TCP_PART);
        let entered: Vec<Entered> = (0..connections.unproven_most + 3).map(|_| connections.enter()).collect();
        let ended: Vec<bool> = entered.iter().map(|entered| has_ended(&entered.connection)).collect();
        assert!(ended[..3].iter().all(|ended| *ended) && !ended[3..].iter().any(|ended| *ended));
        drop(entered);
        assert!(connections.book().all.is_empty() && connections.book().unproven.is_empty());
    }
}
