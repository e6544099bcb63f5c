//! Admission: work beyond what the machine can take waits in one fair queue of the node, or is rejected.
//!
//! A command needs a [`Ticket`] to run. There are two limits. One is on *running* commands, because of memory. The
//! other is on *young* commands, which have run for less than [`YOUNG`]: a flood of short commands keeps the processors
//! busy and no more, while hundreds of commands that wait for something else run at the same time, because they are
//! young only briefly. A command that waits for the store is not young meanwhile. One agent does not get all the places for young commands while others are active. If no
//! command waits, a ticket costs a lock and a push. Only while one waits is there a timer, one for all, for the moment
//! when the oldest young command is no longer young; it also ends waits that were too long.

mod capacity;
mod counts;
mod fair_notify;
mod fair_queue;

pub use capacity::{ABOUT, YOUNG};
pub use fair_notify::{FairNotify, Notified};
pub use fair_queue::FairQueue;

use crate::ops::{OpError, RunError};
use crate::sync::lock;
use crate::tasks;
use capacity::Capacity;
use counts::Counts;
use shellkeep_session::SessionMeta;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Young commands for each core: one that runs, and one to follow while we handle the first one's result.
pub const YOUNG_PER_CORE: usize = 2;
/// Cores that a flood of one agent's short commands leaves to others while they are active.
pub const CORES_FOR_OTHERS: usize = 1;
/// Commands that may run per core, whatever the pressure. Most long commands wait for something, and must not be
/// blocked because others compute.
pub const LEAST_RUNNING_PER_CORE: usize = 16;
/// The shortest `Retry-After`; with a shorter one, clients would hammer the daemon.
const LEAST_RETRY: Duration = Duration::from_secs(1);
/// The longest; more than a minute cannot be predicted.
const MOST_RETRY: Duration = Duration::from_secs(60);
/// How many turns the average time between two turns remembers.
const PACE_MEMORY: u32 = 8;

/// How admission is set up.
#[derive(Debug, Clone)]
pub struct AdmissionConfig {
    /// Most commands that may wait on the node.
    pub queue_length: usize,
    /// The longest a command waits, if its own timeout is not shorter.
    pub queue_wait: Duration,
    /// Whatever the pressure, this many commands may run if there are shells for them: the lower bound of the limit
    /// that [`Admission::set_running_limit`] is given.
    pub min_running: usize,
    /// Most commands that may be young at once.
    pub young: usize,
    /// Most of those for one agent while others are active.
    pub young_of_one: usize,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            queue_length: 10_000,
            queue_wait: Duration::from_secs(30),
            min_running: LEAST_RUNNING_PER_CORE * cores,
            young: YOUNG_PER_CORE * cores,
            young_of_one: cores.saturating_sub(CORES_FOR_OTHERS).max(1),
        }
    }
}

/// The state of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionFigures {
    /// Commands that run.
    pub running: usize,
    /// Those of them that are young.
    pub young: usize,
    /// Commands that wait.
    pub waiting: usize,
    /// How many may run.
    pub running_limit: usize,
    /// Agents whose commands wait.
    pub agents_waiting: usize,
    /// Commands started so far.
    pub commands_total: u64,
}

/// The agent for whom a session's commands wait; the session's own name if it has none.
pub fn agent_of(meta: &SessionMeta) -> Arc<str> {
    Arc::from(meta.agent.as_deref().unwrap_or(meta.session_id.as_str()))
}

/// The admission of a node.
pub struct Admission {
    config: AdmissionConfig,
    state: Mutex<State>,
    begun: AtomicU64,
    counts: Counts,
}

struct State {
    capacity: Capacity,
    queue: FairQueue<Entry>,
    /// When those in the queue expire.
    deadlines: BTreeMap<(Instant, u64), Arc<str>>,
    next_number: u64,
    is_timed: bool,
    pace: Pace,
    /// The length of the queue, for the metrics.
    published: usize,
    is_closed: bool,
}

/// A waiting command.
struct Entry {
    agent: Arc<str>,
    answer: oneshot::Sender<Result<Ticket, OpError>>,
    since: Instant,
    deadline: (Instant, u64),
}

/// An answer for a waiting command. Sent without the lock: a ticket that is not received is returned when dropped.
struct Verdict {
    answer: oneshot::Sender<Result<Ticket, OpError>>,
    verdict: Result<Ticket, OpError>,
}

/// The answer to a request for a ticket.
pub enum Asked {
    /// It may run.
    Granted(Ticket),
    /// It waits.
    Waits(Waiter),
}

/// The right to run one command; released when dropped.
pub struct Ticket {
    gate: Arc<Admission>,
    number: u64,
}

impl Ticket {
    /// Waits for the store. Meanwhile the command uses no processor, so another may be young in its place.
    pub async fn aside<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await {
            return done;
        }
        self.gate.suspend(self.number);
        let done = wait.await;
        self.number = self.gate.resume(self.number);
        done
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.gate.give_back(self.number);
    }
}

/// A place in the queue; released on drop.
pub struct Waiter {
    gate: Arc<Admission>,
    agent: Arc<str>,
    number: u64,
    since: Instant,
    answer: oneshot::Receiver<Result<Ticket, OpError>>,
}

impl Waiter {
    /// Waits for the ticket or a refusal. May be dropped and called again until it has answered.
    pub async fn turn(&mut self) -> Result<Ticket, OpError> {
        // Every entry gets an answer before it is dropped.
        (&mut self.answer).await.unwrap_or(Err(RunError::ShuttingDown.into()))
    }

    /// Why it is not running yet, as an error.
    pub fn overloaded(&self) -> OpError {
        self.gate.lock().overloaded(&self.gate.config, self.since, Instant::now())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.gate.leave(&self.agent, self.number);
    }
}

impl Admission {
    /// An admission that lets at most `running_limit` commands run at once.
    pub fn new(config: AdmissionConfig, running_limit: usize) -> Arc<Self> {
        let state = State {
            capacity: Capacity::new(running_limit, config.young, config.young_of_one),
            queue: FairQueue::default(),
            deadlines: BTreeMap::new(),
            next_number: 0,
            is_timed: false,
            pace: Pace::default(),
            published: 0,
            is_closed: false,
        };
        Arc::new(Self { config, state: Mutex::new(state), begun: AtomicU64::new(0), counts: Counts::new() })
    }

    /// Asks for a ticket for one command of an agent. It waits if it must, but not beyond `expires`.
    pub fn ask(self: &Arc<Self>, agent: &Arc<str>, expires: Instant) -> Result<Asked, OpError> {
        let now = Instant::now();
        let mut verdicts = Vec::new();
        let mut state = self.lock();
        if let Some(ticket) = self.enter(&mut state, agent, now, &mut verdicts)? {
            self.tell(state, verdicts);
            return Ok(Asked::Granted(ticket));
        }
        if state.queue.len() >= self.config.queue_length {
            self.counts.refused.increment(1);
            let Some(entry) = state.queue.give_way(agent) else {
                let refusal = state.overloaded(&self.config, now, now);
                self.tell(state, verdicts);
                return Err(refusal);
            };
            verdicts.push(state.refusal(entry, &self.config, now));
        }
        let waiter = self.queue(&mut state, agent, now, expires);
        let needs_timer = !std::mem::replace(&mut state.is_timed, true);
        self.tell(state, verdicts);
        if needs_timer {
            tasks::spawn(Arc::clone(self).release_as_commands_age());
        }
        Ok(Asked::Waits(waiter))
    }

    /// Asks for a ticket for one command that must not wait.
    pub fn ask_now(self: &Arc<Self>, agent: &Arc<str>) -> Result<Ticket, OpError> {
        let now = Instant::now();
        let mut verdicts = Vec::new();
        let mut state = self.lock();
        let ticket = self.enter(&mut state, agent, now, &mut verdicts)?;
        let refusal = state.overloaded(&self.config, now, now);
        self.tell(state, verdicts);
        ticket.ok_or_else(|| {
            self.counts.refused.increment(1);
            refusal
        })
    }

    /// A command has started.
    pub fn begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.counts.begun.increment(1);
    }

    /// Changes how many may run, at least one. Running commands are not affected.
    pub fn set_running_limit(self: &Arc<Self>, limit: usize) {
        let mut verdicts = Vec::new();
        let mut state = self.lock();
        state.capacity.set_running_limit(limit);
        self.admit(&mut state, Instant::now(), &mut verdicts);
        self.tell(state, verdicts);
    }

    /// Rejects all waiting and new commands, because the daemon stops.
    pub fn close(&self) {
        let mut verdicts = Vec::new();
        let mut state = self.lock();
        state.is_closed = true;
        state.deadlines.clear();
        while let Some(Entry { answer, .. }) = state.queue.pop() {
            verdicts.push(Verdict { answer, verdict: Err(RunError::ShuttingDown.into()) });
        }
        self.tell(state, verdicts);
    }

    pub fn figures(&self) -> AdmissionFigures {
        let mut state = self.lock();
        AdmissionFigures {
            running: state.capacity.running(),
            young: state.capacity.young(Instant::now()),
            waiting: state.queue.len(),
            running_limit: state.capacity.running_limit(),
            agents_waiting: state.queue.agents(),
            commands_total: self.begun.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Admits a new command if there is a place for it that no waiting command could take. Commands that wait because
    /// their agent has its share are not overtaken by that.
    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        agent: &Arc<str>,
        now: Instant,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<Option<Ticket>, OpError> {
        if state.is_closed {
            return Err(RunError::ShuttingDown.into());
        }
        state.capacity.sees(agent, now);
        self.admit(state, now, verdicts);
        let is_free = !state.queue.has(agent) && state.capacity.is_open_for(agent, now);
        Ok(is_free.then(|| self.ticket(state, agent, now)))
    }

    fn ticket(self: &Arc<Self>, state: &mut State, agent: &Arc<str>, now: Instant) -> Ticket {
        let number = state.take_number();
        state.capacity.enter(number, agent, now);
        self.counts.running.increment(1.0);
        Ticket { gate: Arc::clone(self), number }
    }

    fn queue(self: &Arc<Self>, state: &mut State, agent: &Arc<str>, now: Instant, expires: Instant) -> Waiter {
        if state.queue.is_empty() {
            state.pace.begins(now);
        }
        let (answer, receiver) = oneshot::channel();
        let number = state.take_number();
        let deadline = (now.checked_add(self.config.queue_wait).map_or(expires, |limit| limit.min(expires)), number);
        state.deadlines.insert(deadline, Arc::clone(agent));
        state.queue.push(agent, number, Entry { agent: Arc::clone(agent), answer, since: now, deadline });
        Waiter { gate: Arc::clone(self), agent: Arc::clone(agent), number, since: now, answer: receiver }
    }

    /// Gives tickets in turn, as long as there is room.
    fn admit(self: &Arc<Self>, state: &mut State, now: Instant, verdicts: &mut Vec<Verdict>) {
        while !state.queue.is_empty() && state.capacity.is_open(now) {
            let next = state.queue.pop_if(|agent| state.capacity.is_open_for(agent, now));
            let Some(Entry { agent, answer, since, deadline }) = next else { return };
            state.deadlines.remove(&deadline);
            state.pace.turn(now);
            let ticket = self.ticket(state, &agent, now);
            self.counts.waited(now - since);
            verdicts.push(Verdict { answer, verdict: Ok(ticket) });
        }
    }

    fn tell(&self, mut state: MutexGuard<'_, State>, verdicts: Vec<Verdict>) {
        let waiting = state.queue.len();
        if std::mem::replace(&mut state.published, waiting) != waiting {
            self.counts.waiting.set(waiting as f64);
        }
        drop(state);
        for Verdict { answer, verdict } in verdicts {
            // If the receiver is gone, the ticket is dropped here and released.
            let _ = answer.send(verdict);
        }
    }

    fn give_back(self: &Arc<Self>, number: u64) {
        self.counts.running.decrement(1.0);
        let mut state = self.lock();
        state.capacity.leave(number);
        self.refill(state);
    }

    /// A place became free: those who wait take it.
    fn refill(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.queue.is_empty() {
            return;
        }
        let mut verdicts = Vec::new();
        self.admit(&mut state, Instant::now(), &mut verdicts);
        self.tell(state, verdicts);
    }

    fn suspend(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        state.capacity.suspend(number, Instant::now());
        self.refill(state);
    }

    /// The new number of a command that goes on.
    fn resume(self: &Arc<Self>, number: u64) -> u64 {
        let mut state = self.lock();
        let new = state.take_number();
        state.capacity.resume(number, new, Instant::now());
        self.refill(state);
        new
    }

    fn leave(&self, agent: &Arc<str>, number: u64) {
        let mut state = self.lock();
        if let Some(entry) = state.queue.remove(agent, number) {
            state.deadlines.remove(&entry.deadline);
            self.tell(state, Vec::new());
        }
    }

    /// Rejects those whose wait has expired.
    fn expire(&self, state: &mut State, now: Instant, verdicts: &mut Vec<Verdict>) {
        while let Some(first) = state.deadlines.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), agent) = first.remove_entry();
            let Some(entry) = state.queue.remove(&agent, number) else { continue };
            self.counts.refused.increment(1);
            self.counts.waited(now - entry.since);
            verdicts.push(state.refusal(entry, &self.config, now));
        }
    }

    /// The timer, for as long as a command waits.
    async fn release_as_commands_age(self: Arc<Self>) {
        while let Some(at) = self.next_of_age() {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Gives places that became free to waiting commands, ends expired waits, and returns when to check again. A
    /// command that starts later is young for longer, so nothing in between can need an earlier check.
    fn next_of_age(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        let mut verdicts = Vec::new();
        let mut state = self.lock();
        self.admit(&mut state, now, &mut verdicts);
        self.expire(&mut state, now, &mut verdicts);
        let next = (!state.queue.is_empty()).then(|| state.capacity.next_of_age().unwrap_or(now + YOUNG));
        state.is_timed = next.is_some();
        self.tell(state, verdicts);
        next
    }
}

impl State {
    fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Rejects a command that has just left the queue.
    fn refusal(&mut self, entry: Entry, config: &AdmissionConfig, now: Instant) -> Verdict {
        self.deadlines.remove(&entry.deadline);
        Verdict { answer: entry.answer, verdict: Err(self.overloaded(config, entry.since, now)) }
    }

    fn overloaded(&self, config: &AdmissionConfig, since: Instant, now: Instant) -> OpError {
        let waiting = self.queue.len();
        OpError::Run(RunError::Overloaded {
            waiting,
            limit: config.queue_length,
            waited: now - since,
            retry_after: self.pace.for_so_many(waiting, now),
        })
    }
}

/// How fast the queue moves.
#[derive(Debug, Default)]
struct Pace {
    between: Duration,
    last: Option<Instant>,
}

impl Pace {
    fn begins(&mut self, now: Instant) {
        self.last = Some(now);
    }

    fn turn(&mut self, now: Instant) {
        let since = self.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        self.between = (self.between * (PACE_MEMORY - 1) + since) / PACE_MEMORY;
    }

    /// About how long this many turns take.
    fn for_so_many(&self, turns: usize, now: Instant) -> Duration {
        let stuck_for = self.last.map_or(Duration::ZERO, |last| now - last);
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        self.between.max(stuck_for).saturating_mul(turns).clamp(LEAST_RETRY, MOST_RETRY)
    }
}

#[cfg(test)]
mod tests;
