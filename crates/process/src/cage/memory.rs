//! Holds the memory of parties where no controller does: looks at what their processes use, and ends the largest.

use super::CageFactory;
use super::held::Held;
use crate::handle;
use crate::proc::{self, Stat};
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two looks. A program that only allocates gets some hundred megabytes meanwhile.
const LOOK: Duration = Duration::from_millis(200);

/// Limits the memory of parties for as long as this is awaited. Returns at once if the kernel does.
pub async fn guard_memory(factory: &CageFactory) {
    if factory.has_memory_limit() {
        return;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        let factory = factory.clone();
        // What was not seen this time is seen the next.
        let _ = tokio::task::spawn_blocking(move || hold(&factory)).await;
    }
}

/// Ends the largest process of each party that uses more than it may.
fn hold(factory: &CageFactory) {
    let most = factory.limits().memory_per_party;
    // If the whole machine uses less than one party may, none is over its limit.
    if crate::machine::memory_in_use().is_some_and(|used| used <= most) {
        return;
    }
    let cages: Vec<Arc<Held>> = factory.cages().into_iter().filter(|cage| cage.party.is_some()).collect();
    let names: HashSet<String> = cages.iter().map(|cage| cage.name.clone()).collect();
    let mut members = factory.members_of(&names);
    let mut parties: HashMap<&str, Vec<&Arc<Held>>> = HashMap::new();
    for cage in &cages {
        parties.entry(cage.party_name().unwrap_or_default()).or_default().push(cage);
    }
    for of_party in parties.into_values() {
        let stats = of_party.iter().flat_map(|cage| members.remove(&cage.name).unwrap_or_default());
        let used: Vec<(u64, Stat)> = stats.map(|stat| (proc::own_memory(&stat).unwrap_or(0), stat)).collect();
        if used.iter().map(|(bytes, _)| bytes).sum::<u64>() <= most {
            continue;
        }
        let largest = used.into_iter().max_by_key(|(bytes, _)| *bytes).map(|(_, stat)| stat.stamp());
        if let (Some(process), Some(party)) = (largest.and_then(handle::open_exact), &of_party[0].party) {
            party.killed_for_memory();
            handle::send(&process, Signal::KILL);
        }
    }
}
