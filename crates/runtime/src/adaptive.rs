//! Limits that follow the machine: reads the pressure, lets [`shellkeep_session::adapt`] decide, and reports every
//! change in the log, in the metrics and in a short history. The engine applies the changes.

use crate::sync::lock;
use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use shellkeep_process::Pressure;
use shellkeep_session::{Controller, Limit, LimitChange, LimitName, PressureReading, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// How many changes are remembered: more than an hour on a machine under constant pressure.
pub const REMEMBERED: usize = 100;

/// The time and the machine's pressure. A test has its own.
pub trait Senses: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The machine's pressure.
    fn pressure(&self) -> Pressure;
}

/// The real ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealSenses;

impl Senses for RealSenses {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn pressure(&self) -> Pressure {
        Pressure::read()
    }
}

/// The limits of a node that follow its pressure.
pub struct Adaptive {
    senses: Arc<dyn Senses>,
    state: Mutex<State>,
    cpu: Gauge,
    memory: Gauge,
}

struct State {
    controller: Controller,
    last: Option<Pressure>,
    recent: VecDeque<(Timestamp, LimitChange)>,
}

impl Adaptive {
    /// Follows these limits. Nothing happens by itself; see [`Adaptive::tick`].
    pub fn new(limits: impl IntoIterator<Item = Limit>, senses: Arc<dyn Senses>) -> Self {
        describe_gauge!("shellkeep_pressure", "Share of time in which a task waited for this resource");
        describe_gauge!("shellkeep_limit", "Limits in effect that follow the pressure");
        describe_counter!("shellkeep_limit_changes_total", "Changes of those limits");
        let controller = Controller::new(limits);
        for limit in controller.limits() {
            publish(limit.name, limit.now);
            // Created at the start: Prometheus sees no increase in a counter that appears.
            for direction in ["up", "down"] {
                changes(limit.name, direction).increment(0);
            }
        }
        Self {
            senses,
            state: Mutex::new(State { controller, last: None, recent: VecDeque::new() }),
            cpu: gauge!("shellkeep_pressure", "resource" => "cpu"),
            memory: gauge!("shellkeep_pressure", "resource" => "memory"),
        }
    }

    /// Reads the pressure; returns the limits that changed, for the caller to apply. Call it every few seconds. Reads
    /// short files of `/proc`.
    pub fn tick(&self) -> Vec<LimitChange> {
        let pressure = self.senses.pressure();
        let at = self.senses.now();
        self.cpu.set(pressure.cpu);
        self.memory.set(pressure.memory);
        let Pressure { cpu, memory, memory_free, .. } = pressure;
        let mut state = self.lock();
        state.last = Some(pressure);
        let changes = state.controller.step(PressureReading { cpu, memory, memory_free }, at);
        for change in &changes {
            state.remember(at, change);
        }
        changes
    }

    /// New bounds from the host; returns the change for the caller to apply, if there is one.
    pub fn set_bounds(&self, name: LimitName, low: usize, high: usize) -> Option<LimitChange> {
        let at = self.senses.now();
        let mut state = self.lock();
        let change = state.controller.set_bounds(name, low, high)?;
        state.remember(at, &change);
        Some(change)
    }

    /// What a limit is now.
    pub fn limit(&self, name: LimitName) -> u64 {
        let found = self.limits().into_iter().find(|limit| limit.name == name);
        found.map_or(u64::MAX, |limit| limit.now as u64)
    }

    /// The current limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.lock().controller.limits().collect()
    }

    /// The last pressure.
    pub fn pressure(&self) -> Option<Pressure> {
        self.lock().last
    }

    /// The last changes, oldest first.
    pub fn recent(&self) -> Vec<(Timestamp, LimitChange)> {
        self.lock().recent.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn remember(&mut self, at: Timestamp, change: &LimitChange) {
        let LimitChange { name, from, to, reason } = change;
        tracing::info!(limit = %name, from, to, reason, "a limit follows the machine");
        publish(*name, *to);
        let direction = if to > from { "up" } else { "down" };
        changes(*name, direction).increment(1);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((at, change.clone()));
    }
}

fn publish(name: LimitName, now: usize) {
    gauge!("shellkeep_limit", "limit" => name.as_str()).set(now as f64);
}

fn changes(name: LimitName, direction: &'static str) -> Counter {
    counter!("shellkeep_limit_changes_total", "limit" => name.as_str(), "direction" => direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_process::PressureSource;

    /// A machine and a clock of our own.
    #[derive(Debug)]
    struct Told {
        at: Mutex<Timestamp>,
        pressure: Mutex<Pressure>,
    }

    impl Told {
        fn new() -> Arc<Self> {
            let calm = Pressure { cpu: 0.0, memory: 0.0, memory_free: 0.9, source: PressureSource::Stall };
            Arc::new(Self { at: Mutex::new(Timestamp::UNIX_EPOCH), pressure: Mutex::new(calm) })
        }

        fn pass(&self, seconds: i64) {
            let mut at = self.at.lock().unwrap();
            *at = Timestamp::from_second(at.as_second() + seconds).unwrap();
        }

        fn free(&self, share: f64) {
            self.pressure.lock().unwrap().memory_free = share;
        }
    }

    impl Senses for Told {
        fn now(&self) -> Timestamp {
            *self.at.lock().unwrap()
        }

        fn pressure(&self) -> Pressure {
            *self.pressure.lock().unwrap()
        }
    }

    fn node(senses: &Arc<Told>) -> Adaptive {
        let limits = [Limit::new(LimitName::LiveShells, 10, 200), Limit::new(LimitName::Running, 8, 200)];
        Adaptive::new(limits, Arc::clone(senses) as Arc<dyn Senses>)
    }

    #[test]
    fn limits_follow_the_machine_down_and_up() {
        let senses = Told::new();
        let node = node(&senses);
        assert_eq!(node.tick(), []);
        senses.free(0.01);
        assert_eq!(node.tick().len(), 2);
        for _ in 0..100 {
            senses.pass(2);
            node.tick();
        }
        assert_eq!(node.limits().iter().map(|limit| limit.now).collect::<Vec<_>>(), [10, 8]);
        senses.free(0.9);
        for _ in 0..100 {
            senses.pass(2);
            node.tick();
        }
        assert!(node.limits().iter().all(|limit| limit.now == limit.high));
        let recent = node.recent();
        assert!(recent.is_sorted_by_key(|(at, _)| *at));
        assert!(recent.iter().any(|(_, change)| change.to < change.from));
        assert_eq!(recent.last().unwrap().1.to, 200);
    }

    #[test]
    fn only_the_last_changes_are_remembered() {
        let senses = Told::new();
        let node = node(&senses);
        for high in 0..300 {
            node.set_bounds(LimitName::Running, 0, high);
        }
        let recent = node.recent();
        assert_eq!(recent.len(), REMEMBERED);
        assert_eq!(recent.last().unwrap().1.to, 299);
        assert_eq!(recent.first().unwrap().1.to, 200);
    }

    #[test]
    fn the_real_senses_can_be_asked() {
        let node = Adaptive::new([Limit::new(LimitName::Services, 0, 500)], Arc::new(RealSenses));
        node.tick();
        assert!(node.pressure().is_some());
    }
}
