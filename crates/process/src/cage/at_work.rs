//! Whose processes work although nobody waits for them: what commands have left running.

use super::CageFactory;
use super::census::Census;
use crate::proc::{ProcessStamp, Stat};
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The assignees of cages in which more runs than one thread of one process, which is all that a shell without work has. Looks
/// at every cage, so not on a hot path.
pub fn assignees_at_work(factory: &CageFactory) -> HashSet<Arc<str>> {
    let cages = factory.cages();
    let threads: HashMap<String, u64> = if factory.has_groups() {
        cages.iter().map(|cage| (cage.name.clone(), threads_of(&cage.members()))).collect()
    } else {
        // The first process of a room runs nothing.
        let idle: HashSet<ProcessStamp> = cages.iter().filter_map(|cage| lock(&cage.roots).init).collect();
        let mut threads = HashMap::new();
        for (stat, name) in Census::take(&factory.shared.instance, &cages).inhabitants {
            if !idle.contains(&stat.stamp()) {
                *threads.entry(name).or_default() += stat.threads;
            }
        }
        threads
    };
    let works = cages.iter().filter(|cage| threads.get(&cage.name).is_some_and(|threads| *threads > 1));
    works.filter_map(|cage| cage.assignee.get().cloned()).collect()
}

fn threads_of(members: &[Stat]) -> u64 {
    members.iter().map(|stat| stat.threads).sum()
}
