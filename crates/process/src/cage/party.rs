//! A party: cages that share limits of processes and memory, and a fair part of the processors.
//!
//! Its cages are groups in the group of the party. Memory and processors are limited for the party only, so no cage needs a
//! group of its own for them; where they have hierarchies of their own (version 1), its processes join the party's.

use super::layout::{WORK, numbers_in, of_party};
use super::own_share::{MOST_SHARES, OwnShare};
use super::party_groups::{PartyGroups, Unused, has_left_files_in_memory};
use super::party_notes::PartyNotes;
use crate::cgroup::{self, Group, Mounts};
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// How much cages may use. Processes are counted as the kernel counts them: each thread is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processes in one cage.
    pub per_cage: u64,
    /// Processes in all cages of a party.
    pub per_party: u64,
    /// Processes in all cages together.
    pub node: u64,
    /// Bytes of memory in all cages of a party, and of files in memory that it has left, where a controller limits them.
    pub memory_per_party: u64,
    /// Files that one process in a cage may have open.
    pub open_files: u64,
}

/// Where one controller is.
#[derive(Debug)]
enum Controller {
    /// In the unified hierarchy.
    Unified,
    /// In a hierarchy of version 1: the instance's group, made when the first party needs it.
    Apart(PathBuf),
    /// Nowhere.
    Missing,
}

/// Where the groups of parties are, and the parties that exist.
#[derive(Debug)]
pub(super) struct Parties {
    unified: Option<PathBuf>,
    pids: Option<PathBuf>,
    memory: Controller,
    cpu: Controller,
    /// Our own part of the processors, where those have a hierarchy of version 1.
    own: Option<OwnShare>,
    notes: PartyNotes,
    live: Arc<Mutex<Live>>,
}

/// The parties that have a cage, and groups that had a party. To make and remove groups takes as long as to start a shell,
/// so they are used again.
#[derive(Debug, Default)]
struct Live {
    parties: HashMap<String, Weak<Party>>,
    unused: Unused,
    last: u64,
}

/// A party. Its groups are unused when it is dropped.
#[derive(Debug)]
pub(super) struct Party {
    name: String,
    groups: PartyGroups,
    /// How many of its processes were killed for its memory where no controller limits that.
    killed: AtomicU64,
    live: Arc<Mutex<Live>>,
}

impl Parties {
    /// Parties whose cages are below these groups of the instance. Changes nothing.
    pub(super) fn new(mounts: &Mounts, instance: &str, unified: Option<&Path>, pids: Option<&Path>) -> Self {
        let find = |name: &str, base: Option<PathBuf>| match (unified.and_then(Path::parent), base) {
            (Some(parent), _) if cgroup::offers(parent, name) => Controller::Unified,
            (Some(_), Some(base)) => Controller::Apart(base),
            _ => Controller::Missing,
        };
        let memory = mounts.memory_v1.as_ref().filter(|own| cgroup::may_make_groups(own));
        let own = mounts.cpu_v1.as_ref().map(|now| OwnShare::new(now, instance)).filter(OwnShare::can_make_groups);
        Self {
            memory: find("memory", memory.map(|own| own.join(instance))),
            cpu: find("cpu", own.as_ref().and_then(OwnShare::base).map(Path::to_owned)),
            own,
            unified: unified.map(Path::to_owned),
            pids: pids.map(Path::to_owned),
            notes: PartyNotes::default(),
            live: Arc::default(),
        }
    }

    /// Parties that nothing limits but the guard.
    pub(super) fn without_controllers(unified: Option<&Path>) -> Self {
        let unified = unified.map(Path::to_owned);
        let (memory, cpu) = (Controller::Missing, Controller::Missing);
        Self { unified, pids: None, memory, cpu, own: None, notes: PartyNotes::default(), live: Arc::default() }
    }

    /// Notes in this directory whose groups are whose.
    pub(super) fn note_in(&self, directory: PathBuf) {
        self.notes.keep_in(directory);
    }

    pub(super) fn limits_memory(&self) -> bool {
        !matches!(self.memory, Controller::Missing)
    }

    /// The party of this name: the one that exists, or a new one.
    pub(super) fn get(&self, name: &str, limits: Limits) -> Arc<Party> {
        self.get_or(name, |live| live.unused.take(name).unwrap_or_else(|| self.make_next(live, limits)))
    }

    /// The same, where a cage of the party is in the groups with this number already.
    pub(super) fn get_at(&self, name: &str, number: u64, limits: Limits) -> Arc<Party> {
        self.get_or(name, |live| {
            live.unused.forget(number);
            self.make(number, limits)
        })
    }

    fn get_or(&self, name: &str, groups: impl FnOnce(&mut Live) -> PartyGroups) -> Arc<Party> {
        let mut live = lock(&self.live);
        if let Some(party) = live.parties.get(name).and_then(Weak::upgrade) {
            return party;
        }
        let groups = groups(&mut live);
        groups.unified.iter().for_each(|group| self.notes.put(groups.number, group, name));
        let party =
            Arc::new(Party { name: name.to_owned(), groups, killed: AtomicU64::new(0), live: Arc::clone(&self.live) });
        live.parties.insert(name.to_owned(), Arc::downgrade(&party));
        party
    }

    /// The party of this name, if it has a cage.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Party>> {
        lock(&self.live).parties.get(name).and_then(Weak::upgrade)
    }

    pub(super) fn set_limits(&self, limits: Limits) {
        let live = lock(&self.live);
        live.unused.iter().for_each(|groups| self.limit(groups, limits));
        let parties: Vec<Arc<Party>> = live.parties.values().filter_map(Weak::upgrade).collect();
        // One that is dropped here for the last time needs the lock.
        drop(live);
        parties.iter().for_each(|party| self.limit(&party.groups, limits));
    }

    /// The group for processes of no party, if they would begin in this process's own.
    pub(super) fn outside(&self) -> Option<Group> {
        self.own.as_ref()?.outside()
    }

    /// Gives up this process's own part of the processors.
    pub(super) fn leave(&self) {
        self.own.iter().for_each(OwnShare::leave);
    }

    /// This instance's groups in hierarchies that only parties need.
    pub(super) fn apart(&self) -> impl Iterator<Item = &Path> {
        [&self.memory, &self.cpu].into_iter().filter_map(|controller| match controller {
            Controller::Apart(base) => Some(base.as_path()),
            Controller::Unified | Controller::Missing => None,
        })
    }

    /// The numbers of parties that have left files in memory, also to an earlier daemon. Those without a cage keep their
    /// groups for when they have one again.
    pub(super) fn keep_charged(&self, limits: Limits) -> HashSet<u64> {
        let Some(unified) = &self.unified else { return HashSet::new() };
        let memory = match &self.memory {
            Controller::Unified => unified,
            Controller::Apart(base) => base,
            Controller::Missing => return HashSet::new(),
        };
        let mut live = lock(&self.live);
        let live_parties: Vec<Arc<Party>> = live.parties.values().filter_map(Weak::upgrade).collect();
        let known = live_parties.iter().map(|party| &party.groups).chain(live.unused.iter());
        let known: HashSet<u64> = known.map(|groups| groups.number).collect();
        let mut charged = HashSet::new();
        for number in numbers_in(unified) {
            let Some(name) = self.notes.name(number, &of_party(unified, number)) else { continue };
            if !has_left_files_in_memory(memory, number) {
                continue;
            }
            charged.insert(number);
            if !known.contains(&number) {
                live.unused.put(name, self.make(number, limits));
            }
        }
        // One that is dropped here for the last time needs the lock.
        drop(live);
        charged
    }

    /// Makes groups with a number that no party has, also none of an earlier daemon.
    fn make_next(&self, live: &mut Live, limits: Limits) -> PartyGroups {
        let is_taken = |number: u64| self.unified.as_ref().is_some_and(|base| of_party(base, number).exists());
        live.last += 1;
        while is_taken(live.last) {
            live.last += 1;
        }
        self.make(live.last, limits)
    }

    fn make(&self, number: u64, limits: Limits) -> PartyGroups {
        let make = |base: &Path| {
            let group = Group::at(of_party(base, number));
            group.create_again().ok().map(|()| group)
        };
        let apart = |controller: &Controller, name: &str| match (controller, &self.unified) {
            (Controller::Apart(base), _) => {
                fs::create_dir_all(base.join(WORK)).ok()?;
                make(base)
            }
            (Controller::Unified, Some(base)) => {
                cgroup::switch_on(&[base, &base.join(WORK)], name);
                None
            }
            _ => None,
        };
        let (memory, cpu) = (apart(&self.memory, "memory"), apart(&self.cpu, "cpu"));
        if let Controller::Apart(base) = &self.cpu {
            for group in [base.clone(), base.join(WORK)] {
                // Where it cannot be set, the host has decided.
                let _ = Group::at(group).set("cpu.shares", MOST_SHARES);
            }
            self.own.iter().for_each(OwnShare::enter);
        }
        let unified = self.unified.as_deref().and_then(make);
        let pids = if self.pids == self.unified { None } else { self.pids.as_deref().and_then(make) };
        if let (Some(group), None, Some(_)) = (&unified, &pids, &self.pids) {
            cgroup::switch_on(&[group.path()], "pids");
        }
        let groups = PartyGroups { number, unified, pids, memory, cpu };
        self.limit(&groups, limits);
        groups
    }

    /// Sets what this machine can limit.
    fn limit(&self, groups: &PartyGroups, limits: Limits) {
        if let (Some(group), Some(_)) = (groups.counting(), &self.pids) {
            let _ = group.limit_processes(limits.per_party);
        }
        match (&self.memory, &groups.memory, &groups.unified) {
            (Controller::Unified, _, Some(group)) => group.limit_memory(limits.memory_per_party),
            (Controller::Apart(_), Some(group), _) => group.limit_memory_v1(limits.memory_per_party),
            _ => {}
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let mut live = lock(&self.live);
        live.unused.put(self.name.clone(), std::mem::take(&mut self.groups));
        // Another of the same name may have been made since.
        if live.parties.get(&self.name).is_some_and(|party| party.strong_count() == 0) {
            live.parties.remove(&self.name);
        }
    }
}

impl Party {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where its cages are, in the hierarchy that has this instance's group at `base`.
    pub(super) fn directory(&self, base: &Path) -> PathBuf {
        of_party(base, self.groups.number)
    }

    /// The groups of version 1 that its processes join beside those of their cage.
    pub(super) fn joined(&self) -> impl Iterator<Item = &Group> {
        [&self.groups.memory, &self.groups.cpu].into_iter().flatten()
    }

    /// How many processes it has, where a controller counts them.
    pub(super) fn counted(&self) -> Option<u64> {
        self.groups.counting()?.counted()
    }

    /// How often a process was not started because of the limit of the party; 0 where each cage counts that itself.
    pub(super) fn limit_hits(&self) -> u64 {
        self.groups.counting().map_or(0, Group::limit_hits)
    }

    /// How many of its processes were killed because it used too much memory.
    pub(super) fn memory_kills(&self) -> u64 {
        let by_kernel = self.groups.charged().map_or(0, Group::memory_kills);
        by_kernel + self.killed.load(Ordering::Relaxed)
    }

    /// One of its processes is about to be killed because it uses too much memory.
    pub(super) fn killed_for_memory(&self) {
        self.killed.fetch_add(1, Ordering::Relaxed);
    }
}
