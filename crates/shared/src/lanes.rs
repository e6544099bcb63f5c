//! All lanes of a node, and what waits for the thread that serves them.

use crate::LEASE;
use crate::given::Given;
use crate::lane::{Lane, Rewind, Settled, Unclaimed};
use crate::tenure::Tenure;
use crate::tier::{AgentService, Append, Appended, Down, ForkNote, Tier};
use crate::to_pack::ToPack;
use crate::turns::Turns;
use shellkeep_session::SessionId;
use shellkeep_session::ownership::{Claim, Refusal};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// How long the last records of a session that sleeps are kept in case the tier loses them, and at how many queued bytes they
/// are not: a replica is a few seconds behind at most.
const SLEPT: Duration = Duration::from_secs(300);
const MOST_SLEPT: usize = MOST_QUEUED / 4;

/// What the node must do for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// Another node owns it, or may soon: end everything of it here. The claim is the owner's, if it is known.
    Away(SessionId, Option<Claim>),
    /// The tier lacks records that are no longer at hand: claim it again and give its state.
    Reclaim(SessionId),
    /// Other nodes wrote what is not part of it: record that.
    Forked(SessionId, Vec<ForkNote>),
}

/// Bytes of records that wait for the tier, of all sessions. Of a session that would be beyond it only the state is sent
/// when the tier is back; its records stay on this node.
pub(crate) const MOST_QUEUED: usize = 64 * 1024 * 1024;

/// A question to the tier. Returns that the tier is down if it found out.
pub(crate) type Ask = Box<dyn FnOnce(Result<&mut dyn Tier, Down>) -> Result<(), Down> + Send>;

/// How far the node is with being drained.
#[derive(Debug)]
pub(crate) enum Draining {
    /// It is not drained.
    No,
    /// It takes no more sessions. Services of these still run here, so nobody else may take what sleeps.
    Serving(HashSet<SessionId>),
    /// Others may take what this node does not work with.
    Free,
}

impl Draining {
    /// The sessions that services still run of.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &SessionId> {
        let serving = if let Self::Serving(ids) = self { Some(ids) } else { None };
        serving.into_iter().flatten()
    }

    /// Whether others may take what this node does not work with.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }
}

/// Why a node closes its ship.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It stops: other nodes may take its sessions at once.
    Stop,
    /// It is back in a moment, and what it runs may go on meanwhile: it keeps its leases, and other nodes wait for it.
    Restart,
}

/// All lanes, and what the thread is asked to do.
pub(crate) struct Lanes {
    pub(crate) all: HashMap<SessionId, Lane>,
    /// How many lanes have ended, for those who wait until the node lets go of a session.
    pub(crate) ended: watch::Sender<u64>,
    /// Sessions whose lanes have something to do.
    pub(crate) dirty: HashSet<SessionId>,
    /// Records of sessions that are not claimed yet, or that another node took.
    pub(crate) unclaimed: HashMap<SessionId, Unclaimed>,
    pub(crate) queued_bytes: usize,
    pub(crate) to_pack: ToPack,
    pub(crate) asks: Vec<Ask>,
    /// Who uses the tier.
    pub(crate) turns: Turns,
    /// Whether there is a task that appends, if it is given a pipe.
    pub(crate) has_appender: bool,
    /// Services of agents that run here and are counted.
    pub(crate) services: HashSet<AgentService>,
    pub(crate) down: Option<Down>,
    /// How long the node serves while the tier is down.
    pub(crate) tenure: Tenure,
    /// Which nodes have given the tier their sessions.
    pub(crate) given: Given,
    /// Whether the node takes no more sessions.
    pub(crate) draining: Draining,
    /// What the node tells of itself has changed.
    pub(crate) has_news: bool,
    /// Why the ship is closed, if it is.
    pub(crate) closing: Option<Closing>,
}

/// What the thread and its users share.
pub(crate) struct Shared {
    lanes: Mutex<Lanes>,
    /// There is something for the thread.
    pub(crate) work: Condvar,
    /// There may be something for the task that appends.
    pub(crate) to_append: Notify,
    /// How many lanes there are, for those who wait until there are none.
    pub(crate) count: watch::Sender<usize>,
    /// Whether other nodes were told that this one is drained and has no session.
    pub(crate) told_empty: watch::Sender<bool>,
    /// Whether the node is drained, and others may take what it does not work with.
    pub(crate) freed: watch::Sender<bool>,
    /// Changes when this node's sessions may have been taken without its knowledge, or the tier may lack them: how often it was
    /// connected, how often it was emptied, and how often a renewal came too late.
    pub(crate) doubts: watch::Sender<u64>,
    /// How often a renewal came too late, and how many of these times all sessions have been looked at since.
    pub(crate) gaps: AtomicU64,
    pub(crate) looked: AtomicU64,
    /// Told when the leases were renewed, and when the tier is found to be unreachable.
    pub(crate) renewed: Notify,
    /// The number that changes with the tokens, once it is known.
    pub(crate) tokens: watch::Sender<Option<u64>>,
    /// Whether the tier is unreachable.
    pub(crate) away: watch::Sender<bool>,
    /// What the node must do.
    pub(crate) news: mpsc::UnboundedSender<Moved>,
    /// What to call when records were sent.
    pub(crate) settled: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub(crate) fn new(tenure: Tenure, given: Given, news: mpsc::UnboundedSender<Moved>) -> Self {
        let lanes = Mutex::new(Lanes::new(tenure, given));
        let (count, away) = (watch::Sender::new(0), watch::Sender::new(false));
        let (doubts, tokens) = (watch::Sender::new(0), watch::Sender::new(None));
        Self {
            lanes,
            work: Condvar::new(),
            to_append: Notify::new(),
            count,
            told_empty: watch::Sender::new(false),
            freed: watch::Sender::new(false),
            doubts,
            gaps: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            renewed: Notify::new(),
            tokens,
            away,
            news,
            settled: OnceLock::new(),
        }
    }

    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are records to send.
    pub(crate) fn has_records(&self, lanes: &Lanes) {
        match lanes.turns.has_pipe() {
            true => self.to_append.notify_one(),
            false => self.work.notify_one(),
        }
    }

    /// Waits until the tier has a record, is unreachable, or says that the session is another's.
    pub(crate) async fn settled(&self, session_id: &SessionId, seq: u64) -> Settled {
        let waiting = {
            let mut lanes = self.lanes();
            if lanes.is_over() {
                let _ = lanes.lose(session_id, None).map(|moved| self.news.send(moved));
                return Settled::Moved;
            }
            let away = lanes.down.as_ref().filter(|_| !lanes.tenure.waits()).map(|down| down.reason.clone());
            let lane = lanes.all.get_mut(session_id);
            if let Some(reason) = away {
                lane.into_iter().for_each(|lane| lane.tell(seq));
                return Settled::HereOnly { reason };
            }
            let Some(lane) = lane else { return Settled::Moved };
            if lane.has(seq) {
                lane.tell(seq);
                return Settled::Kept;
            }
            let (answer, waiting) = oneshot::channel();
            lane.wait(seq, answer);
            waiting
        };
        waiting.await.unwrap_or(Settled::Moved)
    }

    /// Asks the tier, on the thread that uses it. At once [`Down`] while it is unreachable, and when the node is stopping. The
    /// question is asked whether or not the answer is waited for.
    pub(crate) fn ask<T, F>(&self, question: F) -> impl Future<Output = Result<T, Down>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Tier) -> Result<T, Down> + Send + 'static,
    {
        let (answer, waiting) = oneshot::channel();
        let ask: Ask = Box::new(move |tier| {
            let was_up = tier.is_ok();
            let answered = tier.and_then(question);
            let found = answered.as_ref().err().filter(|down| was_up && !down.answers).cloned();
            drop(answer.send(answered));
            found.map_or(Ok(()), Err)
        });
        let mut lanes = self.lanes();
        match lanes.down.clone() {
            // The thread answers what was asked before it was told to end, and nothing after that.
            None if lanes.closing.is_some() => {}
            None => {
                lanes.asks.push(ask);
                self.work.notify_one();
            }
            // The thread may be waiting for the tier at this moment.
            Some(down) => {
                drop(lanes);
                drop(ask(Err(down)));
            }
        }
        async { waiting.await.unwrap_or_else(|_| Err(Down::new("the node is stopping"))) }
    }
}

impl Lanes {
    fn new(tenure: Tenure, given: Given) -> Self {
        Self {
            all: HashMap::new(),
            ended: watch::Sender::new(0),
            dirty: HashSet::new(),
            unclaimed: HashMap::new(),
            queued_bytes: 0,
            to_pack: ToPack::default(),
            asks: Vec::new(),
            turns: Turns::default(),
            has_appender: false,
            services: HashSet::new(),
            down: None,
            tenure,
            given,
            draining: Draining::No,
            has_news: false,
            closing: None,
        }
    }

    /// The next append of each lane that has something to send and needs nothing else before.
    pub(crate) fn ready(&self) -> Vec<Append> {
        let dirty = self.dirty.iter().filter_map(|id| Some((id, self.all.get(id)?)));
        let ready = dirty.filter(|(_, lane)| lane.is_ready() && lane.rest().is_none());
        ready.filter_map(|(id, lane)| lane.next_append(id)).collect()
    }

    /// Whether a lane needs something that the task does not do.
    pub(crate) fn is_for_thread(&self, session_id: &SessionId) -> bool {
        let needs = |lane: &Lane| lane.rest().is_some() || (lane.is_closing && lane.is_empty());
        self.all.get(session_id).is_some_and(needs)
    }

    /// A session to be packed, if it is time. One that was woken meanwhile is left as it is.
    pub(crate) fn next_to_pack(&mut self) -> Option<(SessionId, Claim)> {
        while self.can_pack()
            && let Some(next) = self.to_pack.take()
        {
            if !self.all.contains_key(&next.0) {
                return Some(next);
            }
        }
        None
    }

    /// Whether a session can be packed: nobody waits for the tier, or it has waited for long enough.
    pub(crate) fn can_pack(&self) -> bool {
        let is_quiet = || self.asks.is_empty() && !self.dirty.iter().any(|id| self.is_dirty(id));
        self.to_pack.due_at().is_some_and(|at| at <= Instant::now() || is_quiet())
    }

    fn is_dirty(&self, session_id: &SessionId) -> bool {
        self.all.get(session_id).is_some_and(Lane::is_ready) || self.is_for_thread(session_id)
    }

    /// Whether the thread has something to do with lanes.
    pub(crate) fn has_work_for_thread(&self) -> bool {
        match self.turns.has_pipe() {
            true => self.dirty.iter().any(|id| self.is_for_thread(id)),
            false => !self.dirty.is_empty(),
        }
    }

    /// Lanes that have nothing more to do after their appends.
    pub(crate) fn clean(&mut self, appends: &[Append]) {
        for Append { session_id, .. } in appends {
            if !self.is_dirty(session_id) {
                self.dirty.remove(session_id);
            }
        }
    }

    /// How many sessions the node works with, or still has services of.
    pub(crate) fn count(&self) -> usize {
        self.all.len() + self.draining.serving().filter(|id| !self.all.contains_key(id)).count()
    }

    /// When other nodes may take a session of this node if nothing is renewed from now on; never if there are no others.
    pub(crate) fn serves_until(&self, session_id: &SessionId) -> Option<Instant> {
        let lease = self.all.get(session_id).filter(|_| self.down.is_none()).and_then(|lane| lane.leased_until);
        lease.or_else(|| self.tenure.stops_at())
    }

    /// Whether other nodes may take this node's sessions: it cannot reach the tier, and its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.down.is_some() && self.tenure.is_over()
    }

    /// Lets go of all sessions, because other nodes may take them.
    pub(crate) fn lose_all(&mut self) -> Vec<Moved> {
        let all: Vec<SessionId> = self.all.keys().cloned().collect();
        if !all.is_empty() {
            tracing::warn!(sessions = all.len(), "this node is cut off from the shared store and ends its sessions");
        }
        all.iter().filter_map(|id| self.lose(id, None)).collect()
    }

    /// What follows from the answer to an append that was sent at `begun` or later.
    pub(crate) fn appended(&mut self, append: &Append, begun: Instant, answer: Appended) -> Option<Moved> {
        let session_id = &append.session_id;
        // The lane may have been replaced while the append was on its way.
        let lane = self.all.get_mut(session_id).filter(|lane| lane.claim == append.claim)?;
        match answer {
            Ok(forks) => {
                lane.leased_until = Some(begun + LEASE);
                self.queued_bytes -= lane.appended(append);
                let new = lane.new_forks(forks);
                (!new.is_empty()).then(|| Moved::Forked(session_id.clone(), new))
            }
            Err(Refusal::Apart(head)) => {
                let (rewind, change) = lane.meet(&append.after, &head);
                self.queued_bytes = self.queued_bytes.saturating_add_signed(change);
                self.dirty.insert(session_id.clone());
                match rewind {
                    Rewind::Done => None,
                    Rewind::NeedsState => {
                        self.queued_bytes -= lane.drop_queue();
                        Some(Moved::Reclaim(session_id.clone()))
                    }
                    Rewind::Apart => self.lose(session_id, head.last.at.clone()),
                }
            }
            Err(Refusal::Fenced(Some(owner))) if owner != append.claim => self.lose(session_id, Some(owner)),
            // The tier has lost the session: it came back empty. Or the session was removed under its claim, as with a renewal that
            // was due while this node deleted it: nothing has taken it from here.
            Err(Refusal::Fenced(_)) => {
                self.queued_bytes -= lane.drop_queue();
                // It has lost this node too.
                self.has_news = true;
                Some(Moved::Reclaim(session_id.clone()))
            }
        }
    }

    fn end(&mut self, session_id: &SessionId) -> Option<Lane> {
        let lane = self.all.remove(session_id)?;
        self.ended.send_modify(|ended| *ended += 1);
        Some(lane)
    }

    /// Another node owns the session, or may soon. What this node wrote last is kept until it is clear whether the session
    /// has it.
    pub(crate) fn lose(&mut self, session_id: &SessionId, owner: Option<Claim>) -> Option<Moved> {
        let mut lane = self.end(session_id)?;
        lane.answer_all(&Settled::Moved);
        self.queued_bytes -= lane.queued_bytes();
        let mut left = lane.into_unclaimed();
        if self.queued_bytes + left.bytes() > MOST_QUEUED {
            left.lines.clear();
        }
        self.queued_bytes += left.bytes();
        self.unclaimed.insert(session_id.clone(), left);
        Some(Moved::Away(session_id.clone(), owner))
    }

    /// The session was deleted here.
    pub(crate) fn forget(&mut self, session_id: &SessionId) {
        let unsent = self.unclaimed.remove(session_id).unwrap_or_default();
        self.queued_bytes -= unsent.bytes();
        if let Some(mut lane) = self.end(session_id) {
            self.queued_bytes -= lane.drop_queue();
            lane.answer_all(&Settled::Kept);
        }
    }

    /// Ends a lane whose lease was given up, unless its session was used again meanwhile.
    pub(crate) fn end_lane(&mut self, session_id: &SessionId) {
        let Some(lane) = self.all.get(session_id).filter(|lane| lane.is_closing && lane.is_empty()) else { return };
        let bytes: usize = lane.lines().map(|line| line.json.len()).sum();
        let Some(lane) = self.end(session_id) else { return };
        self.to_pack.add(session_id, lane.claim.clone());
        if self.queued_bytes + bytes <= MOST_SLEPT {
            self.queued_bytes += bytes;
            let slept = Unclaimed { slept_at: Some(Instant::now()), ..lane.into_unclaimed() };
            self.unclaimed.insert(session_id.clone(), slept);
        }
    }

    /// Forgets the last records of sessions that have slept for a while.
    pub(crate) fn forget_slept(&mut self, now: Instant) {
        let is_old =
            |slept: &Unclaimed| slept.slept_at.is_some_and(|since| now.saturating_duration_since(since) > SLEPT);
        let forgotten = self.unclaimed.extract_if(|_, unclaimed| is_old(unclaimed));
        self.queued_bytes -= forgotten.map(|(_, unclaimed)| unclaimed.bytes()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Remembered, WhenAlone};
    use shellkeep_session::ownership::Point;

    /// The bug: a deletion removes the session from the shared store before it ends the lane, and a renewal that came in between was
    /// answered with this node's own claim. The session was taken for another node's, with a warning that said so.
    #[test]
    fn a_session_that_was_removed_under_its_own_claim_is_no_other_node_s() {
        let (own, other): (Claim, Claim) = ("1.n1.x".parse().unwrap(), "2.n2.y".parse().unwrap());
        let id = SessionId::parse("s").unwrap();
        let remembered = Remembered::default();
        let given = Given::at(remembered.given_file(), "n1");
        let mut lanes = Lanes::new(Tenure::new("n1", WhenAlone::Serve, remembered), given);
        lanes.all.insert(id.clone(), Lane::new(own.clone(), 1, Some(Point::default())));
        let (session_id, claim, after) = (id.clone(), own.clone(), Point::default());
        let renewal = Append { session_id, claim, after, from: 1, first: 1, through: 0, lines: Vec::new() };
        let mut answered =
            |owner: &Claim| lanes.appended(&renewal, Instant::now(), Err(Refusal::Fenced(Some(owner.clone()))));
        assert_eq!(answered(&own), Some(Moved::Reclaim(id.clone())));
        assert_eq!(answered(&other), Some(Moved::Away(id, Some(other.clone()))));
    }
}
