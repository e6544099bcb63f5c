//! The thread that brings a node's records to the shared tier. A record is offered to it when the node has it, and whoever
//! answers for the record waits until it has settled. While one batch is on its way the next gathers, so many sessions
//! share a round trip. If the tier is away, the node goes on by itself: what it makes is kept and sent later.

use crate::LEASE;
pub use crate::lane::Settled;
use crate::lane::{Lane, Line, Rewind};
use crate::tier::{Append, Appended, Down, NodeEntry, Tier};
use shellkeep_session::ownership::{Claim, Point, Refusal};
use shellkeep_session::{Record, SessionId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How often leases are renewed: twice before they end, whatever happens to one of them.
const BEAT: Duration = Duration::from_millis(1500);

/// Pauses between attempts to reach a tier that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Bytes of records that wait for the tier, of all sessions. Of a session that would be beyond it only the state is sent
/// when the tier is back; its records stay on this node.
const MOST_QUEUED: usize = 64 * 1024 * 1024;

/// What the node must do for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// Another node owns it: end everything of it here.
    Away(SessionId),
    /// The tier lacks records that are no longer at hand: claim it again and give its state.
    Reclaim(SessionId),
}

/// What a ship is made with.
pub struct ShipOptions {
    /// The tier.
    pub tier: Box<dyn Tier>,
    /// How this node is told to others.
    pub node: NodeEntry,
    /// Where to send what the node must do.
    pub news: mpsc::UnboundedSender<Moved>,
}

type Ask = Box<dyn FnOnce(Result<&mut dyn Tier, Down>) + Send>;

/// What the thread and its users share.
struct Inner {
    lanes: HashMap<SessionId, Lane>,
    /// Sessions whose lanes have something to do.
    dirty: HashSet<SessionId>,
    /// Records of sessions that are not claimed yet.
    unclaimed: HashMap<SessionId, Vec<Line>>,
    queued_bytes: usize,
    asks: Vec<Ask>,
    down: Option<Down>,
    is_closing: bool,
}

struct Shared {
    inner: Mutex<Inner>,
    work: Condvar,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With what the ship begins to send a session's records.
#[derive(Debug, Clone)]
pub struct Start {
    /// The node's claim.
    pub claim: Claim,
    /// Number of the first record under it.
    pub from: u64,
    /// The last record in the tier; none if the tier is away and has not confirmed the claim.
    pub known: Option<Point>,
    /// Number of the last record that the node has.
    pub seq: u64,
}

/// Brings a node's records to the shared tier.
pub struct Ship {
    shared: Arc<Shared>,
    news: mpsc::UnboundedSender<Moved>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Ship {
    /// Starts the thread.
    pub fn start(options: ShipOptions) -> std::io::Result<Self> {
        let inner = Inner {
            lanes: HashMap::new(),
            dirty: HashSet::new(),
            unclaimed: HashMap::new(),
            queued_bytes: 0,
            asks: Vec::new(),
            down: None,
            is_closing: false,
        };
        let shared = Arc::new(Shared { inner: Mutex::new(inner), work: Condvar::new() });
        let ShipOptions { tier, node, news } = options;
        let told = news.clone();
        let worker = Worker {
            shared: Arc::clone(&shared),
            tier,
            node,
            news,
            beat_at: Instant::now(),
            retry_at: None,
            pause: FIRST_PAUSE,
        };
        let thread = std::thread::Builder::new().name("shared-ship".to_owned()).spawn(|| worker.run())?;
        Ok(Self { shared, news: told, thread: Mutex::new(Some(thread)) })
    }

    /// Asks the tier, on the ship's thread. At once [`Down`] while it is away.
    pub async fn ask<T, F>(&self, question: F) -> Result<T, Down>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Tier) -> Result<T, Down> + Send + 'static,
    {
        let (answer, waiting) = oneshot::channel();
        let ask: Ask = Box::new(move |tier| drop(answer.send(tier.and_then(question))));
        self.shared.inner().asks.push(ask);
        self.shared.work.notify_one();
        waiting.await.unwrap_or_else(|_| Err(Down { reason: "the node is stopping".to_owned() }))
    }

    /// Begins to send a session's records under a claim. Records that were offered before, and that the tier lacks, are sent
    /// first; if some of them are no longer at hand, `stands_for` makes one in their place, from the number of the last
    /// record that the tier has.
    pub fn begin(&self, session_id: &SessionId, start: Start, stands_for: impl FnOnce(u64) -> Option<Record>) {
        let Start { claim, from, known, seq } = start;
        let after = known.as_ref().map_or(0, |known| known.seq);
        let mut inner = self.shared.inner();
        let mut lines = inner.unclaimed.remove(session_id).unwrap_or_default();
        let mut lane = Lane::new(claim, from, known);
        if let Some(before) = inner.lanes.remove(session_id) {
            let queued = before.give_way_to(&mut lane);
            lines.splice(0..0, queued);
        }
        inner.queued_bytes -= lines.iter().map(|line| line.json.len()).sum::<usize>();
        lines.retain(|line| line.seq > after);
        let follows = lines.iter().zip(after + 1..).all(|(line, next)| line.seq == next);
        if !follows || after + (lines.len() as u64) < seq {
            lines.retain(|line| line.seq > seq);
            lines.splice(0..0, stands_for(after).as_ref().and_then(Line::of));
        }
        inner.queued_bytes += lines.into_iter().map(|line| lane.push(line)).sum::<usize>();
        inner.lanes.insert(session_id.clone(), lane);
        inner.dirty.insert(session_id.clone());
        self.shared.work.notify_one();
    }

    /// Takes a record that this node has. Cheap: it is sent by the thread, once the session is claimed.
    pub fn offer(&self, record: &Record) {
        let Some(line) = Line::of(record) else { return };
        let session_id = &record.session_id;
        let mut inner = self.shared.inner();
        let is_full = inner.queued_bytes + line.json.len() > MOST_QUEUED;
        let Some(lane) = inner.lanes.get_mut(session_id) else {
            if !is_full {
                inner.queued_bytes += line.json.len();
                inner.unclaimed.entry(session_id.clone()).or_default().push(line);
            }
            return;
        };
        if is_full {
            let dropped = lane.drop_queue();
            inner.queued_bytes -= dropped;
            let _ = self.news.send(Moved::Reclaim(session_id.clone()));
        } else {
            let added = lane.push(line);
            inner.queued_bytes += added;
        }
        inner.dirty.insert(session_id.clone());
        self.shared.work.notify_one();
    }

    /// Waits until the tier has a record, is away, or says that the session is another's.
    pub async fn settle(&self, session_id: &SessionId, seq: u64) -> Settled {
        let waiting = {
            let mut inner = self.shared.inner();
            if let Some(Down { reason }) = &inner.down {
                return Settled::HereOnly { reason: reason.clone() };
            }
            let Some(lane) = inner.lanes.get_mut(session_id) else { return Settled::Moved };
            if lane.has(seq) && !lane.is_removed {
                return Settled::Kept;
            }
            let (answer, waiting) = oneshot::channel();
            lane.wait(seq, answer);
            waiting
        };
        waiting.await.unwrap_or(Settled::Moved)
    }

    /// Gives the tier a record that stands for everything up to its number, so that it can drop older ones.
    pub fn rest(&self, record: &Record) {
        let Some(line) = Line::of(record) else { return };
        let mut inner = self.shared.inner();
        if let Some(lane) = inner.lanes.get_mut(&record.session_id) {
            lane.set_rest(line);
            inner.dirty.insert(record.session_id.clone());
            self.shared.work.notify_one();
        }
    }

    /// The session sleeps: its lease is given up once everything is sent.
    pub fn end(&self, session_id: &SessionId) {
        self.mark(session_id, |lane| lane.is_closing = true);
    }

    /// The session was removed here, and is removed for all.
    pub fn remove(&self, session_id: &SessionId) {
        self.mark(session_id, |lane| lane.is_removed = true);
    }

    fn mark(&self, session_id: &SessionId, change: impl FnOnce(&mut Lane)) {
        let mut inner = self.shared.inner();
        if let Some(lane) = inner.lanes.get_mut(session_id) {
            change(lane);
            inner.dirty.insert(session_id.clone());
            self.shared.work.notify_one();
        }
    }

    /// The claim under which this node sends a session's records.
    pub fn claim_of(&self, session_id: &SessionId) -> Option<Claim> {
        self.shared.inner().lanes.get(session_id).map(|lane| lane.claim.clone())
    }

    /// Whether this node works with a session.
    pub fn is_open(&self, session_id: &SessionId) -> bool {
        self.shared.inner().lanes.get(session_id).is_some_and(|lane| !lane.is_closing)
    }

    /// Why the tier is away, if it is.
    pub fn problem(&self) -> Option<String> {
        self.shared.inner().down.as_ref().map(|down| down.reason.clone())
    }

    /// Sends what it can, gives up leases, and ends the thread. Blocks meanwhile.
    pub fn close(&self) {
        self.shared.inner().is_closing = true;
        self.shared.work.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that shares records panicked; this node's journal keeps them");
        }
    }
}

impl Drop for Ship {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread.
struct Worker {
    shared: Arc<Shared>,
    tier: Box<dyn Tier>,
    node: NodeEntry,
    news: mpsc::UnboundedSender<Moved>,
    beat_at: Instant,
    /// When to try a tier again that is away.
    retry_at: Option<Instant>,
    pause: Duration,
}

impl Worker {
    fn run(mut self) {
        loop {
            let (asks, is_closing) = self.wait();
            self.look_again();
            self.answer(asks);
            if self.retry_at.is_none() {
                let worked = self.beat().and_then(|()| self.send()).and_then(|()| self.tidy());
                if let Err(down) = worked {
                    self.went_down(down);
                }
            }
            if is_closing {
                return self.finish();
            }
        }
    }

    /// Returns when there is something to do, with what the tier is asked.
    fn wait(&mut self) -> (Vec<Ask>, bool) {
        let mut inner = self.shared.inner();
        loop {
            let until = self.retry_at.unwrap_or(self.beat_at);
            let left = until.saturating_duration_since(Instant::now());
            let can_send = self.retry_at.is_none() && !inner.dirty.is_empty();
            if left.is_zero() || can_send || inner.is_closing || !inner.asks.is_empty() {
                return (std::mem::take(&mut inner.asks), inner.is_closing);
            }
            inner = self.shared.work.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Tries a tier that was away, if it is time.
    fn look_again(&mut self) {
        if self.retry_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        match self.tier.ping() {
            Err(down) => self.went_down(down),
            Ok(()) => {
                (self.retry_at, self.pause, self.beat_at) = (None, FIRST_PAUSE, Instant::now());
                tracing::info!("the shared store answers again; what it lacks is sent");
                let mut inner = self.shared.inner();
                inner.down = None;
                inner.dirty = inner.lanes.keys().cloned().collect();
                for (session_id, _) in inner.lanes.iter().filter(|(_, lane)| !lane.is_known()) {
                    let _ = self.news.send(Moved::Reclaim(session_id.clone()));
                }
            }
        }
    }

    fn went_down(&mut self, down: Down) {
        let mut inner = self.shared.inner();
        if inner.down.is_none() {
            tracing::warn!(reason = down.reason, "the shared store is away; this node goes on by itself");
        }
        metrics::counter!("shellkeep_shared_failures_total").increment(1);
        let answer = Settled::HereOnly { reason: down.reason.clone() };
        inner.lanes.values_mut().for_each(|lane| lane.answer_all(&answer));
        inner.down = Some(down);
        self.retry_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn answer(&mut self, asks: Vec<Ask>) {
        for ask in asks {
            let down = self.shared.inner().down.clone();
            match down {
                Some(down) => ask(Err(down)),
                None => ask(Ok(&mut *self.tier)),
            }
        }
    }

    /// Tells that this node is alive, and renews the leases of sessions that have nothing to send.
    fn beat(&mut self) -> Result<(), Down> {
        if self.beat_at > Instant::now() {
            return Ok(());
        }
        let renewals: Vec<Append> = {
            let inner = self.shared.inner();
            self.node.sessions = inner.lanes.len() as u64;
            let idle = inner.lanes.iter().filter(|(_, lane)| lane.is_empty() && !lane.is_closing);
            idle.filter_map(|(session_id, lane)| lane.next_append(session_id)).collect()
        };
        self.tier.beat(&self.node, LEASE)?;
        self.append(&renewals)?;
        self.beat_at = Instant::now() + BEAT;
        Ok(())
    }

    /// Sends what is queued, in as few round trips as possible.
    fn send(&mut self) -> Result<(), Down> {
        loop {
            let appends: Vec<Append> = {
                let inner = self.shared.inner();
                let dirty = inner.dirty.iter().filter_map(|id| Some((id, inner.lanes.get(id)?)));
                dirty.filter(|(_, lane)| lane.is_ready()).filter_map(|(id, lane)| lane.next_append(id)).collect()
            };
            if appends.is_empty() {
                return Ok(());
            }
            self.append(&appends)?;
        }
    }

    fn append(&mut self, appends: &[Append]) -> Result<(), Down> {
        if appends.is_empty() {
            return Ok(());
        }
        let answers = self.tier.append(appends, LEASE)?;
        let mut inner = self.shared.inner();
        for (append, answer) in appends.iter().zip(answers) {
            if let Some(news) = inner.appended(append, answer) {
                let _ = self.news.send(news);
            }
        }
        Ok(())
    }

    /// Shortens what the tier has, gives up leases, removes sessions.
    fn tidy(&mut self) -> Result<(), Down> {
        let dirty: Vec<SessionId> = {
            let Inner { dirty, lanes, .. } = &mut *self.shared.inner();
            // What was queued since the last append stays for the next round.
            dirty.extract_if(|id| !lanes.get(id).is_some_and(Lane::is_ready)).collect()
        };
        for session_id in dirty {
            let (claim, rest, is_removed, is_closing) = {
                let mut inner = self.shared.inner();
                let Some(lane) = inner.lanes.get_mut(&session_id) else { continue };
                let is_closing = lane.is_closing && lane.is_empty();
                (lane.claim.clone(), lane.take_rest(), lane.is_removed, is_closing)
            };
            if is_removed {
                self.tier.remove(&session_id, &claim)?;
                self.shared.inner().drop_lane(&session_id, &claim);
                continue;
            }
            if let Some(rest) = rest {
                self.tier.rest(&session_id, &claim, &rest.json)?;
            }
            if is_closing {
                self.tier.release(&session_id, &claim)?;
                self.shared.inner().end_lane(&session_id);
            }
        }
        Ok(())
    }

    /// The last act. What could not be sent is in this node's journal and is sent after its next start.
    fn finish(mut self) {
        let claims: Vec<(SessionId, Claim)> = {
            let mut inner = self.shared.inner();
            inner.lanes.values_mut().for_each(|lane| lane.answer_all(&Settled::Moved));
            inner.lanes.iter().map(|(id, lane)| (id.clone(), lane.claim.clone())).collect()
        };
        for (session_id, claim) in claims {
            if self.retry_at.is_some() || self.tier.release(&session_id, &claim).is_err() {
                return;
            }
        }
        let _ = self.tier.leave(&self.node.name);
    }
}

impl Inner {
    /// What follows from the answer to an append.
    fn appended(&mut self, append: &Append, answer: Appended) -> Option<Moved> {
        let session_id = &append.session_id;
        // The lane may have been replaced while the append was on its way.
        let lane = self.lanes.get_mut(session_id).filter(|lane| lane.claim == append.claim)?;
        match answer {
            Ok(()) => {
                self.queued_bytes -= lane.appended(append);
                None
            }
            Err(Refusal::Apart(head)) => {
                let (rewind, change) = lane.meet(&head);
                self.queued_bytes = self.queued_bytes.saturating_add_signed(change);
                self.dirty.insert(session_id.clone());
                match rewind {
                    Rewind::Done => None,
                    Rewind::NeedsState => {
                        self.queued_bytes -= lane.drop_queue();
                        Some(Moved::Reclaim(session_id.clone()))
                    }
                    Rewind::Apart => self.lose(session_id),
                }
            }
            // The tier has lost the session: it came back empty.
            Err(Refusal::Fenced(None)) => {
                self.queued_bytes -= lane.drop_queue();
                Some(Moved::Reclaim(session_id.clone()))
            }
            Err(Refusal::Fenced(Some(_))) => self.lose(session_id),
        }
    }

    /// Another node owns the session.
    fn lose(&mut self, session_id: &SessionId) -> Option<Moved> {
        let mut lane = self.lanes.remove(session_id)?;
        self.queued_bytes -= lane.drop_queue();
        lane.answer_all(&Settled::Moved);
        Some(Moved::Away(session_id.clone()))
    }

    fn drop_lane(&mut self, session_id: &SessionId, claim: &Claim) {
        if self.lanes.get(session_id).is_some_and(|lane| lane.claim == *claim)
            && let Some(mut lane) = self.lanes.remove(session_id)
        {
            self.queued_bytes -= lane.drop_queue();
            lane.answer_all(&Settled::Kept);
        }
    }

    /// Ends a lane whose lease was given up, unless its session was used again meanwhile.
    fn end_lane(&mut self, session_id: &SessionId) {
        if self.lanes.get(session_id).is_some_and(|lane| lane.is_closing && lane.is_empty()) {
            self.lanes.remove(session_id);
        }
    }
}
