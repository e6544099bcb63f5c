//! Holding the limits where no controller of the kernel does: look often at something cheap, count when it has grown,
//! and cut back the cage that has too many.

use super::census::Census;
use super::{CageFactory, Held, Limits, Still, lock, signal_process_groups};
use crate::cgroup::Group;
use crate::proc::{self, Glance, Stat};
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
/// So long after a cage was cut back we count at every look: the dead still count for the machine until somebody asks
/// after them, and hide those who take their place.
const ALERT: Duration = Duration::from_secs(2);
/// How long a group may take to stand still.
const FREEZE_LIMIT: Duration = Duration::from_millis(500);
/// A cage that was cut back this often in a row is one whose own first process starts too many; then it goes too.
const PATIENCE: u32 = 3;
/// After this long without being cut back, a cage is in good standing again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// Of the newest processes we look at this many to see who makes them.
const NEWEST: u32 = 64;
/// Fewer than this many of them prove nothing.
const FEWEST: usize = 6;
/// The guard competes with what it guards against; where it may not go first, it is at least this much preferred.
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
            go_first();
            Guard::new(factory).run(&stopped);
        });
        if started.is_ok() {
            std::future::pending::<()>().await;
        }
        drop(stop);
    }
}

/// A thousand who want to run leave little to one who is treated as one of them.
fn go_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is whole and outlives the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) } != 0 {
        let _ = rustix::process::setpriority_process(None, GUARD_NICE);
    }
}

struct Guard {
    factory: CageFactory,
    /// Threads of the machine when we counted last, or fewer if there were fewer since.
    lowest: u64,
    counted: Instant,
    /// When a cage was last cut back.
    last_cut: Option<Instant>,
    strikes: HashMap<String, (u32, Instant)>,
}

impl Guard {
    fn new(factory: CageFactory) -> Self {
        Self { factory, lowest: u64::MAX, counted: Instant::now(), last_cut: None, strikes: HashMap::new() }
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
        let Some(Glance { threads, newest }) = Glance::take() else { return false };
        self.lowest = self.lowest.min(threads);
        let has_grown = threads > self.lowest.saturating_add(margin);
        if has_grown && !self.factory.has_groups() {
            stop_makers(newest, &self.factory.cages());
        }
        let is_alert = self.last_cut.is_some_and(|at| at.elapsed() < ALERT);
        if !has_grown && !is_alert && self.counted.elapsed() < COUNT_ANYWAY {
            return false;
        }
        self.lowest = threads;
        self.hold_limits(per_cage, node);
        self.counted = Instant::now();
        has_grown || is_alert
    }

    fn hold_limits(&mut self, per_cage: u64, node: u64) {
        let cages = self.factory.cages();
        let mut counts = self.count(&cages);
        for (cage, count) in &mut counts {
            if *count > per_cage {
                self.cut_back(cage);
                *count = 1;
            }
        }
        // If all are within their own limit and still too many together, the largest pays.
        while counts.iter().map(|(_, count)| count).sum::<u64>() > node {
            let largest = counts.iter_mut().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1);
            let Some((cage, count)) = largest else { break };
            self.cut_back(cage);
            *count = 1;
        }
        // Who was stopped on suspicion and has not been cut back goes on.
        for cage in &cages {
            signal_process_groups(&std::mem::take(&mut *lock(&cage.suspects)), Signal::CONT);
        }
    }

    fn count(&self, cages: &[Arc<Held>]) -> Vec<(Arc<Held>, u64)> {
        let count: Box<dyn Fn(&Held) -> u64> = if self.factory.has_groups() {
            Box::new(|cage| cage.unified.as_ref().map_or(0, Group::threads))
        } else {
            let census = Census::take(&self.factory.shared.instance, cages);
            let counts: HashMap<String, u64> =
                census.threads().into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
            Box::new(move |cage| counts.get(&cage.name).copied().unwrap_or(0))
        };
        cages.iter().map(|cage| (Arc::clone(cage), count(cage))).collect()
    }

    fn cut_back(&mut self, cage: &Held) {
        self.strikes.retain(|_, (_, last)| last.elapsed() < FORGIVEN_AFTER);
        let (strikes, last) = self.strikes.entry(cage.name.clone()).or_insert((0, Instant::now()));
        *strikes += 1;
        *last = Instant::now();
        self.last_cut = Some(Instant::now());
        cage.cut_back.fetch_add(1, Ordering::Relaxed);
        cage.cut_down(*strikes <= PATIENCE);
    }
}

/// Where there are no groups, finding out who belongs to whom takes longer than a bomb needs to double. Most of one are
/// in the session in which it began: if most of the newest processes are of one session, it stands still until we have
/// counted. Those of a bomb may live for a moment only, so it is the newest that are alive.
fn stop_makers(newest: u32, cages: &[Arc<Held>]) {
    let newest: Vec<Stat> = (0..NEWEST).filter_map(|back| Stat::read(newest.checked_sub(back)?)).collect();
    for cage in cages {
        let main = cage.main_pid();
        let made: Vec<Stat> = newest.iter().filter(|stat| stat.session == main).copied().collect();
        if made.len() * 2 > newest.len() && made.len() >= FEWEST && cage.began_session(&made) {
            signal_process_groups(&made, Signal::STOP);
            *lock(&cage.suspects) = made;
        }
    }
}

impl Held {
    /// Whether these processes of a session with our main process's number are ours. The number is not given away while
    /// the session lives, but it may have ended, and another have begun.
    fn began_session(&self, members: &[Stat]) -> bool {
        let main = lock(&self.roots).main;
        let mark = format!("{}={}", super::MARK, self.label);
        main.is_some_and(|main| Stat::read_any(main.pid).is_some_and(|stat| stat.stamp() == main))
            || members.iter().any(|stat| proc::has_mark(stat.pid, mark.as_bytes()))
    }

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
        signal_process_groups(&self.members(), Signal::STOP);
        self.pursue(Signal::STOP, <[Stat]>::to_vec, drop);
    }
}
