//! Whose processes work although nobody waits for them: what commands have left running.

use super::CageFactory;
use super::census::Census;
use crate::proc::Stat;
use crate::sync::lock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The assignees of cages in which something besides an idle shell is: another process, or a second thread of the shell's. A
/// command that has taken the place of its shell looks like an idle one. Looks at every cage, so not on a hot path.
pub fn assignees_at_work(factory: &CageFactory) -> HashSet<Arc<str>> {
    let cages = factory.cages();
    let mut members: HashMap<String, Vec<Stat>> = HashMap::new();
    if factory.has_groups() {
        members.extend(cages.iter().map(|cage| (cage.name.clone(), cage.members())));
    } else {
        for (stat, name) in Census::take(&factory.shared.instance, &cages).inhabitants {
            members.entry(name).or_default().push(stat);
        }
    }
    let works = cages.iter().filter(|cage| {
        let roots = lock(&cage.roots);
        let works = |stat: &Stat| match Some(stat.stamp()) {
            // The first process of a room runs nothing.
            stamp if stamp == roots.init => false,
            stamp => stat.threads > 1 || stamp != roots.main,
        };
        members.get(&cage.name).is_some_and(|members| members.iter().any(works))
    });
    works.filter_map(|cage| cage.assignee.get().cloned()).collect()
}
