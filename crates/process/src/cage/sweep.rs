//! Kills what an earlier daemon left running, and nothing else.

use super::CageFactory;
use super::census::Census;
use super::empty::{empty_out, kill_members};
use super::factory::Shared;
use super::held::{KEEPER_MARK, MANY, PASSES, signal_process_groups};
use super::layout::{self, KEEPERS, WORK, cages_in};
use crate::cgroup::{Group, groups_in};
use crate::handle;
use crate::proc::{self, Stat};
use crate::sync::lock;
use rustix::process::Signal;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

impl Shared {
    /// Removes something everywhere, except what is of parties that have left files in memory.
    fn in_each_base(&self, remove: impl Fn(&Path, &HashSet<u64>)) {
        // What is elsewhere has other numbers, and cannot be used again.
        self.elsewhere.iter().for_each(|base| remove(base, &HashSet::new()));
        let charged = self.parties.keep_charged(*lock(&self.limits));
        let own = self.unified.iter().chain(&self.pids).map(PathBuf::as_path);
        own.chain(self.parties.apart()).for_each(|base| remove(base, &charged));
    }

    fn bases(&self) -> Vec<PathBuf> {
        let mut bases: Vec<PathBuf> = self.unified.iter().chain(&self.elsewhere).cloned().collect();
        bases.extend(self.pids.iter().filter(|path| Some(*path) != self.unified.as_ref()).cloned());
        bases
    }
}

impl CageFactory {
    /// Kills everything in cages that are not in `keep`, and keepers of none of those. Returns the killed processes.
    pub fn sweep(&self, keep: &HashSet<String>) -> HashSet<u32> {
        let mut ended = self.sweep_groups(keep);
        ended.extend(self.sweep_marks(keep));
        ended.extend(self.sweep_keepers(keep));
        self.shared.in_each_base(layout::remove_parties);
        ended
    }

    /// Kills everything but what is in `keep`, and removes the instance's own groups if they are empty then.
    pub fn remove(&self, keep: &HashSet<String>) {
        self.sweep(keep);
        self.shared.parties.leave();
        self.shared.in_each_base(layout::remove);
    }

    fn sweep_groups(&self, keep: &HashSet<String>) -> HashSet<u32> {
        let is_kept = |path: &PathBuf| path.file_name().is_some_and(|name| keep.contains(&*name.to_string_lossy()));
        let mut doomed: Vec<Group> = Vec::new();
        for base in self.shared.bases() {
            // Earlier versions had their cages beside, not in, the group for work.
            let beside = groups_in(&base).into_iter().filter(|path| !path.ends_with(WORK) && !path.ends_with(KEEPERS));
            let all = cages_in(&base).into_iter().chain(beside);
            doomed.extend(all.filter(|path| !is_kept(path)).map(Group::owned));
        }
        let mut ended = HashSet::new();
        // All are signalled before any is waited for.
        for group in &doomed {
            ended.extend(group.members().unwrap_or_default());
            kill_members(group);
        }
        doomed.iter().for_each(empty_out);
        ended
    }

    fn sweep_marks(&self, keep: &HashSet<String>) -> HashSet<u32> {
        let spared = lineage(std::process::id());
        let mut ended = HashSet::new();
        for _ in 0..PASSES {
            let census = Census::take(&self.shared.instance, &[]);
            let is_stray = |(stat, name): &&(Stat, String)| {
                !keep.contains(name) && !spared.contains(&stat.pid) && !ended.contains(&stat.stamp())
            };
            let strays: Vec<Stat> = census.inhabitants.iter().filter(is_stray).map(|(stat, _)| *stat).collect();
            if strays.len() > MANY {
                signal_process_groups(&strays, Signal::STOP);
            }
            let before = ended.len();
            // One whose children were ended first may have gone by itself.
            strays.iter().for_each(end);
            ended.extend(strays.iter().map(Stat::stamp));
            if ended.len() == before {
                break;
            }
        }
        ended.into_iter().map(|stamp| stamp.pid).collect()
    }

    /// Keepers last: while they live, everything that they started can be found below them.
    fn sweep_keepers(&self, keep: &HashSet<String>) -> HashSet<u32> {
        let prefix = format!("{KEEPER_MARK}={}/", self.shared.instance).into_bytes();
        let mut ended = HashSet::new();
        for base in self.shared.bases() {
            let group = Group::at(base.join(KEEPERS));
            for pid in group.members().unwrap_or_default() {
                // What is read after the handle is there is about the process behind the handle, or that has ended.
                let Some(handle) = handle::open(pid) else { continue };
                let name = proc::mark_after(pid, &prefix);
                if name.is_some_and(|name| !keep.contains(&name)) && handle::send(&handle, Signal::KILL) {
                    ended.insert(pid);
                }
            }
        }
        let census = Census::take(&self.shared.instance, &[]);
        let strays = census.keepers.iter().filter(|(_, name)| !keep.contains(name));
        for (stat, _) in strays {
            end(stat);
            ended.insert(stat.pid);
        }
        ended
    }
}

fn end(stat: &Stat) {
    if let Some(handle) = handle::open_exact(stat.stamp()) {
        handle::send(&handle, Signal::KILL);
    }
}

/// A process and those it descends from: a daemon may have been started inside a session.
fn lineage(pid: u32) -> HashSet<u32> {
    let all = proc::all().unwrap_or_default();
    proc::ancestors(&all, pid).chain([pid]).collect()
}
