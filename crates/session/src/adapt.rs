//! Limits that follow the machine: smaller at once when it is under pressure, larger again bit by bit when it has been
//! calm for a while, and never outside the bounds the host gave. Pure: what the machine says and what time it is are
//! arguments, and a step gives the changes as values.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Above this share of time in which something waited for a CPU, more work at once makes every command slower and none
/// done sooner. Some waiting is what a machine in good use looks like.
pub const CPU_HIGH: f64 = 0.90;
/// Below this share there is room for more. Well below [`CPU_HIGH`], so that giving room does not take it away again.
pub const CPU_LOW: f64 = 0.60;
/// Above this share of time in which something waited for memory, the machine has begun to spend its time on paging.
pub const MEMORY_HIGH: f64 = 0.10;
/// Below this share memory is no trouble.
pub const MEMORY_LOW: f64 = 0.02;
/// With less than this share of memory left, the next big command may wake the kernel's out-of-memory killer.
pub const FREE_SCARCE: f64 = 0.08;
/// With more than this share left there is room for more.
pub const FREE_AMPLE: f64 = 0.20;
/// Milliseconds between two changes of a limit: the kernel's averages are over ten seconds, so an earlier look would
/// judge the last change by what was before it.
pub const COOL_DOWN_MS: i64 = 10_000;
/// Milliseconds of calm before a limit grows: a pause between two waves of work is not calm.
pub const CALM_MS: i64 = 30_000;
/// Under pressure a limit loses this part of itself. A half would overshoot, because the averages lag behind.
const LOST_PARTS: usize = 4;
/// A limit grows by this part of the way between its bounds: back from the lowest in less than three minutes.
const GROWTH_PARTS: usize = 10;

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Live shells of the node.
    LiveShells,
    /// Commands that run at once.
    Running,
    /// Services of the node; a smaller limit only stops new ones.
    Services,
}

impl LimitName {
    /// Its name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LiveShells => "live_shells",
            Self::Running => "running",
            Self::Services => "services",
        }
    }

    /// Whether it follows the CPU too. A shell and a service that do nothing cost memory only.
    fn follows_cpu(self) -> bool {
        matches!(self, Self::Running)
    }

    fn things(self) -> &'static str {
        match self {
            Self::LiveShells => "shells may live",
            Self::Running => "commands may run at once",
            Self::Services => "services may be started",
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the machine says about itself, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PressureReading {
    /// Share of time in which something waited for a CPU.
    pub cpu: f64,
    /// Share of time in which something waited for memory.
    pub memory: f64,
    /// Share of memory that is free for the asking.
    pub memory_free: f64,
}

/// A limit and where it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Which.
    pub name: LimitName,
    /// Never below this.
    pub low: usize,
    /// Never above this: what the host allows when all is well.
    pub high: usize,
    /// In force.
    pub now: usize,
}

impl Limit {
    /// A limit that begins with all that is allowed. Bounds the wrong way round are both the upper one.
    pub fn new(name: LimitName, low: usize, high: usize) -> Self {
        Self { name, low: low.min(high), high, now: high }
    }
}

/// A limit that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// Which.
    pub name: LimitName,
    /// Before.
    pub from: usize,
    /// Now.
    pub to: usize,
    /// Why, in a sentence.
    pub reason: String,
}

/// The state of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strain {
    Low,
    /// Neither: nothing changes, so that a machine between the two marks keeps its limits.
    Between,
    High,
}

impl PressureReading {
    fn cpu_strain(&self) -> Strain {
        if self.cpu > CPU_HIGH {
            Strain::High
        } else if self.cpu < CPU_LOW {
            Strain::Low
        } else {
            Strain::Between
        }
    }

    fn memory_strain(&self) -> Strain {
        if self.memory > MEMORY_HIGH || self.memory_free < FREE_SCARCE {
            Strain::High
        } else if self.memory < MEMORY_LOW && self.memory_free > FREE_AMPLE {
            Strain::Low
        } else {
            Strain::Between
        }
    }

    fn strain_on(&self, name: LimitName) -> Strain {
        let memory = self.memory_strain();
        if name.follows_cpu() { memory.max(self.cpu_strain()) } else { memory }
    }

    fn in_words(&self, name: LimitName) -> String {
        let percent = |share: f64| (share * 100.0).round();
        let memory = format!("for memory {} %, with {} % of it free", percent(self.memory), percent(self.memory_free));
        if name.follows_cpu() {
            format!("something waited for a CPU {} % of the time and {memory}", percent(self.cpu))
        } else {
            format!("something waited {memory}")
        }
    }
}

/// One limit and what its next change depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Followed {
    limit: Limit,
    changed_at: Option<Timestamp>,
    calm_since: Option<Timestamp>,
}

/// Whether so much time lies between the two. A clock that was set back must not stop a limit for as long as that.
fn has_passed(since: Timestamp, at: Timestamp, milliseconds: i64) -> bool {
    let passed = at.as_millisecond().saturating_sub(since.as_millisecond());
    passed < 0 || passed >= milliseconds
}

impl Followed {
    fn new(limit: Limit) -> Self {
        Self { limit, changed_at: None, calm_since: None }
    }

    fn step(&mut self, reading: &PressureReading, at: Timestamp) -> Option<LimitChange> {
        let strain = reading.strain_on(self.limit.name);
        if strain != Strain::Low {
            self.calm_since = None;
        } else if self.calm_since.is_none_or(|since| since > at) {
            self.calm_since = Some(at);
        }
        if self.changed_at.is_some_and(|changed| !has_passed(changed, at, COOL_DOWN_MS)) {
            return None;
        }
        let Limit { name, low, high, now } = self.limit;
        let to = match strain {
            Strain::High => (now - now.div_ceil(LOST_PARTS)).max(low),
            Strain::Low if self.calm_since.is_some_and(|since| has_passed(since, at, CALM_MS)) => {
                now.saturating_add(((high - low) / GROWTH_PARTS).max(1)).min(high)
            }
            Strain::Low | Strain::Between => now,
        };
        if to == now {
            return None;
        }
        let (change, until) = if to < now { ("fewer", "until that is better") } else { ("more", "again") };
        let reason = format!("{}, so {change} {} {until}", reading.in_words(name), name.things());
        self.limit.now = to;
        self.changed_at = Some(at);
        Some(LimitChange { name, from: now, to, reason })
    }

    /// A limit that was at its top stays there; one that was pulled down is only brought between the new bounds.
    fn set_bounds(&mut self, low: usize, high: usize) -> Option<LimitChange> {
        let was_at_top = self.limit.now == self.limit.high;
        let from = self.limit.now;
        let low = low.min(high);
        let to = if was_at_top { high } else { from.clamp(low, high) };
        self.limit = Limit { name: self.limit.name, low, high, now: to };
        let reason = format!("the host set its bounds to {low} and {high}");
        (to != from).then_some(LimitChange { name: self.limit.name, from, to, reason })
    }
}

/// The limits of a node, followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    followed: Vec<Followed>,
}

impl Controller {
    /// Follows these.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self { followed: limits.into_iter().map(Followed::new).collect() }
    }

    /// Takes a reading; gives what it changed.
    pub fn step(&mut self, pressure: PressureReading, at: Timestamp) -> Vec<LimitChange> {
        self.followed.iter_mut().filter_map(|followed| followed.step(&pressure, at)).collect()
    }

    /// New bounds from the host, in force at once.
    pub fn set_bounds(&mut self, name: LimitName, low: usize, high: usize) -> Option<LimitChange> {
        self.followed.iter_mut().find(|followed| followed.limit.name == name)?.set_bounds(low, high)
    }

    /// How the limits stand.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        self.followed.iter().map(|followed| followed.limit)
    }
}

#[cfg(test)]
mod tests;
