//! How many commands may run, how many of them may be young, and how many of those may be one agent's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A command counts as young for this long. Most commands are done by then; for the others, the machine's scheduler
/// does better than we could.
pub const YOUNG: Duration = Duration::from_millis(20);
/// An agent is active for this long after a request, and others leave it its share of the machine.
pub const ABOUT: Duration = Duration::from_secs(10);

/// How much may run, and what does.
pub(super) struct Capacity {
    running: usize,
    running_limit: usize,
    /// Oldest first.
    young: VecDeque<YoungCommand>,
    young_limit: usize,
    young_of_one: usize,
    /// The two agents that asked last: if an agent is not alone, one of them is another.
    seen: [Option<(Arc<str>, Instant)>; 2],
}

struct YoungCommand {
    number: u64,
    since: Instant,
    agent: Arc<str>,
}

impl Capacity {
    pub(super) fn new(running_limit: usize, young_limit: usize, young_of_one: usize) -> Self {
        let young_limit = young_limit.max(1);
        Self {
            running: 0,
            running_limit: running_limit.max(1),
            young: VecDeque::with_capacity(young_limit),
            young_limit,
            young_of_one: young_of_one.max(1),
            seen: [None, None],
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn running_limit(&self) -> usize {
        self.running_limit
    }

    pub(super) fn set_running_limit(&mut self, limit: usize) {
        self.running_limit = limit.max(1);
    }

    /// How many are young.
    pub(super) fn young(&mut self, now: Instant) -> usize {
        self.grow_up(now);
        self.young.len()
    }

    /// When the next one is no longer young.
    pub(super) fn next_of_age(&self) -> Option<Instant> {
        self.young.front().map(|young| young.since + YOUNG)
    }

    /// Notes that an agent is active.
    pub(super) fn sees(&mut self, agent: &Arc<str>, now: Instant) {
        let [last, before] = &mut self.seen;
        match last {
            Some((name, at)) if *name == *agent => *at = now,
            _ => {
                *before = last.take();
                *last = Some((Arc::clone(agent), now));
            }
        }
    }

    /// Whether there is a place at all.
    pub(super) fn is_open(&mut self, now: Instant) -> bool {
        self.grow_up(now);
        self.running < self.running_limit && self.young.len() < self.young_limit
    }

    /// Whether there is a place for this agent. While others are active, one does not get all the places for young
    /// commands, so that a short command of another finds one, and an idle processor.
    pub(super) fn is_open_for(&mut self, agent: &Arc<str>, now: Instant) -> bool {
        self.is_open(now) && (!self.others_are_active(agent, now) || self.young_of(agent) < self.young_of_one)
    }

    /// Takes a place. Numbers increase.
    pub(super) fn enter(&mut self, number: u64, agent: &Arc<str>, now: Instant) {
        self.running += 1;
        self.young.push_back(YoungCommand { number, since: now, agent: Arc::clone(agent) });
    }

    /// Releases it.
    pub(super) fn leave(&mut self, number: u64) {
        self.running -= 1;
        if let Ok(place) = self.young.binary_search_by_key(&number, |young| young.number) {
            self.young.remove(place);
        }
    }

    fn grow_up(&mut self, now: Instant) {
        while self.next_of_age().is_some_and(|at| at <= now) {
            self.young.pop_front();
        }
    }

    fn others_are_active(&self, agent: &Arc<str>, now: Instant) -> bool {
        self.seen.iter().flatten().any(|(name, at)| *at + ABOUT > now && *name != *agent)
    }

    fn young_of(&self, agent: &Arc<str>) -> usize {
        self.young.iter().filter(|young| young.agent == *agent).count()
    }
}
