//! What differs between two checkpoints, with everything that is restored: bytes, links, permissions, directories. Pure:
//! only the repository is read.

use super::past_rules::PastRules;
use super::{Item, KeptBack, PathChange, Plan};
use crate::meta::{self, Level};
use crate::repo::{Entry, Kind, ObjectId, Repo, RepoError};
use crate::unsaved::Unsaved;
use std::collections::BTreeMap;

/// Of a file that could not be read, a checkpoint has the bytes of before and the permissions of now.
const ONLY_BITS: &str = "it could not be read, so only its permissions are changed back";

/// A directory as a checkpoint holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    pub tree: ObjectId,
    /// Its side tree, if there is something to say.
    pub meta: Option<ObjectId>,
}

impl Snapshot {
    /// Of a commit.
    pub fn of(repo: &Repo, commit: ObjectId) -> Result<Self, RepoError> {
        let commit = repo.objects.read_commit(commit)?;
        Ok(Self { tree: commit.tree, meta: commit.meta })
    }
}

/// What leads from what is on disk (the commit `now`) to the commit `target`; `None` is an empty workspace.
pub fn plan(repo: &Repo, now: Option<ObjectId>, target: Option<ObjectId>) -> Result<Plan, RepoError> {
    let snapshot = |commit: Option<ObjectId>| commit.map(|commit| Snapshot::of(repo, commit)).transpose();
    let (mut unsaved, unread) = (Unsaved::of(repo, target)?, Unsaved::of(repo, now)?);
    let (now, target) = (snapshot(now)?, snapshot(target)?);
    let mut plan = plan_between((repo, now), (repo, target))?;
    for step in &plan.steps {
        if step.new.as_ref().is_some_and(|new| !new.is_directory()) {
            unsaved.was_saved(&step.path);
        }
    }
    // What the target's own rules leave out may have existed at that time, so it is not removed. What it left out for another
    // reason did exist.
    let mut rules = PastRules::new(repo, target.map(|target| target.tree));
    let mut steps = Vec::with_capacity(plan.steps.len());
    for step in plan.steps {
        if let Some(new) = &step.new {
            let is_mode = !new.is_directory() && step.old.as_ref().is_some_and(|old| old.is_same_but_bits(new));
            if is_mode && unread.names(&step.path) {
                plan.kept_back.push(KeptBack { path: step.path.clone(), reason: ONLY_BITS });
            }
            steps.push(step);
            continue;
        }
        let is_directory = step.old.as_ref().is_some_and(Item::is_directory);
        match unsaved.why(&step.path) {
            _ if rules.leave_out(&step.path, is_directory)? => {}
            Some(reason) => plan.kept_back.push(KeptBack { path: step.path, reason }),
            None => steps.push(step),
        }
    }
    plan.steps = steps;
    Ok(plan)
}

/// The same for two that may be in two repositories, as those of a session and its fork are.
pub fn plan_between(now: (&Repo, Option<Snapshot>), target: (&Repo, Option<Snapshot>)) -> Result<Plan, RepoError> {
    let mut walk = Walk { old: now.0, new: target.0, steps: Vec::new() };
    walk.directory(&[], now.1, target.1)?;
    // A workspace itself is neither made nor removed.
    walk.steps.retain(|step| !step.path.is_empty() || step.old.is_some() && step.new.is_some());
    walk.steps.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Plan { steps: walk.steps, kept_back: Vec::new() })
}

struct Walk<'a> {
    old: &'a Repo,
    new: &'a Repo,
    steps: Vec<PathChange>,
}

/// One directory of one side.
struct Side {
    tree: ObjectId,
    level: Level,
    entries: BTreeMap<Vec<u8>, Entry>,
}

impl Side {
    fn read(repo: &Repo, snapshot: Snapshot) -> Result<Self, RepoError> {
        let entries =
            repo.objects.read_tree(snapshot.tree)?.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Ok(Self { tree: snapshot.tree, level: meta::read(repo, snapshot.meta)?, entries })
    }

    fn item(&self) -> Item {
        Item { kind: Kind::Directory, id: self.tree, bits: self.level.modes.directory, bytes: None }
    }

    /// The file or link of this name.
    fn leaf(&self, name: &[u8]) -> Option<Item> {
        let entry = self.entries.get(name)?;
        let bits = match entry.kind {
            Kind::File { executable } => self.level.modes.of_file(name, executable),
            Kind::Link => 0,
            Kind::Directory => return None,
        };
        Some(Item { kind: entry.kind, id: entry.id, bits, bytes: None })
    }

    /// The directory of this name.
    fn below(&self, name: &[u8]) -> Option<Snapshot> {
        let entry = self.entries.get(name).filter(|entry| entry.kind == Kind::Directory)?;
        Some(Snapshot { tree: entry.id, meta: self.level.below.get(name).copied() })
    }
}

impl Walk<'_> {
    fn directory(&mut self, path: &[u8], old: Option<Snapshot>, new: Option<Snapshot>) -> Result<(), RepoError> {
        if old == new {
            return Ok(());
        }
        let old = old.map(|snapshot| Side::read(self.old, snapshot)).transpose()?;
        let new = new.map(|snapshot| Side::read(self.new, snapshot)).transpose()?;
        let items = (old.as_ref().map(Side::item), new.as_ref().map(Side::item));
        if items.0.as_ref().map(|item| item.bits) != items.1.as_ref().map(|item| item.bits) {
            self.steps.push(PathChange { path: path.to_vec(), old: items.0, new: items.1 });
        }
        let sides = [&old, &new];
        let mut names: Vec<&[u8]> =
            sides.into_iter().flatten().flat_map(|side| side.entries.keys()).map(Vec::as_slice).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let below = join(path, name);
            let leaf = |side: &Option<Side>| side.as_ref().and_then(|side| side.leaf(name));
            let (old_leaf, new_leaf) = (leaf(&old), leaf(&new));
            if old_leaf != new_leaf {
                self.steps.push(PathChange { path: below.clone(), old: old_leaf, new: new_leaf });
            }
            let directory = |side: &Option<Side>| side.as_ref().and_then(|side| side.below(name));
            self.directory(&below, directory(&old), directory(&new))?;
        }
        Ok(())
    }
}

pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
