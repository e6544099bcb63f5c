//! The thread that uses the tier: it renews leases, sends what lanes have queued unless a task does, and tries again when the
//! tier was away.

use crate::LEASE;
use crate::admit::check_name;
use crate::given;
use crate::lane::{Lane, Line, Settled};
use crate::lanes::{Ask, Closing, Lanes, Moved, Shared};
use crate::note_file::Unwritten;
use crate::tier::{AgentService, Append, Down, NodeEntry, Tier};
use shellkeep_session::SessionId;
use shellkeep_session::ownership::Claim;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often leases are renewed: twice before they end, whatever happens to one of them.
const BEAT: Duration = Duration::from_millis(1500);

/// Pauses between attempts to reach an unreachable tier.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long the thread appends before it tries again to make a pipe: trying takes time that appends wait for.
const NEXT_PIPE: Duration = Duration::from_secs(30);

/// How long a turn of the task may last: longer than a server may be silent.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// The thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    tier: Box<dyn Tier>,
    node: NodeEntry,
    beat_at: Instant,
    /// When to try an unreachable tier again.
    retry_at: Option<Instant>,
    pause: Duration,
    /// Where the task runs that appends; none if it has nothing to append on.
    runtime: Option<Handle>,
    /// How often the tier had been connected when it was last asked for a pipe, and when it is asked again.
    pipe_of: u64,
    pipe_at: Instant,
}

impl Worker {
    /// A thread that has not begun.
    pub(crate) fn new(shared: Arc<Shared>, tier: Box<dyn Tier>, node: NodeEntry, runtime: Option<Handle>) -> Self {
        let (now, retry_at, pause) = (Instant::now(), None, FIRST_PAUSE);
        Self { shared, tier, node, beat_at: now, retry_at, pause, runtime, pipe_of: 0, pipe_at: now }
    }

    /// Serves the lanes until they are closed.
    pub(crate) fn run(mut self) {
        loop {
            let (asks, closing) = self.wait();
            self.begin_turn();
            self.look_again();
            self.answer(asks);
            if self.retry_at.is_none()
                && let Err(down) = self.work(closing.is_some())
            {
                self.went_down(down);
            }
            self.end_turn();
            let emptied = self.write_notes();
            let doubts = self.tier.connections() + self.shared.gaps.load(Ordering::SeqCst) + emptied;
            self.shared.doubts.send_if_modified(|seen| std::mem::replace(seen, doubts) != doubts);
            if let Some(call) = self.shared.settled.get() {
                call();
            }
            let left = self.left();
            self.shared.count.send_if_modified(|count| std::mem::replace(count, left) != left);
            if let Some(closing) = closing {
                return self.finish(closing);
            }
        }
    }

    /// How many sessions are left. Others learn at once that a node which is drained has none.
    fn left(&self) -> usize {
        let mut lanes = self.shared.lanes();
        let left = lanes.count();
        lanes.has_news |= lanes.draining.is_free() && left == 0 && self.node.sessions != 0;
        left
    }

    fn work(&mut self, is_closing: bool) -> Result<(), Down> {
        self.beat()?;
        self.send(is_closing)?;
        self.tidy()?;
        self.pack()
    }

    /// Returns when there is something to do, with what the tier is asked.
    fn wait(&mut self) -> (Vec<Ask>, Option<Closing>) {
        let mut lanes = self.shared.lanes();
        loop {
            let next = lanes.to_pack.due_at().map_or(self.beat_at, |due_at| due_at.min(self.beat_at));
            let until = self.retry_at.unwrap_or(next);
            let left = until.saturating_duration_since(Instant::now());
            let can_send =
                self.retry_at.is_none() && (lanes.has_news || lanes.has_work_for_thread() || lanes.can_pack());
            if left.is_zero() || can_send || lanes.closing.is_some() || !lanes.asks.is_empty() {
                return (std::mem::take(&mut lanes.asks), lanes.closing);
            }
            lanes = self.shared.work.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the task does not use the tier.
    fn begin_turn(&mut self) {
        let mut lanes = self.shared.lanes();
        let until = Instant::now() + LONGEST_TURN;
        while !lanes.turns.begin_thread() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Its runtime is blocked, or ending.
                lanes.turns.begin_thread_anyway();
                break;
            }
            lanes = self.shared.work.wait_timeout(lanes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let silent = lanes.turns.take_silent();
        drop(lanes);
        if let Some(down) = silent {
            self.went_down(down);
        }
    }

    /// Lets the task use the tier, on a pipe to the server that this thread uses.
    fn end_turn(&mut self) {
        let connections = self.tier.connections();
        let has_pipe = {
            let mut lanes = self.shared.lanes();
            if self.pipe_of != connections || self.retry_at.is_some() {
                lanes.turns.drop_pipe();
            }
            lanes.turns.has_pipe() || lanes.closing.is_some() || !lanes.has_appender
        };
        let is_due = self.pipe_of != connections || self.pipe_at <= Instant::now();
        if !has_pipe && self.retry_at.is_none() && is_due {
            self.make_pipe(connections);
        }
        let mut lanes = self.shared.lanes();
        lanes.turns.end_thread();
        if lanes.turns.has_pipe() {
            self.shared.to_append.notify_one();
        }
    }

    fn make_pipe(&mut self, connections: u64) {
        let Some(runtime) = self.runtime.clone() else { return };
        let _in_runtime = runtime.enter();
        (self.pipe_of, self.pipe_at) = (connections, Instant::now() + BEAT);
        match self.tier.pipe() {
            // It may have been connected anew, and is asked again then.
            Ok(Some(pipe)) if self.tier.connections() == connections => self.shared.lanes().turns.set_pipe(pipe),
            Ok(Some(_)) => {}
            Ok(None) => self.runtime = None,
            Err(down) => {
                tracing::debug!(reason = down.reason, "there is no connection for appends; the thread sends them");
                self.pipe_at += NEXT_PIPE;
            }
        }
    }

    /// Tries a tier that was away, if it is time.
    fn look_again(&mut self) {
        if self.retry_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        // It counts as back when it takes what is written: one that is paused or full answers questions.
        let named = check_name(&mut *self.tier, &self.node);
        match named.and_then(|()| self.tier.beat(&self.node, LEASE)) {
            Err(down) => self.went_down(down),
            Ok(()) => {
                (self.retry_at, self.pause, self.beat_at) = (None, FIRST_PAUSE, Instant::now());
                tracing::info!("the shared store answers again; what it lacks is sent");
                let mut lanes = self.shared.lanes();
                lanes.down = None;
                self.shared.away.send_replace(false);
                lanes.dirty = lanes.all.keys().cloned().collect();
                for (session_id, _) in lanes.all.iter().filter(|(_, lane)| !lane.is_known()) {
                    let _ = self.shared.news.send(Moved::Reclaim(session_id.clone()));
                }
            }
        }
    }

    fn went_down(&mut self, down: Down) {
        let mut lanes = self.shared.lanes();
        if lanes.down.is_none() {
            tracing::warn!(reason = down.reason, "the shared store is unreachable; this node continues alone");
        }
        metrics::counter!("shellkeep_shared_failures_total").increment(1);
        lanes.tenure.went_away();
        let answer = Settled::HereOnly { reason: down.reason.clone() };
        lanes.down = Some(down);
        if lanes.is_over() {
            lanes.lose_all().into_iter().for_each(|moved| drop(self.shared.news.send(moved)));
        } else if !lanes.tenure.waits() {
            lanes.all.values_mut().for_each(|lane| lane.answer_all(&answer));
        }
        drop(lanes);
        self.shared.renewed.notify_waiters();
        self.shared.away.send_replace(true);
        self.retry_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn answer(&mut self, asks: Vec<Ask>) {
        for ask in asks {
            let down = self.shared.lanes().down.clone();
            let answered = match down {
                Some(down) => ask(Err(down)),
                None => ask(Ok(&mut *self.tier)),
            };
            // The others must learn it too, not only the one who asked.
            if let Err(down) = answered {
                self.went_down(down);
            }
        }
    }

    /// Tells that this node is alive, and renews the leases of sessions that have nothing to send.
    fn beat(&mut self) -> Result<(), Down> {
        if self.beat_at > Instant::now() && !self.shared.lanes().has_news {
            return Ok(());
        }
        let begun = Instant::now();
        let (renewals, services): (Vec<Append>, Vec<AgentService>) = {
            let mut lanes = self.shared.lanes();
            lanes.has_news = false;
            lanes.forget_slept(begun);
            (self.node.sessions, self.node.draining) = (lanes.count() as u64, lanes.draining.is_free());
            let idle = lanes.all.iter().filter(|(_, lane)| lane.is_empty() && !lane.is_closing);
            let renewals = idle.filter_map(|(session_id, lane)| lane.next_append(session_id)).collect();
            (renewals, lanes.services.iter().cloned().collect())
        };
        check_name(&mut *self.tier, &self.node)?;
        let incarnation = self.tier.incarnation(&given::new_name(&self.node.name))?;
        self.node.given = Some(self.shared.lanes().given.found(&incarnation));
        self.tier.beat(&self.node, LEASE)?;
        self.shared.told_empty.send_replace(self.node.draining && self.node.sessions == 0);
        self.append(&renewals)?;
        self.tier.renew_services(&services, LEASE)?;
        let (nodes, tokens) = (self.tier.nodes()?, Some(self.tier.tokens_version()?));
        self.shared.lanes().given.seen(&nodes);
        self.shared.tokens.send_if_modified(|seen| std::mem::replace(seen, tokens) != tokens);
        if self.shared.lanes().tenure.renewed(begun, nodes) {
            self.shared.gaps.fetch_add(1, Ordering::SeqCst);
        }
        self.shared.renewed.notify_waiters();
        self.beat_at = Instant::now() + BEAT;
        Ok(())
    }

    /// Sends what is queued, in one round trip. What is queued meanwhile waits for the next turn, as others wait for this one to
    /// end; if it is the last turn, it is sent too.
    fn send(&mut self, is_last: bool) -> Result<(), Down> {
        loop {
            self.shorten()?;
            let appends = self.shared.lanes().ready();
            self.append(&appends)?;
            if appends.is_empty() || !is_last {
                return Ok(());
            }
        }
    }

    fn append(&mut self, appends: &[Append]) -> Result<(), Down> {
        if appends.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let answers = self.tier.append(appends, LEASE)?;
        let mut lanes = self.shared.lanes();
        for (append, answer) in appends.iter().zip(answers) {
            if let Some(news) = lanes.appended(append, begun, answer) {
                let _ = self.shared.news.send(news);
            }
        }
        Ok(())
    }

    /// Shortens what the tier has of sessions.
    fn shorten(&mut self) -> Result<(), Down> {
        let rests: Vec<(SessionId, Claim, Line)> = {
            let lanes = self.shared.lanes();
            let dirty = lanes.dirty.iter().filter_map(|id| Some((id, lanes.all.get(id)?)));
            dirty.filter_map(|(id, lane)| Some((id.clone(), lane.claim.clone(), lane.rest()?.clone()))).collect()
        };
        for (session_id, claim, rest) in rests {
            self.tier.rest(&session_id, &claim, rest.seq, &rest.json)?;
            if let Some(lane) = self.shared.lanes().all.get_mut(&session_id) {
                lane.rested(rest.seq);
            }
        }
        Ok(())
    }

    /// Gives up leases.
    fn tidy(&mut self) -> Result<(), Down> {
        let dirty: Vec<SessionId> = {
            let Lanes { dirty, all, .. } = &mut *self.shared.lanes();
            // What was queued since the last append stays for the next turn, as does what the tier can be shortened by now.
            let has_more = |lane: &Lane| lane.is_ready() || lane.rest().is_some();
            dirty.extract_if(|id| !all.get(id).is_some_and(has_more)).collect()
        };
        for session_id in dirty {
            let (claim, is_closing) = {
                let lanes = self.shared.lanes();
                let Some(lane) = lanes.all.get(&session_id) else { continue };
                (lane.claim.clone(), lane.is_closing && lane.is_empty())
            };
            if is_closing {
                let for_good = self.shared.lanes().draining.is_free();
                self.tier.release(&session_id, &claim, for_good)?;
                self.shared.lanes().end_lane(&session_id);
            }
        }
        Ok(())
    }

    /// Packs a session that sleeps, one at a time, so that nobody waits for many.
    fn pack(&mut self) -> Result<(), Down> {
        let next = self.shared.lanes().next_to_pack();
        let Some((session_id, claim)) = next else { return Ok(()) };
        let begun = Instant::now();
        let packed = self.tier.pack(&session_id, &claim);
        self.shared.lanes().to_pack.packed(begun, Instant::now());
        match packed {
            Err(down) if down.answers => {
                tracing::error!(session = %session_id, reason = down.reason, "a session that sleeps cannot be packed");
                Ok(())
            }
            Err(down) => {
                self.shared.lanes().to_pack.add(&session_id, claim);
                Err(down)
            }
            Ok(()) => Ok(()),
        }
    }

    /// The last act. What could not be sent is in this node's journal and is sent after its next start.
    fn finish(mut self, closing: Closing) {
        let claims: Vec<(SessionId, Claim)> = {
            let mut lanes = self.shared.lanes();
            lanes.all.values_mut().for_each(|lane| lane.answer_all(&Settled::Moved));
            lanes.all.iter().map(|(id, lane)| (id.clone(), lane.claim.clone())).collect()
        };
        if closing == Closing::Restart {
            return self.renew_all();
        }
        for (session_id, claim) in claims {
            if self.retry_at.is_some() || self.tier.release(&session_id, &claim, true).is_err() {
                return;
            }
        }
        let _ = self.tier.leave(&self.node.name);
    }

    /// Begins the node's place in the list anew, and its leases, so that they last until the node is back.
    fn renew_all(mut self) {
        self.beat_at = Instant::now();
        if self.retry_at.is_none()
            && let Err(down) = self.beat()
        {
            tracing::warn!(reason = down.reason, "leases could not be renewed before the restart");
        }
        self.write_notes();
    }

    /// Writes down what changed of the other nodes: their names, and which of them have given the tier their sessions. Returns
    /// how often the tier was emptied.
    fn write_notes(&self) -> u64 {
        let (emptied, unwritten) = {
            let Lanes { given, tenure, .. } = &mut *self.shared.lanes();
            (given.emptied(), [given.unwritten(), tenure.unwritten()])
        };
        unwritten.into_iter().flatten().for_each(Unwritten::write);
        emptied
    }
}
