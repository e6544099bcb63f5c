//! What a restore would keep back, without changing anything.

use super::apply::refusal;
use super::intent::Expected;
use super::place::Root;
use super::stage::{above, loosened};
use super::{Item, KeptBack, PathChange, Plan};
use crate::meta::MODE_BITS;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const CHANGED: &str = "it was changed after the last checkpoint";

/// Looks at what is there now: what would be kept back, if nothing changes until the restore.
pub fn preview(workspace: &Path, plan: &Plan) -> io::Result<Vec<KeptBack>> {
    let root = Root::open(workspace)?;
    let opened: HashSet<&[u8]> = loosened(&root, plan).into_iter().map(|(path, _)| path).collect();
    let removed = plan.steps.iter().filter(|step| step.new.is_none()).map(|step| step.path.as_slice()).collect();
    let mut kept_back = plan.kept_back.clone();
    for step in &plan.steps {
        let reason = match look(&root, workspace, step, &removed) {
            Ok(reason) => reason,
            // It is opened while the files are changed.
            Err(Errno::ACCESS) if is_in(&step.path, &opened) => None,
            Err(error) => Some(refusal(error).ok_or(error)?),
        };
        kept_back.extend(reason.map(|reason| KeptBack { path: step.path.clone(), reason }));
    }
    Ok(kept_back)
}

fn look(
    root: &Root,
    workspace: &Path,
    step: &PathChange,
    removed: &HashSet<&[u8]>,
) -> Result<Option<&'static str>, Errno> {
    match (&step.old, &step.new) {
        (Some(old), None) if old.is_directory() => Ok(holds_more(workspace, &step.path, removed)),
        // It need not be readable.
        (Some(old), Some(new)) if !old.is_directory() && old.is_same_but_bits(new) => match root.stat(&step.path) {
            Ok(stat) if [old.bits, new.bits].contains(&(stat.st_mode & MODE_BITS)) => Ok(None),
            Ok(_) => Ok(Some(CHANGED)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        },
        (Some(old), _) if !old.is_directory() => match is(root, &step.path, old) {
            Ok(true) | Err(Errno::NOENT) => Ok(None),
            Ok(false) => Ok(Some(CHANGED)),
            Err(error) => Err(error),
        },
        (None, Some(new)) if !removed.contains(&step.path[..]) => match root.stat(&step.path) {
            Ok(stat) if new.is_directory() && FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(None),
            Ok(_) if !new.is_directory() && is(root, &step.path, new) == Ok(true) => Ok(None),
            Ok(_) => Ok(Some("something that checkpoints do not keep is in its place")),
            // The directory may be one that is made.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        },
        _ => Ok(None),
    }
}

/// Whether a file or link is at a path as a checkpoint has it.
fn is(root: &Root, path: &[u8], item: &Item) -> Result<bool, Errno> {
    root.spot(path)?.is(&Expected { is_link: item.is_link(), bits: item.bits, id: item.id })
}

/// Whether a path is in one of these directories.
fn is_in(path: &[u8], directories: &HashSet<&[u8]>) -> bool {
    let mut path = path;
    while !path.is_empty() {
        path = above(path);
        if directories.contains(path) {
            return true;
        }
    }
    false
}

fn holds_more(workspace: &Path, path: &[u8], removed: &HashSet<&[u8]>) -> Option<&'static str> {
    let entries = std::fs::read_dir(workspace.join(OsStr::from_bytes(path))).ok()?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let is_more = names.any(|name| !removed.contains([path, b"/", name.as_bytes()].concat().as_slice()));
    is_more.then_some("the directory holds things that checkpoints do not keep")
}
