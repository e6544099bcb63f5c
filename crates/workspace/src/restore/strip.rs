//! Makes a copy of a workspace one of an earlier time: what came later goes, as far as a checkpoint of then would have kept
//! it. Only for copies; nothing that is removed here is kept.

use super::past_rules::PastRules;
use super::place::Root;
use super::plan::join;
use super::{Item, Plan};
use crate::deep::remove_at;
use crate::ignored;
use crate::repo::{Kind, ObjectId, Repo, RepoError};
use crate::scan::MAX_DEPTH;
use crate::unsaved::Unsaved;
use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Removes from the directory `copy` what lies where the plan puts something that no checkpoint of now has: a later thing of
/// that name, which is ignored or too large. A directory stays where one is wanted. No link on the way is followed.
pub fn make_way(copy: &Path, plan: &Plan) -> io::Result<()> {
    let root = Root::open(copy)?;
    for step in plan.steps.iter().filter(|step| step.old.is_none() && !step.path.is_empty()) {
        match step.new.as_ref().map_or(Ok(()), |new| make_way_for(&root, &step.path, new)) {
            // Nothing is there, or not even the way to it; what may not be removed is kept back later, and said.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make_way_for(root: &Root, path: &[u8], new: &Item) -> Result<(), Errno> {
    let spot = root.spot(path)?;
    match FileType::from_raw_mode(spot.stat()?.st_mode) {
        FileType::Directory if new.is_directory() => Ok(()),
        FileType::Directory => remove_at(spot.directory.as_fd(), &spot.name),
        _ => unlinkat(&spot.directory, spot.name.as_slice(), AtFlags::empty()),
    }
}

/// Removes from the directory `copy` what the commit does not hold and did not leave out; `None` is the empty
/// workspace. `.git` stays, and so do caches and environments by their marks.
pub fn strip(repo: &Repo, commit: Option<ObjectId>, copy: &Path) -> Result<(), RepoError> {
    let tree = commit.map(|commit| repo.objects.tree_of(commit)).transpose()?;
    let mut strip = Strip { repo, rules: PastRules::new(repo, tree), unsaved: Unsaved::of(repo, commit)? };
    strip.directory(copy, &[], tree)
}

struct Strip<'a> {
    repo: &'a Repo,
    rules: PastRules<'a>,
    unsaved: Unsaved,
}

impl Strip<'_> {
    /// Whether something that the commit does not hold may have been at a path all the same.
    fn leaves_out(&mut self, path: &[u8], is_directory: bool) -> Result<bool, RepoError> {
        Ok(self.unsaved.why(path).is_some() || self.rules.leave_out(path, is_directory)?)
    }

    fn directory(&mut self, place: &Path, path: &[u8], tree: Option<ObjectId>) -> Result<(), RepoError> {
        let entries = tree.map(|tree| self.repo.objects.read_tree(tree)).transpose()?.unwrap_or_default();
        let held: HashMap<Vec<u8>, (Kind, ObjectId)> =
            entries.into_iter().map(|entry| (entry.name, (entry.kind, entry.id))).collect();
        let failed = |source: io::Error| RepoError::Io { path: place.to_owned(), source };
        let listing = match fs::read_dir(place) {
            // No one but its owner can say what is in it, and the copy has nothing of it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            other => other.map_err(failed)?,
        };
        for entry in listing {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.as_bytes();
            let below = join(path, name);
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            // No checkpoint holds what is so deep, so it is not removed either.
            if is_directory && below.iter().filter(|byte| **byte == b'/').count() >= MAX_DEPTH {
                continue;
            }
            let held = held.get(name);
            if ignored::is_never_kept(name) || held.is_none() && self.leaves_out(&below, is_directory)? {
                continue;
            }
            if !is_directory {
                if held.is_none() {
                    fs::remove_file(entry.path()).map_err(failed)?;
                }
                continue;
            }
            let marks = [ignored::CACHE_MARK, ignored::ENVIRONMENT_MARK];
            if held.is_none() && marks.iter().any(|mark| entry.path().join(mark).exists()) {
                continue;
            }
            let tree = held.filter(|(kind, _)| *kind == Kind::Directory).map(|(_, id)| *id);
            self.directory(&entry.path(), &below, tree)?;
            if tree.is_none() {
                // One in which something stays, stays.
                let _ = fs::remove_dir(entry.path());
            }
        }
        Ok(())
    }
}
