//! Whether a process that is in none of our cages is in one of another daemon's. Its own daemon would not take it for the
//! host, so we must not either: daemons of the same user would otherwise be a way around each other's sandboxes.
//!
//! Nobody tells us what another daemon has started, so several signs are looked for, each of which is enough. A process behind
//! a fence or in a room can change neither its control group nor its ancestors. Nor can it take off the filter of system
//! calls, which shows even if its daemon is dead or has no groups.

use super::held::MARK;
use super::layout::{KEEPERS, WORK, is_party};
use crate::proc::{self, Stat};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// How the names of all instances begin.
const INSTANCE: &str = "shellkeep-";
/// The name of the daemon's program, and the word that makes it a daemon.
const DAEMON: (&str, &str) = ("shellkeep", "serve");
/// The names of processes that those of a session descend from when their daemon is gone: its keeper, and the first of a
/// room.
const GUARDIANS: [&str; 2] = ["shellkeep-keep", "shellkeep-init"];

/// Why a process is not outside that is one of ours, but not of a cage that is there.
pub(super) const LOST: &str = "it is among the processes of sessions, but descends from no live one";

/// Why a process is not outside of all sessions, although it is in none of ours. `lineage` begins with the process itself
/// and ends with the last ancestor that can be seen. `membership` is what its `/proc/PID/cgroup` says, and `instance` the
/// name of ours.
pub(super) fn sign(pid: u32, lineage: &[Stat], membership: Option<&str>, instance: &str) -> Option<&'static str> {
    let own_membership = fs::read_to_string("/proc/self/cgroup").ok();
    let (Some(places), Some(own_places)) = (membership.map(places), own_membership.as_deref().map(places)) else {
        return Some("its control groups cannot be read");
    };
    if !places.is_subset(&own_places) {
        return Some("it is in the control group of another daemon's session");
    }
    // A daemon may itself have been started in a session of another one, and then those beside it are its host.
    let is_beside_us = !places.is_empty() && places == own_places;
    if !is_beside_us && lineage.iter().skip(1).any(|ancestor| is_daemon(ancestor.pid)) {
        let Some(own_lineage) = proc::lineage(std::process::id(), 0) else {
            return Some("our own ancestors cannot be read");
        };
        if descends_from(is_daemon, lineage, &own_lineage) {
            return Some("it descends from another daemon");
        }
    }
    confined(Bounds::of(pid).as_ref(), Bounds::own()).or_else(|| {
        // Only now: the environment is in the memory of the process, and a confined one could make us wait for it.
        marked(&proc::mark_after(pid, format!("{MARK}=").as_bytes())?, instance, own_mark())
    })
}

/// Whether a process is confined, and not like us.
fn confined(bounds: Option<&Bounds>, own: Option<&Bounds>) -> Option<&'static str> {
    let (Some(bounds), Some(own)) = (bounds, own) else { return Some("it cannot be read what confines it") };
    let is_confined = bounds.no_new_privileges && bounds.filters > 0 && bounds != own;
    is_confined.then_some(
        "it can gain no privileges and has a filter of system calls, as sessions of other daemons have in a sandbox",
    )
}

/// Whether a process with this mark is in a session, unless we are in the same.
fn marked(mark: &str, instance: &str, own: Option<&str>) -> Option<&'static str> {
    let is_ours = mark.strip_prefix(instance).is_some_and(|name| name.starts_with('/'));
    if is_ours {
        return Some(LOST);
    }
    (Some(mark) != own).then_some("it has the mark of another daemon's session")
}

/// The mark that we were started with.
fn own_mark() -> Option<&'static str> {
    static OWN: OnceLock<Option<String>> = OnceLock::new();
    OWN.get_or_init(|| std::env::var(MARK).ok()).as_deref()
}

/// The cages that a process is in, of any daemon, one in another: the instance and the name of each.
fn places(membership: &str) -> BTreeSet<[String; 2]> {
    let paths = membership.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(places_on).collect()
}

/// The cages on the way to a group.
fn places_on(path: &str) -> Vec<[String; 2]> {
    let names: Vec<&str> = path.split('/').collect();
    let place = |at: usize| {
        let (instance, part) = (names[at], *names.get(at + 1)?);
        if !instance.starts_with(INSTANCE) || ![WORK, KEEPERS].contains(&part) {
            return None;
        }
        let cage = names[at + 2..].iter().find(|name| !is_party(Path::new(name)));
        Some([instance, cage.unwrap_or(&part)].map(str::to_owned))
    };
    (0..names.len()).filter_map(place).collect()
}

/// Whether an ancestor that is `wanted` is between the first of a lineage and our own ancestors, or is the nearest of these.
fn descends_from(wanted: impl Fn(u32) -> bool, lineage: &[Stat], own_lineage: &[Stat]) -> bool {
    let is_ours = |stat: &Stat| own_lineage.iter().any(|own| own.stamp() == stat.stamp());
    let Some((first, ancestors)) = lineage.split_first() else { return true };
    if is_ours(first) {
        return false;
    }
    let apart = ancestors.iter().take_while(|stat| !is_ours(stat)).count();
    ancestors.iter().take(apart + 1).any(|stat| wanted(stat.pid))
}

fn is_daemon(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim_end();
    GUARDIANS.contains(&name) || name == DAEMON.0 && proc::command_line(pid).split(' ').any(|word| word == DAEMON.1)
}

/// What a process cannot take off again, nor can what it starts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bounds {
    no_new_privileges: bool,
    /// Its filters of system calls.
    filters: u32,
}

impl Bounds {
    fn of(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/status")).ok().map(|status| Self::parse(&status))
    }

    /// Ours, which do not change once we serve.
    fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Bounds> = OnceLock::new();
        if OWN.get().is_none() {
            let _ = OWN.set(Self::of(std::process::id())?);
        }
        OWN.get()
    }

    fn parse(status: &str) -> Self {
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse::<u32>().ok()
        };
        // Kernels before 5.9 say whether it has filters, and not how many.
        let filters = number("Seccomp_filters").or_else(|| number("Seccomp")).unwrap_or_default();
        Self { no_new_privileges: number("NoNewPrivs") == Some(1), filters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32) -> Stat {
        let started_ticks = u64::from(pid);
        Stat { pid, parent, state: b'S', started_ticks, cpu_ticks: 0, threads: 1, group: pid, session: pid }
    }

    #[test]
    fn cages_of_all_daemons_are_known_by_their_groups() {
        for (membership, expected) in [
            ("0::/\n", &[][..]),
            ("0::/user.slice/app.scope\n", &[]),
            ("0::/system.slice/shellkeep.service\n", &[]),
            ("0::/a/shellkeep-1/daemon\n", &[]),
            ("0::/a/shellkeep-1/WORK/c\n", &[("shellkeep-1", "c")]),
            ("0::/a/shellkeep-1/WORK/of-3/c/below\n", &[("shellkeep-1", "c")]),
            ("0::/a/shellkeep-1/keepers\n", &[("shellkeep-1", "keepers")]),
            ("8:pids:/shellkeep-1/WORK/c\n0::/\n", &[("shellkeep-1", "c")]),
            ("0::/shellkeep-1/WORK/c/shellkeep-2/WORK/d\n", &[("shellkeep-1", "c"), ("shellkeep-2", "d")]),
        ] {
            let expected = expected.iter().map(|(instance, cage)| [*instance, *cage].map(str::to_owned)).collect();
            assert_eq!(places(&membership.replace("WORK", super::WORK)), expected, "{membership}");
        }
    }

    #[test]
    fn a_daemon_counts_down_to_the_nearest_common_ancestor() {
        // 1 started 2, which started 3 and 4. We are 9.
        let own = [stat(9, 3), stat(3, 2), stat(2, 1), stat(1, 0)];
        let below = |parent: u32, rest: &[Stat]| [&[stat(20, 10), stat(10, parent)], rest].concat();
        let beside = below(2, &own[2..]);
        for (daemon, lineage, expected) in [
            (10, &beside, true),
            // In another branch below a daemon that we were started in, too.
            (2, &beside, true),
            (1, &beside, false),
            (2, &below(3, &own[1..]), false),
            // It connects as a client does.
            (20, &beside, false),
            // It started us.
            (2, &own[2..].to_vec(), false),
            (2, &own[1..].to_vec(), false),
        ] {
            assert_eq!(descends_from(|pid| pid == daemon, lineage, &own), expected, "{daemon}: {lineage:?}");
        }
    }

    /// The environment is not read of these: it is in the memory of the process, which could make us wait for it.
    #[test]
    fn a_process_is_known_by_what_confines_it() {
        let bounds = |no_new_privileges, filters| Bounds { no_new_privileges, filters };
        let free = bounds(false, 0);
        for (bounds, own, expected) in [
            (Some(bounds(true, 1)), Some(&free), true),
            (Some(bounds(true, 1)), Some(&bounds(true, 1)), false),
            (Some(bounds(true, 2)), Some(&bounds(true, 1)), true),
            (Some(bounds(true, 0)), Some(&free), false),
            (Some(bounds(false, 1)), Some(&free), false),
            (None, Some(&free), true),
            (Some(bounds(false, 0)), None, true),
        ] {
            assert_eq!(confined(bounds.as_ref(), own).is_some(), expected, "{bounds:?} {own:?}");
        }
    }

    #[test]
    fn marks_are_of_sessions_of_ours_or_of_another_daemon() {
        const ANOTHER: Option<&str> = Some("it has the mark of another daemon's session");
        for (mark, own, expected) in [
            ("shellkeep-1/c", None, Some(LOST)),
            ("shellkeep-12/c", None, ANOTHER),
            ("shellkeep-2/c", None, ANOTHER),
            ("shellkeep-2/c", Some("shellkeep-2/d"), ANOTHER),
            // We were started in that session.
            ("shellkeep-2/c", Some("shellkeep-2/c"), None),
        ] {
            assert_eq!(marked(mark, "shellkeep-1", own), expected, "{mark} {own:?}");
        }
    }

    #[test]
    fn bounds_are_read_as_the_kernel_writes_them() {
        let bounds = |no_new_privileges, filters| Bounds { no_new_privileges, filters };
        for (status, expected) in [
            ("Name:\ta\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n", bounds(true, 3)),
            ("NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n", bounds(false, 0)),
            ("NoNewPrivs:\t1\nSeccomp:\t2\n", bounds(true, 2)),
            ("Name:\ta\n", bounds(false, 0)),
        ] {
            assert_eq!(Bounds::parse(status), expected, "{status}");
        }
    }
}
