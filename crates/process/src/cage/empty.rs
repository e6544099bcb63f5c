//! Ends everyone in a control group.

use super::held::PASSES;
use crate::cgroup::Group;
use crate::handle;
use rustix::process::Signal;
use std::time::Duration;

/// How long killed processes may take to leave their group: number of polls, one per millisecond.
const LOOKS: usize = 200;

pub(super) fn kill_members(group: &Group) {
    if group.kill().is_ok() {
        return;
    }
    for pid in group.members().unwrap_or_default() {
        let Some(handle) = handle::open(pid) else { continue };
        // Listed after the handle is there: it is a member, and not one who was given the number since.
        if group.members().unwrap_or_default().contains(&pid) {
            handle::send(&handle, Signal::KILL);
        }
    }
}

/// Ends everyone in a group and waits until they have left it; its directory can be removed only then.
pub(super) fn empty_out(group: &Group) {
    for look in 0..LOOKS {
        if group.members().map_or(true, |members| members.is_empty()) {
            return;
        }
        if look % (LOOKS / PASSES) == 0 {
            kill_members(group);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
