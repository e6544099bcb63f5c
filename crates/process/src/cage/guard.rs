//! Holding the limits where no controller of the kernel does: look often at something cheap, count when it has grown,
//! and cut back the cage that has too many.

use super::census::Census;
use super::{CageFactory, Held, Limits, Still};
use crate::proc::{self, Stat};
use rustix::process::Signal;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two looks at the number of threads of the machine. A bomb makes ten a millisecond, and a look costs a
/// few microseconds.
const LOOK: Duration = Duration::from_millis(25);
/// The same while that number grows quickly.
const CLOSER_LOOK: Duration = Duration::from_millis(5);
/// We count at least this often, in case one cage grew while others shrank.
const COUNT_ANYWAY: Duration = Duration::from_secs(5);
/// How long a group may take to stand still.
const FREEZE_LIMIT: Duration = Duration::from_millis(500);
/// A cage that was cut back this often in a row is one whose own first process starts too many; then it goes too.
const PATIENCE: u32 = 3;
/// After this long without being cut back, a cage is in good standing again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// The guard competes with what it guards against; where we may, it goes first.
const GUARD_NICE: i32 = -15;

impl CageFactory {
    /// Holds the limits for as long as this is awaited. Ends at once where the kernel holds them.
    pub async fn guard(&self) {
        if self.has_limit() {
            return;
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let factory = self.clone();
        // A thread of its own: when there is something to do, everybody else is busy.
        let started = std::thread::Builder::new().name("shellkeep-guard".to_owned()).spawn(move || {
            let _ = rustix::process::setpriority_process(None, GUARD_NICE);
            Guard::new(factory).run(&stopped);
        });
        if started.is_ok() {
            std::future::pending::<()>().await;
        }
        drop(stop);
    }
}

struct Guard {
    factory: CageFactory,
    /// Threads of the machine when we counted last, or fewer if there were fewer since.
    lowest: u64,
    counted: Instant,
    strikes: HashMap<String, (u32, Instant)>,
}

impl Guard {
    fn new(factory: CageFactory) -> Self {
        Self { factory, lowest: 0, counted: Instant::now(), strikes: HashMap::new() }
    }

    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        let mut pause = LOOK;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = if self.look() { CLOSER_LOOK } else { LOOK };
        }
    }

    /// One look. Tells whether there was a reason to count.
    fn look(&mut self) -> bool {
        let Limits { per_cage, node } = self.factory.limits();
        let margin = (per_cage.min(node) / 4).clamp(4, 256);
        let threads = proc::machine_threads().unwrap_or(u64::MAX);
        self.lowest = self.lowest.min(threads);
        let has_grown = threads > self.lowest.saturating_add(margin);
        if !has_grown && self.counted.elapsed() < COUNT_ANYWAY {
            return false;
        }
        self.lowest = threads;
        self.counted = Instant::now();
        self.hold_limits(per_cage, node);
        has_grown
    }

    fn hold_limits(&mut self, per_cage: u64, node: u64) {
        let cages = self.factory.cages();
        let mut counts = self.count(&cages, per_cage);
        for (cage, count) in &mut counts {
            if *count > per_cage {
                self.cut_back(cage);
                *count = 1;
            }
        }
        // If all are within their own limit and still too many together, the largest pays.
        while counts.iter().map(|(_, count)| count).sum::<u64>() > node {
            let Some((cage, count)) = counts.iter_mut().max_by_key(|(_, count)| *count) else { return };
            if *count <= 1 {
                return;
            }
            self.cut_back(cage);
            *count = 1;
        }
    }

    fn count(&self, cages: &[Arc<Held>], per_cage: u64) -> Vec<(Arc<Held>, u64)> {
        let census = if self.factory.has_groups() {
            Census::default()
        } else {
            Census::take(&self.factory.shared.instance, cages)
        };
        let marked = census.threads();
        // By the time we look again there would be twice as many.
        for (name, _) in marked.iter().filter(|(_, count)| **count > per_cage) {
            let of_it = census.inhabitants.iter().filter(|(_, of)| of == name);
            super::stop_process_groups(&of_it.map(|(stat, _)| *stat).collect::<Vec<_>>());
        }
        let count = |cage: &Arc<Held>| match &cage.unified {
            Some(group) => group.threads(),
            None => marked.get(cage.name.as_str()).copied().unwrap_or(0),
        };
        cages.iter().map(|cage| (Arc::clone(cage), count(cage))).collect()
    }

    fn cut_back(&mut self, cage: &Held) {
        self.strikes.retain(|_, (_, last)| last.elapsed() < FORGIVEN_AFTER);
        let (strikes, last) = self.strikes.entry(cage.name.clone()).or_insert((0, Instant::now()));
        *strikes += 1;
        *last = Instant::now();
        cage.cut_back.fetch_add(1, Ordering::Relaxed);
        cage.cut_down(*strikes <= PATIENCE);
    }
}

impl Held {
    /// Ends everyone, or everyone but the shell. Nobody runs meanwhile, so nobody can start others faster than we end
    /// them.
    fn cut_down(&self, spares_main: bool) {
        let main = if spares_main { self.main_pid() } else { 0 };
        let _still = self.unified.as_ref().map(Still::hold);
        self.stand_still();
        let but_main = |stat: &&Stat| stat.pid != main;
        self.pursue(Signal::KILL, |members| members.iter().filter(but_main).copied().collect(), drop);
        if self.unified.is_none() {
            self.pursue(Signal::CONT, <[Stat]>::to_vec, drop);
        }
    }

    /// Waits until everyone has come to a stop. Without a group they are told by a signal: first by process groups, in
    /// which most are, then whoever is found elsewhere.
    fn stand_still(&self) {
        if let Some(group) = &self.unified {
            let since = Instant::now();
            while !group.is_frozen() && since.elapsed() < FREEZE_LIMIT {
                std::thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        super::stop_process_groups(&self.members());
        self.pursue(Signal::STOP, <[Stat]>::to_vec, drop);
    }
}
