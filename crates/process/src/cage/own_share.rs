//! This process's own part of the processors, where they have a hierarchy of version 1.
//!
//! There a process that is in no group weighs as much as a whole group, and ours weigh as much as possible so that other
//! programs do not crowd them out. Then the work of one agent that has all processors crowds out this process, and with it
//! every other agent. So once there is a party, this process has a group beside the work, which weighs the same; what it
//! starts for nobody in particular leaves that group again.

use super::layout::DAEMON;
use crate::cgroup::Group;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What our groups weigh: as much as possible.
pub(super) const MOST_SHARES: &str = "262144";

/// This process's own part of the processors.
#[derive(Debug)]
pub(super) struct OwnShare {
    /// The group that it was started in.
    outside: PathBuf,
    own: PathBuf,
    has_entered: AtomicBool,
}

impl OwnShare {
    /// For a process that is in this group now.
    pub(super) fn new(now: &Path, instance: &str) -> Self {
        let outside = outside_of(now, instance);
        let own = outside.join(instance).join(DAEMON);
        Self { has_entered: AtomicBool::new(now == own), outside, own }
    }

    /// The instance's group.
    pub(super) fn base(&self) -> Option<&Path> {
        self.own.parent()
    }

    pub(super) fn can_make_groups(&self) -> bool {
        crate::cgroup::may_make_groups(&self.outside)
    }

    /// Moves this process, once. Where that is refused it stays where it is.
    pub(super) fn enter(&self) {
        if self.has_entered.swap(true, Ordering::Relaxed) {
            return;
        }
        let group = Group::at(self.own.clone());
        let _ = fs::create_dir_all(group.path());
        let moved = group.set("cpu.shares", MOST_SHARES).and_then(|()| group.add(std::process::id()));
        self.has_entered.store(moved.is_ok(), Ordering::Relaxed);
    }

    /// Where to put a process that has no party: what is started by this process begins in its group.
    pub(super) fn outside(&self) -> Option<Group> {
        self.has_entered.load(Ordering::Relaxed).then(|| Group::at(self.outside.clone()))
    }

    /// Moves this process back.
    pub(super) fn leave(&self) {
        if self.has_entered.swap(false, Ordering::Relaxed) {
            let _ = Group::at(self.outside.clone()).add(std::process::id());
            let _ = fs::remove_dir(&self.own);
        }
    }
}

/// The group that a process was started in which is in this one now: a daemon that replaces itself keeps its group.
fn outside_of(now: &Path, instance: &str) -> PathBuf {
    let is_own = now.ends_with(Path::new(instance).join(DAEMON));
    let outside = if is_own { now.parent().and_then(Path::parent) } else { None };
    outside.unwrap_or(now).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_replaced_itself_knows_where_it_began() {
        for (now, has_entered) in [("/cpu/a", false), ("/cpu/a/shellkeep-1/daemon", true)] {
            let share = OwnShare::new(Path::new(now), "shellkeep-1");
            assert_eq!(share.base(), Some(Path::new("/cpu/a/shellkeep-1")), "{now}");
            assert_eq!(share.outside().is_some(), has_entered, "{now}");
        }
    }
}
