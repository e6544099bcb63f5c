//! The processes of one shell: all of them, whatever they did to get away. A cage is a control group where the machine
//! has one; elsewhere it is a mark in the environment that every descendant inherits, found by reading `/proc`.

use crate::cgroup::{Group, Mounts};
use crate::proc::{self, ProcessStamp, Stat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The variable that carries the mark where there is no control group.
pub const MARK: &str = "SHELLKEEP_CAGE";
/// A process may fork while we look for it; we look again so many times at most.
const PASSES: usize = 20;

/// Makes cages, all under one name, so that those of a daemon that died are found again.
#[derive(Debug)]
pub struct CageFactory {
    instance: String,
    unified: Option<PathBuf>,
    pids: Option<PathBuf>,
    processes: u64,
}

impl CageFactory {
    /// Finds out what this machine offers. `instance` is the same for every daemon on one data directory; `processes`
    /// is the most one shell and its descendants may be.
    pub fn detect(instance: &str, processes: u64) -> Self {
        let mounts = Mounts::find();
        let unified = mounts.unified.and_then(|own| usable(&own.join(instance)));
        let v1 = mounts.pids_v1.and_then(|own| usable(&own.join(instance)));
        let pids = unified.clone().filter(|path| offers_pids(path)).or(v1);
        Self { instance: instance.to_owned(), unified, pids, processes }
    }

    /// Whether processes are held by a control group.
    pub fn has_groups(&self) -> bool {
        self.unified.is_some()
    }

    /// Whether the number of processes can be limited.
    pub fn has_limit(&self) -> bool {
        self.pids.is_some()
    }

    /// Ends whatever an earlier daemon of this instance left running. Returns whom.
    pub fn sweep(&self) -> HashSet<u32> {
        let mut ended = HashSet::new();
        for base in [&self.unified, &self.pids].into_iter().flatten() {
            for entry in fs::read_dir(base).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    ended.extend(empty_out(entry.path()));
                }
            }
        }
        if self.unified.is_none() {
            ended.extend(self.sweep_marks());
        }
        ended
    }

    /// Ends everything and removes the instance's own groups.
    pub fn remove(&self) {
        self.sweep();
        for base in [&self.unified, &self.pids].into_iter().flatten() {
            let _ = fs::remove_dir(base);
        }
    }

    fn sweep_marks(&self) -> HashSet<u32> {
        let prefix = format!("{MARK}={}/", self.instance);
        let mut ended = HashSet::new();
        for pid in proc::all().unwrap_or_default().into_keys() {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_ours = environment.split(|&b| b == 0).any(|entry| entry.starts_with(prefix.as_bytes()));
            if is_ours && send(pid, Signal::KILL).is_some() {
                ended.insert(pid);
            }
        }
        ended
    }

    /// Makes a cage. `name` is unique within the instance.
    pub fn cage(&self, name: &str) -> Cage {
        let make = |base: &Option<PathBuf>| base.as_ref().and_then(|base| Group::create(base.join(name)).ok());
        let unified = make(&self.unified);
        let separate_pids = if self.pids == self.unified { None } else { make(&self.pids) };
        if let Some(limited) = separate_pids.as_ref().or(unified.as_ref()) {
            // Without the controller there is no such file; then only the count is known, not limited.
            let _ = limited.limit_processes(self.processes);
        }
        Cage { mark: format!("{MARK}={}/{name}", self.instance), unified, pids: separate_pids, shell: 0 }
    }
}

fn usable(path: &Path) -> Option<PathBuf> {
    match fs::create_dir(path) {
        Ok(()) => Some(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(path.to_owned()),
        Err(_) => None,
    }
}

/// Whether groups made below `path` get a pids controller; switches it on where we may.
fn offers_pids(path: &Path) -> bool {
    let listed =
        |file: &Path| fs::read_to_string(file).unwrap_or_default().split_whitespace().any(|name| name == "pids");
    if !listed(&path.join("cgroup.controllers")) {
        let Some(parent) = path.parent() else { return false };
        if fs::write(parent.join("cgroup.subtree_control"), "+pids").is_err() {
            return false;
        }
    }
    fs::write(path.join("cgroup.subtree_control"), "+pids").is_ok()
}

fn empty_out(path: PathBuf) -> HashSet<u32> {
    let mut ended = HashSet::new();
    let Ok(group) = Group::create(path) else { return ended };
    for _ in 0..PASSES {
        let members = group.members().unwrap_or_default();
        if members.is_empty() {
            break;
        }
        ended.extend(&members);
        if group.kill().is_err() {
            for pid in members {
                send(pid, Signal::KILL);
            }
        }
        wait_empty(&group);
    }
    ended
}

/// A killed process leaves its group a moment later; the directory can be removed only then.
fn wait_empty(group: &Group) {
    for _ in 0..200 {
        if group.members().map_or(true, |members| members.is_empty()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The processes of one shell.
#[derive(Debug)]
pub struct Cage {
    mark: String,
    unified: Option<Group>,
    pids: Option<Group>,
    shell: u32,
}

impl Cage {
    /// A cage that holds nobody.
    pub(crate) fn empty() -> Self {
        Self { mark: String::new(), unified: None, pids: None, shell: 0 }
    }

    /// The mark to start the shell with, where the environment must carry it.
    pub fn mark(&self) -> Option<&str> {
        self.unified.is_none().then_some(self.mark.as_str())
    }

    /// Puts the shell in, before it runs anything.
    pub fn enclose(&mut self, pid: u32) -> io::Result<()> {
        self.shell = pid;
        for group in [&self.unified, &self.pids].into_iter().flatten() {
            group.add(pid)?;
        }
        Ok(())
    }

    /// Everyone in it that is alive, the shell included.
    pub fn members(&self) -> Vec<Stat> {
        if self.shell == 0 {
            return Vec::new();
        }
        match &self.unified {
            Some(group) => group.members().unwrap_or_default().into_iter().filter_map(Stat::read).collect(),
            None => self.marked(),
        }
    }

    /// Without a group: descendants of the shell, and everyone who carries the mark.
    fn marked(&self) -> Vec<Stat> {
        let all = proc::all().unwrap_or_default();
        let is_ours = |stat: &&Stat| {
            stat.pid == self.shell
                || ancestors(&all, stat.pid).any(|pid| pid == self.shell)
                || proc::has_mark(stat.pid, self.mark.as_bytes())
        };
        all.values().filter(is_ours).copied().collect()
    }

    /// How often something was not started because there were too many already.
    pub fn limit_hits(&self) -> u64 {
        self.pids.as_ref().or(self.unified.as_ref()).map_or(0, Group::limit_hits)
    }

    /// Everyone but the shell.
    pub fn others(&self) -> Vec<Stat> {
        self.members().into_iter().filter(|stat| stat.pid != self.shell).collect()
    }

    /// Sends a signal to everyone but the shell, those in `spared`, and what those started. Gives a handle on each
    /// receiver, which becomes readable when it ends. The group stands still meanwhile, so nobody escapes by forking.
    pub fn signal_others(&self, signal: Signal, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        let frozen = self.unified.as_ref().is_some_and(|group| group.freeze(true).is_ok());
        let mut reached: HashMap<ProcessStamp, OwnedFd> = HashMap::new();
        for _ in 0..PASSES {
            let before = reached.len();
            for stat in victims(&self.members(), self.shell, spared) {
                if let std::collections::hash_map::Entry::Vacant(slot) = reached.entry(stat.stamp())
                    && let Some(handle) = send(stat.pid, signal)
                {
                    slot.insert(handle);
                }
            }
            if frozen || reached.len() == before {
                break;
            }
        }
        if let (true, Some(group)) = (frozen, &self.unified) {
            let _ = group.freeze(false);
        }
        reached.into_values().collect()
    }

    /// Handles on everyone but the shell, those in `spared`, and what those started.
    pub fn watch_others(&self, spared: &[ProcessStamp]) -> Vec<OwnedFd> {
        victims(&self.members(), self.shell, spared).iter().filter_map(|stat| open(stat.pid)).collect()
    }

    /// Ends everyone, the shell included, whatever they ignore.
    pub fn kill_all(&self) {
        if self.unified.as_ref().is_some_and(|group| group.kill().is_ok()) {
            return;
        }
        for _ in 0..PASSES {
            let members = self.members();
            if members.is_empty() {
                return;
            }
            for stat in members {
                send(stat.pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        self.kill_all();
        if let Some(group) = &self.unified
            && group.members().is_ok_and(|members| !members.is_empty())
        {
            // Removing the directory must wait for the last member; that is no business of the caller's thread.
            let paths: Vec<PathBuf> =
                [&self.unified, &self.pids].into_iter().flatten().map(|group| group.path().to_owned()).collect();
            std::thread::spawn(move || {
                paths.into_iter().for_each(|path| {
                    empty_out(path);
                })
            });
        }
    }
}

/// Those a signal should reach.
fn victims(members: &[Stat], shell: u32, spared: &[ProcessStamp]) -> Vec<Stat> {
    let by_pid: HashMap<u32, Stat> = members.iter().map(|stat| (stat.pid, *stat)).collect();
    let spared: HashSet<u32> = spared
        .iter()
        .filter(|stamp| by_pid.get(&stamp.pid).is_some_and(|stat| stat.stamp() == **stamp))
        .map(|s| s.pid)
        .collect();
    let is_victim = |stat: &&Stat| {
        stat.pid != shell
            && !spared.contains(&stat.pid)
            && !ancestors(&by_pid, stat.pid).any(|pid| spared.contains(&pid))
    };
    members.iter().filter(is_victim).copied().collect()
}

/// Parents, grandparents, …, as far as they are known. Bounded, in case the table changed under us and has a circle.
fn ancestors(all: &HashMap<u32, Stat>, pid: u32) -> impl Iterator<Item = u32> {
    let mut at = pid;
    (0..all.len()).map_while(move |_| {
        at = all.get(&at)?.parent;
        Some(at)
    })
}

/// Sends a signal through a handle, so that it can never reach a process that was given the number since.
pub fn send(pid: u32, signal: Signal) -> Option<OwnedFd> {
    let handle = open(pid)?;
    pidfd_send_signal(&handle, signal).ok()?;
    Some(handle)
}

/// A handle on a process.
pub(crate) fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::NONBLOCK).ok()
}

/// Waits until the processes behind these handles have ended.
pub async fn gone(handles: Vec<OwnedFd>) {
    for handle in handles {
        if let Ok(handle) = crate::stdio::watch(handle, tokio::io::Interest::READABLE) {
            let _ = handle.readable().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32) -> Stat {
        Stat { pid, parent, state: b'S', started_ticks: u64::from(pid) }
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
