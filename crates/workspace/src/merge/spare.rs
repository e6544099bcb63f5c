//! What a merge must not remove: a path that is missing in the fork's checkpoint and was not removed.

use super::{Choice, Conflict, Merge};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Takes out of a merge what only seems to have been removed: the fork still has it, in a form that no checkpoint keeps, or
/// a fork could not copy it because it cannot be read. With our side chosen it stays as it is, otherwise it is a conflict.
pub fn spare(merge: &mut Merge, ours: &Path, theirs: &Path, choice: Choice) {
    let mut spared = Vec::new();
    merge.plan.steps.retain(|step| {
        let reason = if step.new.is_none() { reason(&step.path, ours, theirs) } else { None };
        spared.extend(reason.map(|reason| Conflict { path: step.path.clone(), reason }));
        reason.is_none()
    });
    if choice != Choice::Ours {
        merge.conflicts.extend(spared);
    }
}

fn reason(path: &[u8], ours: &Path, theirs: &Path) -> Option<&'static str> {
    let path = OsStr::from_bytes(path);
    if theirs.join(path).symlink_metadata().is_ok() {
        return Some("the fork has it in a form that checkpoints do not save: too large, or neither file nor link");
    }
    let is_closed = access(ours.join(path), Access::READ_OK) == Err(Errno::ACCESS);
    is_closed.then_some("it cannot be read here, so the fork never got it")
}
