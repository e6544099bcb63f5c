//! What a merge must not touch: a path that is missing in the fork's checkpoint and was not removed, and what is in the way
//! here without being in a checkpoint.

use super::{Choice, Conflict, Merge, is_directory};
use crate::restore::{Item, preview};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
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

/// Takes out of a merge what could not be put in its place: no checkpoint of ours has what is there, so it would not be
/// replaced. With our side chosen it stays as it is; otherwise it is a conflict, also if theirs was chosen.
pub fn keep_unsaved(merge: &mut Merge, ours: &Path, choice: Choice) -> io::Result<()> {
    if merge.plan.steps.is_empty() {
        return Ok(());
    }
    let kept = preview(ours, &merge.plan)?;
    // A directory that they removed and that holds more here only stays. That is in nobody's way.
    let is_leaf = |item: &Item| !is_directory(item);
    let wanted = merge.plan.steps.iter().filter(|step| step.new.is_some() || step.old.as_ref().is_some_and(is_leaf));
    let wanted: HashSet<&[u8]> = wanted.map(|step| step.path.as_slice()).collect();
    let kept: BTreeMap<Vec<u8>, &'static str> =
        kept.into_iter().filter(|kept| wanted.contains(&kept.path[..])).map(|kept| (kept.path, kept.reason)).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let is_kept = |path: &[u8]| {
        let mut ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.any(|end| kept.contains_key(&path[..end]))
    };
    merge.plan.steps.retain(|step| !is_kept(&step.path));
    if choice != Choice::Ours {
        merge.conflicts.extend(kept.into_iter().map(|(path, reason)| Conflict { path, reason }));
    }
    Ok(())
}

fn reason(path: &[u8], ours: &Path, theirs: &Path) -> Option<&'static str> {
    let path = OsStr::from_bytes(path);
    if theirs.join(path).symlink_metadata().is_ok() {
        return Some("the fork has it in a form that checkpoints do not save: too large, or neither file nor link");
    }
    let is_closed = access(ours.join(path), Access::READ_OK) == Err(Errno::ACCESS);
    is_closed.then_some("it cannot be read here, so the fork never got it")
}
