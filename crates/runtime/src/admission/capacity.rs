//! How many commands may run, how many of them may be young, and how many of those may be one agent's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A command counts as young for this long. Most commands are done by then; for the others, the machine's scheduler
/// does better than we could.
pub const YOUNG: Duration = Duration::from_millis(20);
/// An agent is active for this long after a request, and others leave it its share of the machine.
pub const ABOUT: Duration = Duration::from_secs(10);

/// Commands that may wait for the store for each place among the young. They use no processor, and the more of them wait, the
/// more are recorded at once; but all of them go on when it answers.
pub(super) const SUSPENDED_PER_PLACE: usize = 16;
/// The same for one agent while others are active.
pub(super) const SUSPENDED_OF_ONE: usize = 4;

/// How much may run, and what does.
pub(super) struct Capacity {
    running: usize,
    running_limit: usize,
    /// Oldest first.
    young: VecDeque<YoungCommand>,
    young_limit: usize,
    young_of_one: usize,
    suspended: Suspended,
    /// The two agents that asked last: if an agent is not alone, one of them is another.
    seen: [Option<(Arc<str>, Instant)>; 2],
}

struct YoungCommand {
    number: u64,
    since: Instant,
    agent: Arc<str>,
}

/// Commands that wait for the store, for as long as they would have been young.
#[derive(Default)]
struct Suspended {
    commands: HashMap<u64, Arc<str>>,
    /// How many each agent has.
    agents: HashMap<Arc<str>, usize>,
    /// Since when, longest first; also those that have gone on.
    since: VecDeque<(Instant, u64)>,
}

impl Suspended {
    fn add(&mut self, number: u64, agent: Arc<str>, now: Instant) {
        *self.agents.entry(Arc::clone(&agent)).or_default() += 1;
        self.commands.insert(number, agent);
        self.since.push_back((now, number));
    }

    fn remove(&mut self, number: u64) -> Option<Arc<str>> {
        let agent = self.commands.remove(&number)?;
        if let Some(count) = self.agents.get_mut(&agent) {
            *count -= 1;
            if *count == 0 {
                self.agents.remove(&agent);
            }
        }
        Some(agent)
    }

    /// A store that is slow must not close the node.
    fn grow_up(&mut self, now: Instant) {
        while let Some(&(since, number)) = self.since.front()
            && since + YOUNG <= now
        {
            self.since.pop_front();
            self.remove(number);
        }
    }

    fn of(&self, agent: &Arc<str>) -> usize {
        self.agents.get(agent).copied().unwrap_or_default()
    }
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
            suspended: Suspended::default(),
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
        let young = self.young.front().map(|young| young.since);
        let suspended = self.suspended.since.front().map(|(since, _)| *since);
        young.into_iter().chain(suspended).min().map(|since| since + YOUNG)
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
        self.running < self.running_limit
            && self.young.len() < self.young_limit
            && self.suspended.commands.len() < self.young_limit * SUSPENDED_PER_PLACE
    }

    /// Whether there is a place for this agent. While others are active, one does not get all the places for young
    /// commands, so that a short command of another finds one, and an idle processor.
    pub(super) fn is_open_for(&mut self, agent: &Arc<str>, now: Instant) -> bool {
        self.is_open(now) && !(self.others_are_active(agent, now) && self.has_its_share(agent))
    }

    /// Whether an agent has as many places as it gets while others are active.
    fn has_its_share(&self, agent: &Arc<str>) -> bool {
        self.young_of(agent) >= self.young_of_one || self.suspended.of(agent) >= self.young_of_one * SUSPENDED_OF_ONE
    }

    /// Takes a place. Numbers increase.
    pub(super) fn enter(&mut self, number: u64, agent: &Arc<str>, now: Instant) {
        self.running += 1;
        self.young.push_back(YoungCommand { number, since: now, agent: Arc::clone(agent) });
    }

    /// Releases it.
    pub(super) fn leave(&mut self, number: u64) {
        self.running -= 1;
        if self.suspended.remove(number).is_none() {
            self.no_longer_young(number);
        }
    }

    /// A young command waits for the store, and leaves its place to another. One that is no longer young has none.
    pub(super) fn suspend(&mut self, number: u64, now: Instant) {
        if let Some(young) = self.no_longer_young(number) {
            self.suspended.add(number, young.agent, now);
        }
    }

    /// One that waited goes on, and is young again. It has a new number. Those of one agent, of which the store may answer many
    /// at once, take no more places than its share.
    pub(super) fn resume(&mut self, number: u64, new: u64, now: Instant) {
        let Some(agent) = self.suspended.remove(number) else { return };
        if !self.others_are_active(&agent, now) || self.young_of(&agent) < self.young_of_one {
            self.young.push_back(YoungCommand { number: new, since: now, agent });
        }
    }

    fn no_longer_young(&mut self, number: u64) -> Option<YoungCommand> {
        let place = self.young.binary_search_by_key(&number, |young| young.number).ok()?;
        self.young.remove(place)
    }

    fn grow_up(&mut self, now: Instant) {
        while self.young.front().is_some_and(|young| young.since + YOUNG <= now) {
            self.young.pop_front();
        }
        self.suspended.grow_up(now);
    }

    fn others_are_active(&self, agent: &Arc<str>, now: Instant) -> bool {
        self.seen.iter().flatten().any(|(name, at)| *at + ABOUT > now && *name != *agent)
    }

    fn young_of(&self, agent: &Arc<str>) -> usize {
        self.young.iter().filter(|young| young.agent == *agent).count()
    }
}
