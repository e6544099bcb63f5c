//! Enforces the limits where no kernel controller does: checks something cheap often, counts when it has grown, and
//! cuts back the cage that has too many.

use super::census::{Census, Marks};
use super::held::{Held, signal_process_groups};
use super::{CageFactory, Limits};
use crate::cgroup::Group;
use crate::handle;
use crate::proc::{Glance, Stat};
use crate::sync::lock;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Interval between two checks of the machine's number of threads. A fork bomb creates ten per millisecond, and a check
/// costs a few microseconds.
const LOOK: Duration = Duration::from_millis(25);
/// The same while that number grows quickly.
const CLOSER_LOOK: Duration = Duration::from_millis(5);
/// We count at least this often, in case one cage grew while others shrank.
const COUNT_ANYWAY: Duration = Duration::from_secs(5);
/// For this long after a cage was cut back, every check counts: zombies still count for the machine until they are
/// reaped, and hide the processes that replace them.
const ALERT: Duration = Duration::from_secs(2);
/// How long a group may take to freeze.
const FREEZE_LIMIT: Duration = Duration::from_millis(500);
/// If a cage was cut back this often in a row, its own first process starts too many; then it is killed too.
const PATIENCE: u32 = 3;
/// After this long without being cut back, the count starts over.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// Of the newest processes we look at this many to see who makes them.
const NEWEST: u32 = 64;
/// Fewer than this many of them prove nothing.
const FEWEST: usize = 6;
/// Pause before a failed guard is replaced.
const BETWEEN_GUARDS: Duration = Duration::from_millis(100);
/// The guard competes with what it guards against; where it may not go first, it is at least this much preferred.
const GUARD_NICE: i32 = -15;

impl CageFactory {
    /// Enforces the limits for as long as this is awaited. Returns at once if the kernel does.
    pub async fn guard(&self) {
        if self.has_limit() {
            return;
        }
        loop {
            let (stop, stopped) = mpsc::channel::<()>();
            let (alive, ended) = oneshot::channel::<()>();
            let factory = self.clone();
            // A separate thread: when there is work, all others are busy.
            let started = std::thread::Builder::new().name("shellkeep-guard".to_owned()).spawn(move || {
                let _alive = alive;
                go_first();
                Guard::new(factory).run(&stopped);
            });
            // It ends only with `stop`, or by a fault of its own; then another takes its place.
            let _ = ended.await;
            drop((stop, started));
            tokio::time::sleep(BETWEEN_GUARDS).await;
        }
    }
}

/// With a thousand runnable processes, a thread of normal priority gets little time.
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
    marks: Marks,
    /// As they were when no one held the list of them back.
    cages: Vec<Weak<Held>>,
}

impl Guard {
    fn new(factory: CageFactory) -> Self {
        Self {
            factory,
            lowest: u64::MAX,
            counted: Instant::now(),
            last_cut: None,
            strikes: HashMap::new(),
            marks: Marks::default(),
            cages: Vec::new(),
        }
    }

    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        let mut pause = LOOK;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = if self.look() { CLOSER_LOOK } else { LOOK };
        }
    }

    /// One check. Returns whether there was a reason to count.
    fn look(&mut self) -> bool {
        let limits = self.factory.limits();
        let margin = (limits.per_cage.min(limits.node).min(limits.per_party) / 4).clamp(4, 256);
        let Some(Glance { threads, newest }) = Glance::take() else { return false };
        self.lowest = self.lowest.min(threads);
        let has_grown = threads > self.lowest.saturating_add(margin);
        let is_alert = self.last_cut.is_some_and(|at| at.elapsed() < ALERT);
        if (has_grown || is_alert) && !self.factory.has_groups() {
            self.stop_suspects(newest);
        }
        if !has_grown && !is_alert && self.counted.elapsed() < COUNT_ANYWAY {
            return false;
        }
        self.lowest = threads;
        self.hold_limits(limits);
        self.counted = Instant::now();
        has_grown || is_alert
    }

    fn hold_limits(&mut self, limits: Limits) {
        let cages = self.factory.cages();
        let mut counts = self.count(&cages);
        for (cage, count) in &mut counts {
            if *count > limits.per_cage {
                self.cut_back(cage);
                *count = 1;
            }
        }
        // If all are within their own limits but too many in total, the largest is cut back: of a party, then of all.
        let parties: BTreeSet<String> = cages.iter().filter_map(|cage| cage.party_name().map(str::to_owned)).collect();
        for party in parties {
            self.cut_largest(&mut counts, limits.per_party, |cage| cage.party_name() == Some(party.as_str()));
        }
        self.cut_largest(&mut counts, limits.node, |_| true);
        // Processes that were stopped on suspicion and not cut back continue.
        for cage in &cages {
            signal_process_groups(&std::mem::take(&mut *lock(&cage.suspects)), Signal::CONT);
        }
    }

    /// Cuts back the largest of some cages until they are within a limit together.
    fn cut_largest(&mut self, counts: &mut [(Arc<Held>, u64)], most: u64, is_meant: impl Fn(&Held) -> bool) {
        loop {
            let mut some: Vec<_> = counts.iter_mut().filter(|(cage, _)| is_meant(cage)).collect();
            if some.iter().map(|(_, count)| count).sum::<u64>() <= most {
                return;
            }
            let largest = some.iter_mut().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1);
            let Some((cage, count)) = largest else { return };
            self.cut_back(cage);
            *count = 1;
        }
    }

    /// Where there are no groups, finding out who belongs to whom takes longer than a bomb needs to double; and to look
    /// at `/proc`, or to take a lock, is to wait for others who get no processor while the bomb has them all. So those
    /// stand still until we have counted who were just cut back, and those who make most of the newest processes;
    /// and nothing is waited for before they do.
    fn stop_suspects(&mut self, newest: u32) {
        if let Ok(cages) = self.factory.shared.cages.try_lock() {
            self.cages.clone_from(&cages);
        }
        let newest: Vec<Pid> = (0..NEWEST).filter_map(|back| handle::number(newest.checked_sub(back)?)).collect();
        let sessions: Vec<Pid> = newest.iter().filter_map(|&pid| handle::session_of(pid)).collect();
        for cage in self.cages.iter().filter_map(Weak::upgrade) {
            let leader = lock(&cage.leader).clone();
            let Some(leader) = leader.filter(|leader| handle::is_alive(&leader.handle)) else { continue };
            let made = sessions.iter().filter(|&&session| session == leader.pid).count();
            let is_maker = made * 2 > sessions.len() && made >= FEWEST;
            let is_struck = self.strikes.get(&cage.name).is_some_and(|(_, last)| last.elapsed() < ALERT);
            if (is_maker || is_struck) && kill_process_group(leader.pid, Signal::STOP).is_ok() {
                // Now there is time to look for those of it that are in groups of their own.
                let members =
                    newest.iter().filter(|&&pid| handle::session_of(pid) == Some(leader.pid)).chain([&leader.pid]);
                let suspects: Vec<Stat> =
                    members.filter_map(|pid| Stat::read(pid.as_raw_pid().unsigned_abs())).collect();
                signal_process_groups(&suspects, Signal::STOP);
                *lock(&cage.suspects) = suspects;
            }
        }
    }

    fn count(&mut self, cages: &[Arc<Held>]) -> Vec<(Arc<Held>, u64)> {
        let count: Box<dyn Fn(&Held) -> u64> = if self.factory.has_groups() {
            Box::new(|cage| cage.unified.as_ref().map_or(0, Group::threads))
        } else {
            let census = Census::retake(&self.factory.shared.instance, cages, &mut self.marks);
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

impl Held {
    /// Kills all processes, or all but the shell. None runs in the meantime, so none can fork faster than we kill.
    fn cut_down(&self, spares_main: bool) {
        let main = if spares_main { self.main_pid() } else { 0 };
        let _still = self.still(FREEZE_LIMIT);
        if self.unified.is_none() {
            self.stand_still();
        }
        let but_main = |stat: &&Stat| stat.pid != main;
        self.pursue(Signal::KILL, |members| members.iter().filter(but_main).copied().collect(), drop);
        // Only the shell is left to continue. Looking for others would take as long as it starts new ones.
        if self.unified.is_none()
            && let Some(shell) = lock(&self.roots).main.filter(|_| spares_main).and_then(handle::open_exact)
        {
            handle::send(&shell, Signal::CONT);
        }
    }

    /// Stops all processes by a signal: first by process groups, in which most are, then those found elsewhere.
    fn stand_still(&self) {
        signal_process_groups(&self.members(), Signal::STOP);
        self.pursue(Signal::STOP, <[Stat]>::to_vec, drop);
    }
}
