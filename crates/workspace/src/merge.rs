//! Brings what a fork did back to the session it came from: three-way, file by file. What only the fork changed is taken;
//! a text that both changed is merged by lines; everything else that both changed is a conflict, and then nothing is
//! applied unless the caller chose a side. The result is a plan for [`crate::restore`], from what is on the disk now.

mod spare;
mod text;

pub use spare::{keep_unsaved, spare};

use crate::repo::{Kind, ObjectId, Repo, RepoError, hash_blob};
use crate::restore::{Item, PathChange, Plan, Snapshot, plan_between};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A longer text that both changed is a conflict.
const MAX_TEXT: u64 = 4 << 20;

/// Which side wins where both changed the same. It wins the whole file, also the parts that would merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Neither: it is a conflict.
    #[default]
    Neither,
    /// The session that is merged into.
    Ours,
    Theirs,
}

/// A path that both changed in ways that do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: Vec<u8>,
    /// What happened, in words.
    pub reason: &'static str,
}

/// What a merge comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merge {
    /// What to apply, from our side as it is now. Stage it with the fork's repository.
    pub plan: Plan,
    /// The conflicts. The plan has everything else.
    pub conflicts: Vec<Conflict>,
    /// Texts that both changed and that were merged by lines.
    pub merged: Vec<Vec<u8>>,
}

impl Merge {
    /// Whether the plan is the whole merge.
    pub fn is_clean(&self) -> bool {
        self.conflicts.is_empty()
    }
}

/// One side: its repository and its commit; `None` is an empty workspace.
pub type Side<'a> = (&'a Repo, Option<ObjectId>);

/// Merges `theirs` (the fork now) into `ours` (the session now). Both come from the commit `base`, which the fork's
/// repository holds; `None` if they began empty.
pub fn plan(base: Option<ObjectId>, ours: Side<'_>, theirs: Side<'_>, choice: Choice) -> Result<Merge, RepoError> {
    let snapshot = |(repo, commit): Side<'_>| commit.map(|commit| Snapshot::of(repo, commit)).transpose();
    let base = (theirs.0, snapshot((theirs.0, base))?);
    let our_changes = states(plan_between(base, (ours.0, snapshot(ours)?))?);
    let their_changes = states(plan_between(base, (theirs.0, snapshot(theirs)?))?);
    let mut merger = Merger { ours: ours.0, theirs: theirs.0, our_changes, choice, merge: Merge::default() };
    // Who may enter the workspace itself is each side's own: they are in different places.
    for (path, state) in their_changes.iter().filter(|(path, _)| !path.is_empty()) {
        merger.path(path, state)?;
    }
    let mut merge = merger.merge;
    merge.plan.steps.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(merge)
}

/// What a path was and what one side made of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct State {
    old: Option<Item>,
    new: Option<Item>,
}

type States = BTreeMap<Vec<u8>, State>;

/// By path; what became another kind of thing is one state again.
fn states(plan: Plan) -> States {
    let mut states = States::new();
    for step in plan.steps {
        let state = states.entry(step.path).or_default();
        state.old = state.old.take().or(step.old);
        state.new = state.new.take().or(step.new);
    }
    states
}

fn is_directory(item: &Item) -> bool {
    item.kind == Kind::Directory
}

/// Whether two are the same to a workspace: a directory is what is in it, and that has states of its own.
fn same(one: &Option<Item>, other: &Option<Item>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if is_directory(one) && is_directory(other) => one.bits == other.bits,
        // Whether it can be run is among the bits; where its bytes are does not matter.
        (Some(one), Some(other)) => {
            let kinds = [one, other].map(|item| (is_directory(item), item.kind == Kind::Link));
            kinds[0] == kinds[1] && (one.id, one.bits) == (other.id, other.bits)
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

struct Merger<'a> {
    ours: &'a Repo,
    theirs: &'a Repo,
    our_changes: States,
    choice: Choice,
    merge: Merge,
}

impl Merger<'_> {
    fn path(&mut self, path: &[u8], theirs: &State) -> Result<(), RepoError> {
        if let Some(reason) = self.in_the_way(path, theirs) {
            return self.conflict(path, reason);
        }
        let Some(ours) = self.our_changes.get(path).map(|state| state.new.clone()) else {
            if theirs.new.is_none() && theirs.old.as_ref().is_some_and(is_directory) && self.is_used(path) {
                // They removed it, and we put something new into it: it stays.
                return Ok(());
            }
            self.take(path, theirs.old.clone(), theirs.new.clone());
            return Ok(());
        };
        if same(&ours, &theirs.new) {
            return Ok(());
        }
        match (&theirs.old, &ours, &theirs.new) {
            (Some(base), Some(our), Some(their)) => self.both_changed(path, base, our, their),
            (None, Some(our), Some(their)) => {
                self.choose(path, Some(our), Some(their), "added on both sides with different contents")
            }
            (_, None, their) => self.choose(path, None, their.as_ref(), "removed here and changed in the fork"),
            (_, our, None) => self.choose(path, our.as_ref(), None, "changed here and removed in the fork"),
        }
    }

    /// What of ours makes their change impossible.
    fn in_the_way(&self, path: &[u8], theirs: &State) -> Option<&'static str> {
        let their = theirs.new.as_ref()?;
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        for directory in above {
            let is_gone = |state: &State| !state.new.as_ref().is_some_and(is_directory);
            if self.our_changes.get(directory).is_some_and(is_gone) {
                return Some("its directory was removed here");
            }
        }
        (!is_directory(their) && self.is_used(path)).then_some("it is a directory here with new files in it")
    }

    /// Whether we made or changed something below.
    fn is_used(&self, path: &[u8]) -> bool {
        let from = [path, b"/"].concat();
        let below = self.our_changes.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
        below.take_while(|(path, _)| path.starts_with(&from)).any(|(_, state)| state.new.is_some())
    }

    fn both_changed(&mut self, path: &[u8], base: &Item, our: &Item, their: &Item) -> Result<(), RepoError> {
        let bits = match (our.bits == base.bits, their.bits == base.bits || their.bits == our.bits) {
            (_, true) => Some(our.bits),
            (true, false) => Some(their.bits),
            (false, false) => None,
        };
        let are_files = [base, our, their].iter().all(|item| matches!(item.kind, Kind::File { .. }));
        let are_directories = [base, our, their].into_iter().all(is_directory);
        let reason = match bits {
            None => "its permissions changed on both sides",
            Some(bits) if are_directories || are_files && (our.id == their.id || their.id == base.id) => {
                self.take(path, Some(our.clone()), Some(Item { bits, ..our.clone() }));
                return Ok(());
            }
            Some(bits) if are_files && our.id == base.id => {
                self.take(path, Some(our.clone()), Some(Item { bits, ..their.clone() }));
                return Ok(());
            }
            Some(bits) if are_files => match self.lines(base, our, their)? {
                Ok(bytes) => {
                    let id = hash_blob(&bytes)?;
                    self.take(path, Some(our.clone()), Some(Item { kind: our.kind, id, bits, bytes: Some(bytes) }));
                    if id != our.id {
                        self.merge.merged.push(path.to_vec());
                    }
                    return Ok(());
                }
                Err(reason) => reason,
            },
            Some(_) => "its kind changed differently on both sides",
        };
        self.choose(path, Some(our), Some(their), reason)
    }

    fn lines(&self, base: &Item, our: &Item, their: &Item) -> Result<Result<Vec<u8>, &'static str>, RepoError> {
        let read = |repo: &Repo, item: &Item| match repo.objects.read_blob(item.id, Some(MAX_TEXT)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(RepoError::TooBig { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let texts = (read(self.theirs, base)?, read(self.ours, our)?, read(self.theirs, their)?);
        let (Some(base), Some(our), Some(their)) = texts else {
            return Ok(Err("changed on both sides and too large to merge"));
        };
        Ok(text::merge(&base, &our, &their))
    }

    /// A conflict, unless a side was chosen and both are files, links or nothing.
    fn choose(
        &mut self,
        path: &[u8],
        our: Option<&Item>,
        their: Option<&Item>,
        reason: &'static str,
    ) -> Result<(), RepoError> {
        match self.choice {
            Choice::Ours => {}
            Choice::Theirs if ![our, their].into_iter().flatten().any(is_directory) => {
                self.take(path, our.cloned(), their.cloned());
            }
            _ => return self.conflict(path, reason),
        }
        Ok(())
    }

    fn conflict(&mut self, path: &[u8], reason: &'static str) -> Result<(), RepoError> {
        self.merge.conflicts.push(Conflict { path: path.to_vec(), reason });
        Ok(())
    }

    fn take(&mut self, path: &[u8], old: Option<Item>, new: Option<Item>) {
        let is_one_step = match (&old, &new) {
            (Some(old), Some(new)) => is_directory(old) == is_directory(new),
            _ => true,
        };
        let path = path.to_vec();
        let steps = &mut self.merge.plan.steps;
        if same(&old, &new) {
            return;
        }
        if is_one_step {
            steps.push(PathChange { path, old, new });
        } else {
            steps.push(PathChange { path: path.clone(), old, new: None });
            steps.push(PathChange { path, old: None, new });
        }
    }
}
