//! The processes of one shell or service: all of them, even if they try to detach. A cage is a control group where the
//! machine has one; elsewhere it is a mark in the environment that every descendant inherits, found by reading `/proc`.

mod at_work;
mod census;
mod empty;
mod epoll_watches;
mod factory;
mod guard;
mod held;
mod layout;
mod memory;
mod neighbours;
mod own_share;
mod party;
mod party_groups;
mod party_notes;
mod sweep;
mod whose;

pub use crate::handle::gone;
pub use at_work::assignees_at_work;
pub use epoll_watches::{Unwatched, guard_watches};
pub use factory::{CageFactory, CageMode};
pub use held::{KEEPER_MARK, MARK};
pub use memory::guard_memory;
pub use party::Limits;
pub use whose::Belongs;

use crate::cgroup::Group;
use crate::confine::Entered;
use crate::handle;
use crate::proc::{self, ProcessStamp, Stat};
use crate::spawn::{self, Born, Entrance};
use crate::sync::lock;
use held::Held;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The processes of one shell or service. Dropping it kills them, unless it was released.
#[derive(Debug)]
pub struct Cage {
    held: Arc<Held>,
    released: bool,
}

/// Limits that were met, by how often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met {
    pub(crate) limit_hits: u64,
    pub(crate) memory_kills: u64,
}

/// The first processes of a service or a program.
pub(crate) struct FirstProcesses {
    pub(crate) main: u32,
    /// The first process of its room, if it is in one.
    pub(crate) init: Option<u32>,
}

impl Cage {
    /// An empty cage.
    pub(crate) fn empty() -> Self {
        Self { held: Arc::default(), released: true }
    }

    /// Its name within the instance.
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// Says whom its processes work for. Once: a cage is never assigned to another.
    pub fn assign(&self, assignee: &str) {
        let _ = self.held.assignee.set(assignee.into());
    }

    /// The mark to start the shell with, where the environment must carry it.
    pub fn mark(&self) -> Option<String> {
        self.held.unified.is_none().then(|| format!("{MARK}={}", self.held.label))
    }

    /// The mark to start a keeper with.
    pub(crate) fn keeper_mark(&self) -> String {
        format!("{KEEPER_MARK}={}", self.held.label)
    }

    /// The `cgroup.kill` file, where there is one.
    pub(crate) fn kill_file(&self) -> Option<PathBuf> {
        self.held.unified.as_ref().map(|group| group.path().join("cgroup.kill"))
    }

    /// The files through which a process enters the cage by itself, before it runs anything.
    pub(crate) fn entrances(&self) -> io::Result<Vec<File>> {
        self.held.groups().map(|group| File::options().write(true).open(group.path().join("cgroup.procs"))).collect()
    }

    /// Where a process can be born in it, if there is a group.
    pub(crate) fn entrance(&self) -> Option<Entrance> {
        let group = File::open(self.held.unified.as_ref()?.path()).ok()?.into();
        let tasks = |group: &Group| File::options().write(true).open(group.path().join("tasks"));
        let apart = self.held.groups().skip(1);
        Some(Entrance { group, tasks: apart.map(tasks).collect::<io::Result<_>>().ok()? })
    }

    /// Takes in the shell that was born, before it runs anything.
    pub(crate) fn receive(&mut self, born: Born) -> io::Result<()> {
        if !born.is_inside {
            return self.enclose(born.pid);
        }
        self.limit_open_files(born.pid)?;
        self.held.lead(Stat::read_any(born.pid).map(|stat| stat.stamp()));
        Ok(())
    }

    /// Puts the shell in, before it runs anything.
    pub fn enclose(&mut self, pid: u32) -> io::Result<()> {
        self.limit_open_files(pid)?;
        self.held.lead(Stat::read_any(pid).map(|stat| stat.stamp()));
        for group in self.held.groups() {
            match group.add(pid) {
                // The cleanup of an earlier cage of this name has just removed the empty group.
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

    /// What it starts inherits the limit and cannot raise it, unless it is root and not confined.
    fn limit_open_files(&self, pid: u32) -> io::Result<()> {
        self.held.open_files.map_or(Ok(()), |most| spawn::limit_open_files(pid, most))
    }

    /// Puts in the first process of a room. It is not listed, and not signalled except to end everyone.
    pub(crate) fn enclose_init(&mut self, pid: u32) -> io::Result<()> {
        lock(&self.held.roots).init = Stat::read_any(pid).map(|stat| stat.stamp());
        [&self.held.unified, &self.held.pids].into_iter().flatten().try_for_each(|group| group.add(pid))
    }

    /// Its shell continues in another process, in a room. Both processes in the room were born in the cage.
    pub(crate) fn move_in(&mut self, Entered { main, init }: Entered) {
        self.held.lead(Stat::read_any(main).map(|stat| stat.stamp()));
        lock(&self.held.roots).init = Stat::read_any(init).map(|stat| stat.stamp());
    }

    /// Moves the keeper of a service to a group that is not counted, and remembers it.
    pub(crate) fn enclose_keeper(&mut self, keeper: ProcessStamp) -> io::Result<()> {
        lock(&self.held.roots).keeper = Some(keeper);
        match &self.held.keepers {
            Some(path) => Group::at(path.clone()).add(keeper.pid),
            None => Ok(()),
        }
    }

    /// Remembers the ancestor of the processes that are already in it.
    pub(crate) fn recall(&mut self, keeper: ProcessStamp, main: ProcessStamp) {
        lock(&self.held.roots).keeper = Some(keeper);
        self.held.lead(Some(main));
        let init = self.members().into_iter().find(|stat| stat.pid != main.pid && proc::is_first_of_room(stat.pid));
        lock(&self.held.roots).init = init.map(|stat| stat.stamp());
    }

    /// From now on dropping it kills nothing.
    pub fn release(&mut self) {
        self.released = true;
    }

    /// All live processes in it, including the shell.
    pub fn members(&self) -> Vec<Stat> {
        self.held.members()
    }

    /// How often a process was not started, or was killed, because of the limit.
    pub fn limit_hits(&self) -> u64 {
        let limited = self.held.pids.as_ref().or(self.held.unified.as_ref());
        let of_party = self.held.party.as_ref().map_or(0, |party| party.limit_hits());
        limited.map_or(0, Group::limit_hits) + of_party + self.held.cut_back.load(Ordering::Relaxed)
    }

    /// What its party has met before the cage had a process.
    pub(crate) fn met_by_party(&self) -> Met {
        let party = self.held.party.as_ref();
        Met {
            limit_hits: party.map_or(0, |party| party.limit_hits()),
            memory_kills: party.map_or(0, |party| party.memory_kills()),
        }
    }

    /// How many processes of its party were killed because the party used too much memory.
    pub fn memory_kills(&self) -> u64 {
        self.held.party.as_ref().map_or(0, |party| party.memory_kills())
    }

    /// All processes but the shell.
    pub fn others(&self) -> Vec<Stat> {
        let main = self.held.main_pid();
        self.members().into_iter().filter(|stat| stat.pid != main).collect()
    }

    /// Sends a signal to all processes. Returns a handle on each receiver, which becomes readable when it exits.
    pub fn signal_all(&self, signal: Signal) -> Vec<OwnedFd> {
        self.held.reach(signal, <[Stat]>::to_vec)
    }

    /// Sends a signal to all processes but the shell, those in `spared`, and what those started. Returns a handle on
    /// each receiver, which becomes readable when it exits.
    pub fn signal_others(&self, signal: Signal, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        let main = self.held.main_pid();
        self.held.reach(signal, |members| victims(members, main, spared))
    }

    /// Handles on all processes but the shell, those in `spared`, and what those started.
    pub fn watch_others(&self, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        // Most have no other process than the shell, about which nothing is asked.
        let listed = self.held.unified.as_ref().and_then(|group| group.members().ok());
        if listed.is_some_and(|pids| pids.iter().all(|&pid| pid == self.held.main_pid())) {
            return Vec::new();
        }
        let victims = victims(&self.members(), self.held.main_pid(), spared);
        victims.iter().filter_map(|stat| handle::open_exact(stat.stamp())).collect()
    }

    /// Kills all processes, including the shell, whatever they ignore.
    pub fn kill_all(&self) {
        self.held.kill_all();
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        // Only an empty group can be removed, so nobody is left to be killed then.
        if self.held.unified.as_ref().is_some_and(Group::remove) {
            return;
        }
        self.kill_all();
        let is_empty = |group: &Group| group.members().is_ok_and(|members| members.is_empty());
        if let Some(group) = &self.held.unified
            && !is_empty(group)
        {
            // Removing the directory must wait for the last member, so it is not done on the caller's thread.
            let held = Arc::clone(&self.held);
            std::thread::spawn(move || [&held.unified, &held.pids].into_iter().flatten().for_each(empty::empty_out));
        }
    }
}

/// The processes that a signal should reach.
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
