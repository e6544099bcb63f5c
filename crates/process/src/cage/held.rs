//! What a cage is made of, and how everyone in it is found and reached. Shared by the cage and by those who look at all of them.

use super::party::Party;
use crate::cgroup::{Frozen, Group};
use crate::handle;
use crate::proc::{self, ProcessStamp, Stat};
use crate::sync::lock;
use rustix::process::{Pid, Signal};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The variable that carries the mark where there is no control group.
pub const MARK: &str = "SHELLKEEP_CAGE";
/// The variable by which the keeper of a service is known; what it starts does not have it.
pub const KEEPER_MARK: &str = "SHELLKEEP_KEEPS";
/// Maximum number of scans: processes may fork while one is under way.
pub(super) const PASSES: usize = 20;
/// Handles held while we signal many; fewer than any limit of open files.
const HANDLES_AT_ONCE: usize = 256;
/// How long a group may take to freeze: it takes well below a millisecond, unless someone in it hangs in the kernel.
const FREEZE_LIMIT: Duration = Duration::from_millis(50);
/// More processes than this in one cage may be a bomb.
pub(super) const MANY: usize = 32;

/// From whom everyone in a cage descends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Roots {
    /// The shell, or a service's own first process.
    pub(super) main: Option<ProcessStamp>,
    /// The one that looks after a service. Not in the cage itself.
    pub(super) keeper: Option<ProcessStamp>,
    /// The first process of a room, which the orphans of the room descend from. It runs nothing and is not listed.
    pub(super) init: Option<ProcessStamp>,
}

/// The main process of a cage: a session and a process group have its number, and no one else's can while it lives.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
}

/// What a cage is made of. Shared with the guard, which looks at all of them.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) name: String,
    /// The value of `NAME=` in the environment.
    pub(super) label: String,
    pub(super) unified: Option<Group>,
    pub(super) pids: Option<Group>,
    /// After the groups in it: they are removed first.
    pub(super) party: Option<Arc<Party>>,
    /// Where processes of no party belong, if they would begin elsewhere.
    pub(super) outside: Option<Group>,
    pub(super) keepers: Option<PathBuf>,
    /// How many it might hold when it was made, where the kernel limits it.
    pub(super) limit: Option<u64>,
    /// How many files a process that is put into it may have open.
    pub(super) open_files: Option<u64>,
    pub(super) roots: Mutex<Roots>,
    /// Whom its processes work for, as its user names them; see [`super::Belongs`].
    pub(super) assignee: OnceLock<Arc<str>>,
    /// The main process, where there is no group: so that the guard can stop it without waiting for anything.
    pub(super) leader: Mutex<Option<Arc<Leader>>>,
    /// How often it was cut back because it had too many, where no controller refuses them.
    pub(super) cut_back: AtomicU64,
    /// Some of those whom the guard has stopped to count, one at least of each process group.
    pub(super) suspects: Mutex<Vec<Stat>>,
}

impl Held {
    /// Remembers the main process.
    pub(super) fn lead(&self, main: Option<ProcessStamp>) {
        lock(&self.roots).main = main;
        if self.unified.is_none()
            && let Some((stamp, pid)) = main.and_then(|stamp| Some((stamp, handle::number(stamp.pid)?)))
            && let Some(handle) = handle::open_exact(stamp)
        {
            *lock(&self.leader) = Some(Arc::new(Leader { pid, handle }));
        }
    }

    /// All groups that its processes are in, the one of the unified hierarchy first.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        let joined = self.party.iter().flat_map(|party| party.joined());
        [&self.unified, &self.pids].into_iter().flatten().chain(joined).chain(&self.outside)
    }

    pub(super) fn party_name(&self) -> Option<&str> {
        self.party.as_ref().map(|party| party.name())
    }

    pub(super) fn main_pid(&self) -> u32 {
        lock(&self.roots).main.map_or(0, |stamp| stamp.pid)
    }

    pub(super) fn members(&self) -> Vec<Stat> {
        let roots = *lock(&self.roots);
        if roots.main.is_none() && roots.keeper.is_none() {
            return Vec::new();
        }
        let mut members: Vec<Stat> = match &self.unified {
            Some(group) => group.members().unwrap_or_default().into_iter().filter_map(Stat::read).collect(),
            None => self.marked(roots),
        };
        members.retain(|stat| Some(stat.stamp()) != roots.init);
        members
    }

    /// Without a group: descendants of the roots, and everyone who carries the mark. No one gets away from below a
    /// keeper that is alive, so then there is no need to look for marks.
    fn marked(&self, roots: Roots) -> Vec<Stat> {
        let all = proc::all().unwrap_or_default();
        let is_alive = |stamp: &ProcessStamp| all.get(&stamp.pid).is_some_and(|stat| stat.stamp() == *stamp);
        let keeper = roots.keeper.filter(is_alive).map_or(0, |stamp| stamp.pid);
        let main = roots.main.filter(is_alive).map_or(0, |stamp| stamp.pid);
        let init = roots.init.filter(is_alive).map_or(0, |stamp| stamp.pid);
        let is_root = |pid: u32| pid != 0 && (pid == main || pid == keeper || pid == init);
        let mark = format!("{MARK}={}", self.label);
        let is_ours = |stat: &&Stat| {
            stat.pid != keeper
                && (is_root(stat.pid)
                    || proc::ancestors(&all, stat.pid).any(is_root)
                    || (keeper == 0 && proc::has_mark(stat, mark.as_bytes())))
        };
        all.values().filter(is_ours).copied().collect()
    }

    /// Stops everyone for as long as the result lives. Where they cannot be frozen we work on moving targets; the passes are
    /// for that.
    pub(super) fn still(&self, limit: Duration) -> Option<Frozen> {
        self.unified.as_ref()?.freeze(limit).ok()
    }

    /// Sends a signal to those of the members that `choose` gives. The group is frozen meanwhile, so no one escapes
    /// by forking. Gives handles on them.
    pub(super) fn reach(&self, signal: Signal, choose: impl Fn(&[Stat]) -> Vec<Stat>) -> Vec<OwnedFd> {
        let _still = self.still(FREEZE_LIMIT);
        let mut handles = Vec::new();
        self.pursue(signal, choose, |handle| handles.push(handle));
        handles
    }

    /// Sends a signal to those of the members that `choose` gives, and looks again until no one new is there.
    pub(super) fn pursue(
        &self,
        signal: Signal,
        choose: impl Fn(&[Stat]) -> Vec<Stat>,
        mut reached: impl FnMut(OwnedFd),
    ) {
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

    pub(super) fn kill_all(&self) {
        if self.unified.as_ref().is_some_and(|group| group.kill().is_ok()) {
            return;
        }
        // A fork bomb grows faster than processes can be killed one at a time.
        let members = self.members();
        if self.unified.is_none() && members.len() > MANY {
            signal_process_groups(&members, Signal::STOP);
        }
        let _still = self.still(FREEZE_LIMIT);
        // The main process first: one that waits for the others would end by itself, as if no one had ended it.
        let main = self.main_pid();
        let main_first = |members: &[Stat]| {
            let mut members = members.to_vec();
            members.sort_by_key(|stat| stat.pid != main);
            members
        };
        self.pursue(Signal::KILL, main_first, drop);
        // Everyone in a room ends with its first process.
        let init = lock(&self.roots).init.and_then(handle::open_exact);
        let _ = init.map(|init| handle::send(init, Signal::KILL));
    }
}

/// Brings the process groups of these processes to a stop, or lets them continue, each with one call, however many are in
/// it. No one else is in them: a process cannot join a group of another session, and each cage began with a session of
/// its own.
pub(super) fn signal_process_groups(members: &[Stat], signal: Signal) {
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
