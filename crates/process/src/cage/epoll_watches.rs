//! Frees what the kernel lets one user watch with epoll, when processes of a party have used it up. All processes of the
//! daemon's user share that number with the daemon, who then cannot wait for a new shell; no limit of the kernel is for fewer
//! processes than those of a user. So the processes that watch most are ended, of the party that watches most.

use super::CageFactory;
use super::held::Held;
use crate::handle;
use crate::proc::{self, ProcessStamp, Stat};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two looks. A look is two system calls.
const LOOK: Duration = Duration::from_millis(500);
/// How long the kernel may take to free what a process had that was ended, before more are.
const FREED_IN: Duration = Duration::from_millis(300);
const FREED_LOOK: Duration = Duration::from_millis(10);
/// A process that watches less is not ended: a server with a thousand connections is none that uses up millions.
const FEW: u64 = 4096;
/// Of one process no more are counted: the kernel writes a line for each.
const MOST_COUNTED: u64 = 1 << 20;
/// What a descriptor of epoll is called in `/proc`.
const EPOLL: &str = "anon_inode:[eventpoll]";

/// Processes that were ended because they left no others anything to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwatched {
    /// The party that they were of.
    pub party: String,
    pub processes: usize,
}

/// Frees watches when there are none, for as long as this is awaited. `report` is called with whose processes were ended.
pub async fn guard_watches(factory: &CageFactory, report: impl Fn(Unwatched)) {
    // Without descriptors there is nothing to look with, and no shell either.
    let Ok(probe) = Probe::new() else { return };
    let probe = Arc::new(probe);
    loop {
        tokio::time::sleep(LOOK).await;
        if probe.has_room() {
            continue;
        }
        let (factory, probe) = (factory.clone(), Arc::clone(&probe));
        let freed = tokio::task::spawn_blocking(move || free(&factory, &probe)).await;
        freed.unwrap_or_default().into_iter().for_each(&report);
    }
}

/// Something to watch, and who would.
#[derive(Debug)]
struct Probe {
    watcher: OwnedFd,
    watched: OwnedFd,
}

impl Probe {
    fn new() -> Result<Self, Errno> {
        Ok(Self { watcher: epoll::create(CreateFlags::CLOEXEC)?, watched: eventfd(0, EventfdFlags::CLOEXEC)? })
    }

    /// Whether this user may watch something more.
    fn has_room(&self) -> bool {
        match epoll::add(&self.watcher, &self.watched, EventData::new_u64(0), EventFlags::IN) {
            Ok(()) => {
                let _ = epoll::delete(&self.watcher, &self.watched);
                true
            }
            Err(error) => error != Errno::NOSPC,
        }
    }
}

/// A process of a party, and how much it watches. None if it does not let itself be looked at.
struct Watcher {
    party: String,
    process: ProcessStamp,
    watches: Option<u64>,
}

/// Ends processes until there is room, each time twice as many as before.
fn free(factory: &CageFactory, probe: &Probe) -> Vec<Unwatched> {
    let watchers = in_order(watchers(factory));
    let mut ended: HashMap<String, usize> = HashMap::new();
    let (mut rest, mut count) = (watchers.as_slice(), 1);
    while !rest.is_empty() && !probe.has_room() {
        let (next, after) = rest.split_at(rest.len().min(count));
        for watcher in next {
            if let Some(process) = handle::open_exact(watcher.process) {
                handle::send(&process, Signal::KILL);
                *ended.entry(watcher.party.clone()).or_default() += 1;
            }
        }
        let until = Instant::now() + FREED_IN;
        while Instant::now() < until && !probe.has_room() {
            thread::sleep(FREED_LOOK);
        }
        (rest, count) = (after, count * 2);
    }
    ended.into_iter().map(|(party, processes)| Unwatched { party, processes }).collect()
}

fn watchers(factory: &CageFactory) -> Vec<Watcher> {
    let cages: Vec<Arc<Held>> = factory.cages().into_iter().filter(|cage| cage.party.is_some()).collect();
    let names: HashSet<String> = cages.iter().map(|cage| cage.name.clone()).collect();
    let mut members = factory.members_of(&names);
    let own = Some(rustix::process::geteuid().as_raw());
    let mut watchers = Vec::new();
    for cage in &cages {
        let party = cage.party_name().unwrap_or_default();
        let stats: Vec<Stat> = members.remove(&cage.name).unwrap_or_default();
        // What another user watches is counted for him.
        let ours = stats.iter().filter(|stat| proc::user_of(stat.pid) == own);
        watchers.extend(ours.map(|stat| Watcher {
            party: party.to_owned(),
            process: stat.stamp(),
            watches: watches_of(&stat.place()),
        }));
    }
    watchers
}

/// Those that may be ended, in the order in which they are: of the party that watches most first, and in it who does. Those
/// that hide what they watch are last.
fn in_order(watchers: Vec<Watcher>) -> Vec<Watcher> {
    let mut parties: HashMap<String, u64> = HashMap::new();
    for watcher in &watchers {
        *parties.entry(watcher.party.clone()).or_default() += watcher.watches.unwrap_or(0);
    }
    let mut chosen: Vec<Watcher> =
        watchers.into_iter().filter(|watcher| watcher.watches.is_none_or(|watches| watches >= FEW)).collect();
    chosen.sort_by_cached_key(|watcher| {
        let of_party = parties.get(&watcher.party).copied().unwrap_or(0);
        std::cmp::Reverse((watcher.watches.is_some(), of_party, watcher.party.clone(), watcher.watches))
    });
    chosen
}

/// How much the process with this directory watches with epoll. None if that cannot be read.
fn watches_of(place: &Path) -> Option<u64> {
    let mut total = 0;
    for entry in fs::read_dir(place.join("fd")).ok()?.flatten() {
        if !fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(EPOLL)) {
            continue;
        }
        let about = place.join("fdinfo").join(entry.file_name());
        let Ok(about) = File::open(about) else { continue };
        let lines = BufReader::new(about).split(b'\n').map_while(Result::ok);
        total += lines.filter(|line| line.starts_with(b"tfd:")).count() as u64;
        if total >= MOST_COUNTED {
            break;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_watches_is_counted() {
        let probe = Probe::new().unwrap();
        assert!(probe.has_room() && probe.has_room());
        let watched: Vec<OwnedFd> = (0..100).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect();
        for one in &watched {
            epoll::add(&probe.watcher, one, EventData::new_u64(0), EventFlags::IN).unwrap();
        }
        // Other tests of this process may watch something, too.
        assert!(watches_of(Path::new("/proc/self")).unwrap() >= 100);
        assert_eq!(watches_of(Path::new("/proc/none")), None);
        // Its first thread has ended, and has nothing open.
        let other = proc::tests::WithoutLeader::start();
        assert_eq!(watches_of(&Stat::read(other.pid()).unwrap().place()), Some(1));
    }

    #[test]
    fn who_watches_most_is_ended_first_and_who_watches_little_is_not() {
        let watcher = |party: &str, pid: u32, watches: Option<u64>| {
            let process = ProcessStamp { pid, started_ticks: 0 };
            Watcher { party: party.to_owned(), process, watches }
        };
        let chosen = in_order(vec![
            watcher("ann", 1, Some(FEW - 1)),
            watcher("ann", 2, Some(1_000_000)),
            watcher("eve", 3, Some(600_000)),
            watcher("eve", 4, Some(700_000)),
            watcher("ann", 5, None),
            watcher("eve", 6, Some(10)),
        ]);
        assert_eq!(chosen.iter().map(|watcher| watcher.process.pid).collect::<Vec<_>>(), [4, 3, 2, 5]);
    }
}
