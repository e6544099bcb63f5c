//! The processes of one shell or service: all of them, whatever they did to get away. A cage is a control group where
//! the machine has one; elsewhere it is a mark in the environment that every descendant inherits, found by reading
//! `/proc`.

mod census;
mod factory;
mod guard;
mod sweep;
mod whose;

pub use crate::handle::gone;
pub use factory::{CageFactory, CageMode, Limits};
pub use whose::Belongs;

use crate::cgroup::Group;
use crate::handle;
use crate::proc::{self, ProcessStamp, Stat};
use crate::spawn::{Born, Entrance};
use rustix::process::{Pid, Signal};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The variable that carries the mark where there is no control group.
pub const MARK: &str = "SHELLKEEP_CAGE";
/// The variable by which the keeper of a service is known; what it starts does not have it.
pub const KEEPER_MARK: &str = "SHELLKEEP_KEEPS";
/// A process may fork while we look for it; we look again so many times at most.
const PASSES: usize = 20;
/// Handles held while we signal many; fewer than any limit of open files.
const HANDLES_AT_ONCE: usize = 256;
/// More processes than this in one cage may be a bomb.
const MANY: usize = 32;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From whom everyone in a cage descends.
#[derive(Debug, Clone, Copy, Default)]
struct Roots {
    /// The shell, or a service's own first process.
    main: Option<ProcessStamp>,
    /// The one that looks after a service. Not in the cage itself.
    keeper: Option<ProcessStamp>,
}

/// The main process of a cage: a session and a process group have its number, and nobody else's can while it lives.
#[derive(Debug)]
struct Leader {
    pid: Pid,
    handle: OwnedFd,
}

/// What a cage is made of. Shared with the guard, which looks at all of them.
#[derive(Debug, Default)]
struct Held {
    name: String,
    /// The value of `NAME=` in the environment.
    label: String,
    unified: Option<Group>,
    pids: Option<Group>,
    keepers: Option<PathBuf>,
    /// How many it might hold when it was made, where the kernel limits it.
    limit: Option<u64>,
    roots: Mutex<Roots>,
    /// Whom its processes work for, as its user names them; see [`Belongs`].
    owner: OnceLock<Arc<str>>,
    /// The main process, where there is no group: so that the guard can stop it without waiting for anything.
    leader: OnceLock<Leader>,
    /// How often it was cut back because it had too many, where no controller refuses them.
    cut_back: AtomicU64,
    /// Some of those whom the guard has stopped to count, one at least of each process group.
    suspects: Mutex<Vec<Stat>>,
}

/// The processes of one shell or service. Dropping it ends them, unless it was released.
#[derive(Debug)]
pub struct Cage {
    held: Arc<Held>,
    released: bool,
}

impl Cage {
    /// A cage that holds nobody.
    pub(crate) fn empty() -> Self {
        Self { held: Arc::default(), released: true }
    }

    /// Its name within the instance.
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// Says whom its processes work for. Once: a cage is never given to another.
    pub fn assign(&self, owner: &str) {
        let _ = self.held.owner.set(owner.into());
    }

    /// The mark to start the shell with, where the environment must carry it.
    pub fn mark(&self) -> Option<String> {
        self.held.unified.is_none().then(|| format!("{MARK}={}", self.held.label))
    }

    /// The mark to start a keeper with.
    pub(crate) fn keeper_mark(&self) -> String {
        format!("{KEEPER_MARK}={}", self.held.label)
    }

    /// The file that ends everyone in it when it is written to, where there is one.
    pub(crate) fn kill_file(&self) -> Option<PathBuf> {
        self.held.unified.as_ref().map(|group| group.path().join("cgroup.kill"))
    }

    /// The files through which a process that does not wait for us puts itself in, before it runs anything.
    pub(crate) fn entrances(&self) -> io::Result<Vec<File>> {
        let groups = [&self.held.unified, &self.held.pids].into_iter().flatten();
        groups.map(|group| File::options().write(true).open(group.path().join("cgroup.procs"))).collect()
    }

    /// Where a process can be born in it, if there is a group.
    pub(crate) fn entrance(&self) -> Option<Entrance> {
        let group = File::open(self.held.unified.as_ref()?.path()).ok()?.into();
        let tasks = |group: &Group| File::options().write(true).open(group.path().join("tasks"));
        Some(Entrance { group, tasks: self.held.pids.as_ref().map(tasks).transpose().ok()? })
    }

    /// Takes in the shell that was born, before it runs anything.
    pub(crate) fn receive(&mut self, born: Born) -> io::Result<()> {
        if !born.is_inside {
            return self.enclose(born.pid);
        }
        self.held.lead(Stat::read_any(born.pid).map(|stat| stat.stamp()));
        Ok(())
    }

    /// Puts the shell in, before it runs anything.
    pub fn enclose(&mut self, pid: u32) -> io::Result<()> {
        self.held.lead(Stat::read_any(pid).map(|stat| stat.stamp()));
        for group in [&self.held.unified, &self.held.pids].into_iter().flatten() {
            match group.add(pid) {
                // An earlier cage of this name has just been cleared away, and took the empty group with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    group.create_again()?;
                    let _ = self.held.limit.map(|most| group.limit_processes(most));
                    group.add(pid)?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Puts the keeper of a service where it does not count, and remembers it.
    pub(crate) fn enclose_keeper(&mut self, keeper: ProcessStamp) -> io::Result<()> {
        lock(&self.held.roots).keeper = Some(keeper);
        match &self.held.keepers {
            Some(path) => Group::at(path.clone()).add(keeper.pid),
            None => Ok(()),
        }
    }

    /// Remembers from whom those who are already in it descend.
    pub(crate) fn recall(&mut self, keeper: ProcessStamp, main: ProcessStamp) {
        lock(&self.held.roots).keeper = Some(keeper);
        self.held.lead(Some(main));
    }

    /// From now on dropping it ends nobody.
    pub fn release(&mut self) {
        self.released = true;
    }

    /// Everyone in it that is alive, the shell included.
    pub fn members(&self) -> Vec<Stat> {
        self.held.members()
    }

    /// How often something was not started, or was ended, because there were too many already.
    pub fn limit_hits(&self) -> u64 {
        let limited = self.held.pids.as_ref().or(self.held.unified.as_ref());
        limited.map_or(0, Group::limit_hits) + self.held.cut_back.load(Ordering::Relaxed)
    }

    /// Everyone but the shell.
    pub fn others(&self) -> Vec<Stat> {
        let main = self.held.main_pid();
        self.members().into_iter().filter(|stat| stat.pid != main).collect()
    }

    /// Sends a signal to everyone. Gives a handle on each receiver, which becomes readable when it ends.
    pub fn signal_all(&self, signal: Signal) -> Vec<OwnedFd> {
        self.held.reach(signal, <[Stat]>::to_vec)
    }

    /// Sends a signal to everyone but the shell, those in `spared`, and what those started. Gives a handle on each
    /// receiver, which becomes readable when it ends.
    pub fn signal_others(&self, signal: Signal, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        let main = self.held.main_pid();
        self.held.reach(signal, |members| victims(members, main, spared))
    }

    /// Handles on everyone but the shell, those in `spared`, and what those started.
    pub fn watch_others(&self, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        let victims = victims(&self.members(), self.held.main_pid(), spared);
        victims.iter().filter_map(|stat| handle::open_exact(stat.stamp())).collect()
    }

    /// Ends everyone, the shell included, whatever they ignore.
    pub fn kill_all(&self) {
        self.held.kill_all();
    }
}

impl Held {
    /// Remembers the main process.
    fn lead(&self, main: Option<ProcessStamp>) {
        lock(&self.roots).main = main;
        if self.unified.is_none()
            && let Some((stamp, pid)) = main.and_then(|stamp| Some((stamp, handle::number(stamp.pid)?)))
            && let Some(handle) = handle::open_exact(stamp)
        {
            // A cage has one main process in its life.
            let _ = self.leader.set(Leader { pid, handle });
        }
    }

    fn main_pid(&self) -> u32 {
        lock(&self.roots).main.map_or(0, |stamp| stamp.pid)
    }

    fn members(&self) -> Vec<Stat> {
        let roots = *lock(&self.roots);
        if roots.main.is_none() && roots.keeper.is_none() {
            return Vec::new();
        }
        match &self.unified {
            Some(group) => group.members().unwrap_or_default().into_iter().filter_map(Stat::read).collect(),
            None => self.marked(roots),
        }
    }

    /// Without a group: descendants of the roots, and everyone who carries the mark. Nobody gets away from below a
    /// keeper that is alive, so then there is no need to look for marks.
    fn marked(&self, roots: Roots) -> Vec<Stat> {
        let all = proc::all().unwrap_or_default();
        let is_alive = |stamp: &ProcessStamp| all.get(&stamp.pid).is_some_and(|stat| stat.stamp() == *stamp);
        let keeper = roots.keeper.filter(is_alive).map_or(0, |stamp| stamp.pid);
        let main = roots.main.filter(is_alive).map_or(0, |stamp| stamp.pid);
        let is_root = |pid: u32| pid != 0 && (pid == main || pid == keeper);
        let mark = format!("{MARK}={}", self.label);
        let is_ours = |stat: &&Stat| {
            stat.pid != keeper
                && (is_root(stat.pid)
                    || proc::ancestors(&all, stat.pid).any(is_root)
                    || (keeper == 0 && proc::has_mark(stat.pid, mark.as_bytes())))
        };
        all.values().filter(is_ours).copied().collect()
    }

    /// Sends a signal to those of the members that `choose` gives. The group is frozen meanwhile, so nobody escapes
    /// by forking. Gives handles on them.
    fn reach(&self, signal: Signal, choose: impl Fn(&[Stat]) -> Vec<Stat>) -> Vec<OwnedFd> {
        let _still = self.unified.as_ref().map(Still::hold);
        let mut handles = Vec::new();
        self.pursue(signal, choose, |handle| handles.push(handle));
        handles
    }

    /// Sends a signal to those of the members that `choose` gives, and looks again until nobody new is there.
    fn pursue(&self, signal: Signal, choose: impl Fn(&[Stat]) -> Vec<Stat>, mut reached: impl FnMut(OwnedFd)) {
        let mut done: HashSet<ProcessStamp> = HashSet::new();
        for _ in 0..PASSES {
            let mut new: Vec<ProcessStamp> = choose(&self.members()).iter().map(Stat::stamp).collect();
            new.retain(|stamp| !done.contains(stamp));
            let before = done.len();
            for some in new.chunks(HANDLES_AT_ONCE) {
                let handles: Vec<_> =
                    some.iter().filter_map(|&stamp| Some((stamp, handle::open_exact(stamp)?))).collect();
                // A number may have been given away between the group's list and the handle; the list would not have
                // it now.
                let listed: Option<HashSet<u32>> =
                    self.unified.as_ref().map(|group| group.members().unwrap_or_default().into_iter().collect());
                for (stamp, handle) in handles {
                    let is_member = listed.as_ref().is_none_or(|listed| listed.contains(&stamp.pid));
                    if is_member && handle::send(&handle, signal) {
                        done.insert(stamp);
                        reached(handle);
                    }
                }
            }
            if done.len() == before {
                break;
            }
        }
    }

    fn kill_all(&self) {
        if self.unified.as_ref().is_some_and(|group| group.kill().is_ok()) {
            return;
        }
        // Many may be becoming more, faster than one by one can be ended.
        let members = self.members();
        if self.unified.is_none() && members.len() > MANY {
            signal_process_groups(&members, Signal::STOP);
        }
        let _still = self.unified.as_ref().map(Still::hold);
        // The main process first: one that waits for the others would end by itself, as if nobody had ended it.
        let main = self.main_pid();
        let main_first = |members: &[Stat]| {
            let mut members = members.to_vec();
            members.sort_by_key(|stat| stat.pid != main);
            members
        };
        self.pursue(Signal::KILL, main_first, drop);
    }
}

/// Brings the process groups of these processes to a stop, or lets them go on, each with one call, however many are in
/// it. Nobody else is in them: a process cannot join a group of another session, and each cage began with a session of
/// its own.
fn signal_process_groups(members: &[Stat], signal: Signal) {
    let mut groups: HashMap<u32, Vec<ProcessStamp>> = HashMap::new();
    for stat in members {
        groups.entry(stat.group).or_default().push(stat.stamp());
    }
    for (number, stamps) in groups {
        let Some(group) = handle::number(number) else { continue };
        // While one of them is stopped it stays in its group, and the group's number is not another's.
        let stands = |stamp: &ProcessStamp| {
            let handle = handle::open_exact(*stamp)?;
            handle::send(&handle, Signal::STOP).then_some(())?;
            Stat::read(stamp.pid).filter(|stat| stat.stamp() == *stamp && stat.group == number)
        };
        if stamps.iter().find_map(stands).is_some() {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// A group that is frozen for as long as this lives.
struct Still<'a>(&'a Group);

impl<'a> Still<'a> {
    fn hold(group: &'a Group) -> Self {
        // Where it cannot be frozen we work on moving targets; the passes are for that.
        let _ = group.freeze(true);
        Self(group)
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        let _ = self.0.freeze(false);
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.kill_all();
        let is_empty = |group: &Group| group.members().is_ok_and(|members| members.is_empty());
        if let Some(group) = &self.held.unified
            && !is_empty(group)
        {
            // Removing the directory must wait for the last member; that is no business of the caller's thread.
            let held = Arc::clone(&self.held);
            std::thread::spawn(move || [&held.unified, &held.pids].into_iter().flatten().for_each(sweep::empty_out));
        }
    }
}

/// Those a signal should reach.
fn victims(members: &[Stat], main: u32, spared: &[ProcessStamp]) -> Vec<Stat> {
    let by_pid: HashMap<u32, Stat> = members.iter().map(|stat| (stat.pid, *stat)).collect();
    let spared: HashSet<u32> = spared
        .iter()
        .filter(|stamp| by_pid.get(&stamp.pid).is_some_and(|stat| stat.stamp() == **stamp))
        .map(|s| s.pid)
        .collect();
    let is_victim = |stat: &&Stat| {
        stat.pid != main
            && !spared.contains(&stat.pid)
            && !proc::ancestors(&by_pid, stat.pid).any(|pid| spared.contains(&pid))
    };
    members.iter().filter(is_victim).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            parent,
            state: b'S',
            started_ticks: u64::from(pid),
            cpu_ticks: 0,
            threads: 1,
            group: 10,
            session: 10,
        }
    }

    #[test]
    fn what_a_spared_process_started_is_spared_too() {
        // 10 is the shell; 20 is a server of an earlier command, 21 its worker; 30 and 31 belong to this command.
        let members = [stat(10, 1), stat(20, 10), stat(21, 20), stat(30, 10), stat(31, 1)];
        let spared = [stat(20, 10).stamp()];
        let pids: Vec<u32> = victims(&members, 10, &spared).iter().map(|stat| stat.pid).collect();
        assert_eq!(pids, [30, 31]);
    }

    #[test]
    fn a_recycled_number_is_not_spared() {
        let members = [stat(10, 1), stat(20, 10)];
        let earlier = ProcessStamp { pid: 20, started_ticks: 3 };
        assert_eq!(victims(&members, 10, &[earlier]).len(), 1);
    }
}
