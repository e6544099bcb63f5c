//! Who belongs to which cage where there are no groups: one look at `/proc` for all cages together.

use super::held::{Held, KEEPER_MARK, MARK};
use crate::proc::{self, ProcessStamp, Stat};
use crate::sync::lock;
use std::collections::HashMap;
use std::sync::Arc;

/// What was read in the environments of processes that no cage's root explains: the cage that each is in, or keeps. To
/// read one again and again is slow, and blocks while its owner forks and is not let run.
#[derive(Debug, Default)]
pub(super) struct Marks {
    read: HashMap<ProcessStamp, [Option<String>; 2]>,
}

/// Everyone who belongs to a cage of one instance, by name of the cage.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Cage by process.
    pub(super) inhabitants: Vec<(Stat, String)>,
    /// Keepers, and the cage that each looks after.
    pub(super) keepers: Vec<(Stat, String)>,
}

impl Census {
    /// Looks at everyone.
    pub(super) fn take(instance: &str, cages: &[Arc<Held>]) -> Self {
        Self::retake(instance, cages, &mut Marks::default())
    }

    /// Looks at everyone again, and into the environment only of those who were not there before.
    pub(super) fn retake(instance: &str, cages: &[Arc<Held>], marks: &mut Marks) -> Self {
        let all = proc::all().unwrap_or_default();
        // Of one whose first thread has ended, another thread is read, which may have ended meanwhile: nothing is not believed.
        let is_known =
            |stat: &Stat, read: &[Option<String>]| !stat.has_zombie_leader() || read.iter().any(Option::is_some);
        marks.read.retain(|stamp, read| {
            all.get(&stamp.pid).is_some_and(|stat| stat.stamp() == *stamp && is_known(stat, read))
        });
        Self::among(&all, instance, cages, marks)
    }

    /// Sorts those in `all`. Who descends from a root of one of `cages` is known without a look at his environment;
    /// and who has lost the mark, by an ancestor who has it.
    fn among(all: &HashMap<u32, Stat>, instance: &str, cages: &[Arc<Held>], marks: &mut Marks) -> Self {
        let mut names: HashMap<u32, String> = HashMap::new();
        let mut keepers: HashMap<u32, String> = HashMap::new();
        // A session's number is its first process's, and belongs to it for as long as that lives.
        let mut sessions: HashMap<u32, String> = HashMap::new();
        let is_alive = |stamp: &ProcessStamp| all.get(&stamp.pid).is_some_and(|stat| stat.stamp() == *stamp);
        for cage in cages {
            let roots = *lock(&cage.roots);
            if let Some(main) = roots.main.filter(is_alive) {
                names.insert(main.pid, cage.name.clone());
                sessions.insert(main.pid, cage.name.clone());
            }
            if let Some(keeper) = roots.keeper.filter(is_alive) {
                keepers.insert(keeper.pid, cage.name.clone());
            }
        }
        // To read an environment may take long while its owner forks, so a process that is known otherwise is skipped.
        for stat in all.values() {
            if let Some(name) = sessions.get(&stat.session) {
                names.entry(stat.pid).or_insert_with(|| name.clone());
            }
        }
        let prefix = |variable: &str| format!("{variable}={instance}/").into_bytes();
        let (cage_prefix, keeper_prefix) = (prefix(MARK), prefix(KEEPER_MARK));
        let is_known = |pid: &u32| names.contains_key(pid) || keepers.contains_key(pid);
        let unknown: Vec<&Stat> = (all.values())
            .filter(|stat| !is_known(&stat.pid) && !proc::ancestors(all, stat.pid).any(|above| is_known(&above)))
            .collect();
        for stat in unknown {
            let read = || proc::marks_after(stat, [&cage_prefix, &keeper_prefix]);
            let [cage, keeper] = marks.read.entry(stat.stamp()).or_insert_with(read).clone();
            if let Some(name) = cage {
                names.insert(stat.pid, name);
            } else if let Some(name) = keeper {
                keepers.insert(stat.pid, name);
            }
        }
        let of = |pid: u32| names.get(&pid).or_else(|| keepers.get(&pid));
        let lookup = |stat: &Stat| {
            let name = of(stat.pid).or_else(|| proc::ancestors(all, stat.pid).find_map(of))?;
            Some((*stat, name.clone()))
        };
        let found = all.values().filter(|stat| !keepers.contains_key(&stat.pid)).filter_map(lookup).collect();
        let keepers = keepers.iter().filter_map(|(pid, name)| Some((*all.get(pid)?, name.clone()))).collect();
        Self { inhabitants: found, keepers }
    }

    /// How many threads each cage has.
    pub(super) fn threads(&self) -> HashMap<&str, u64> {
        let mut counts = HashMap::new();
        for (stat, name) in &self.inhabitants {
            *counts.entry(name.as_str()).or_default() += stat.threads;
        }
        counts
    }
}
