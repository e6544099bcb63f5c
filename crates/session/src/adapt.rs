//! Limits that follow the machine's pressure: lowered at once under pressure, raised step by step after a period of
//! calm, and never outside the bounds that the host set. Pure: pressure and time are arguments, and a step returns the
//! changes.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Above this share of time waiting for a CPU, more concurrent work only slows every command down. Some waiting is
/// normal on a well-used machine.
pub const CPU_HIGH: f64 = 0.90;
/// Below this share there is room for more. Well below [`CPU_HIGH`], so that raising a limit does not lower it again.
pub const CPU_LOW: f64 = 0.60;
/// Above this share of time waiting for memory, the machine spends its time on paging.
pub const MEMORY_HIGH: f64 = 0.10;
/// Below this share memory is not a problem.
pub const MEMORY_LOW: f64 = 0.02;
/// With less than this share of memory left, the next large command may trigger the kernel's OOM killer.
pub const FREE_SCARCE: f64 = 0.08;
/// With more than this share left there is room for more.
pub const FREE_AMPLE: f64 = 0.20;
/// Milliseconds between two changes of a limit: the kernel's averages are over ten seconds, so an earlier reading would
/// not reflect the last change yet.
pub const COOL_DOWN_MS: i64 = 10_000;
/// Milliseconds of calm before a limit grows: a pause between two waves of work is not calm.
pub const CALM_MS: i64 = 30_000;
/// Under pressure a limit is lowered by this fraction. A half would overshoot, because the averages lag behind.
const LOST_PARTS: usize = 4;
/// A limit is raised by this fraction of the range between its bounds: from the lowest to the highest in less than
/// three minutes.
const GROWTH_PARTS: usize = 10;

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Live shells of the node.
    LiveShells,
    /// Concurrent commands.
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

    /// Whether it follows the CPU too. Idle shells and services cost only memory.
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

/// The machine's pressure, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PressureReading {
    /// Share of time in which a task waited for a CPU.
    pub cpu: f64,
    /// Share of time in which a task waited for memory.
    pub memory: f64,
    /// Share of memory that is available.
    pub memory_free: f64,
}

/// A limit and its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub name: LimitName,
    /// Never below this.
    pub low: usize,
    /// Never above this: the host's quota.
    pub high: usize,
    /// The current value.
    pub now: usize,
}

impl Limit {
    /// A limit that starts at its upper bound. If the bounds are reversed, both are the upper one.
    pub fn new(name: LimitName, low: usize, high: usize) -> Self {
        Self { name, low: low.min(high), high, now: high }
    }
}

/// A limit that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    pub name: LimitName,
    /// The value before.
    pub from: usize,
    /// The value after.
    pub to: usize,
    /// The reason, as a sentence.
    pub reason: String,
}

/// The state of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strain {
    Low,
    /// In between: nothing changes.
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

/// Whether this much time has passed. A clock that was set back must not block a limit.
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

    /// A limit at its upper bound stays there; a lowered one is only clamped to the new bounds.
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

/// The limits of a node that follow its pressure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    followed: Vec<Followed>,
}

impl Controller {
    /// Follows these.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self { followed: limits.into_iter().map(Followed::new).collect() }
    }

    /// Applies a reading; returns the changes.
    pub fn step(&mut self, pressure: PressureReading, at: Timestamp) -> Vec<LimitChange> {
        self.followed.iter_mut().filter_map(|followed| followed.step(&pressure, at)).collect()
    }

    /// New bounds from the host, effective immediately.
    pub fn set_bounds(&mut self, name: LimitName, low: usize, high: usize) -> Option<LimitChange> {
        self.followed.iter_mut().find(|followed| followed.limit.name == name)?.set_bounds(low, high)
    }

    /// The current limits.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        self.followed.iter().map(|followed| followed.limit)
    }
}

#[cfg(test)]
mod tests;
