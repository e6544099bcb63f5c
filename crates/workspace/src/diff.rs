//! What differs between two checkpoints: as a list, as a patch that `git apply` takes, and the history of one path.

mod binary;
mod lines;
mod patch;
mod quote;

pub use patch::patch;

use crate::repo::{Kind, ObjectId, Repo, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What happened to an entry. Entries are files, links and empty directories; a directory with something in it is
/// told by what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// Other bytes, or runnable now and not before.
    Changed,
    /// It is gone.
    Deleted,
    /// It became another kind of thing: a link, a file, an empty directory.
    TypeChanged,
}

/// One side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// The blob; for an empty directory the empty tree.
    pub id: ObjectId,
    /// What it is. [`Kind::Directory`] is an empty directory.
    pub kind: Kind,
}

/// One entry that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// From the workspace's root, `/` between the names.
    pub path: Vec<u8>,
    pub kind: ChangeKind,
    /// Before; `None` if it was added.
    pub old: Option<Side>,
    /// After; `None` if it was deleted.
    pub new: Option<Side>,
    /// Where an added file came from; only [`pair_renames`] sets it.
    pub renamed_from: Option<Vec<u8>>,
}

/// How a patch is written.
#[derive(Debug, Clone, Copy)]
pub struct PatchOptions {
    /// Lines around a change.
    pub context: usize,
    /// The patch ends with the file that would make it longer.
    pub max_bytes: usize,
    /// Whether bytes that are no text are written down, so that the patch can be applied.
    pub binary: bool,
}

impl Default for PatchOptions {
    fn default() -> Self {
        Self { context: 3, max_bytes: 8 << 20, binary: false }
    }
}

/// One file of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    pub path: Vec<u8>,
    /// Lines that came.
    pub insertions: u64,
    /// Lines that went.
    pub deletions: u64,
    /// It is not text; no lines are counted.
    pub binary: bool,
}

/// A patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// In git's format.
    pub text: Vec<u8>,
    /// Its files, in order; empty directories are not among them.
    pub files: Vec<FilePatch>,
    /// Files that were left out because the patch would be too long.
    pub left_out: u64,
}

/// Where the two sides of a comparison are kept: in one repository, or in those of two sessions.
#[derive(Debug, Clone, Copy)]
pub struct Repos<'a> {
    pub old: &'a Repo,
    pub new: &'a Repo,
}

impl<'a> From<&'a Repo> for Repos<'a> {
    fn from(repo: &'a Repo) -> Self {
        Self { old: repo, new: repo }
    }
}

/// What differs from one commit (or tree) to another, by path. Equal directories are not looked into.
pub fn trees<'a>(repos: impl Into<Repos<'a>>, from: Option<ObjectId>, to: ObjectId) -> Result<Vec<Change>> {
    let repos = repos.into();
    let from = from.map(|from| repos.old.objects.tree_of(from)).transpose()?;
    let mut changes = Vec::new();
    compare(repos, &mut Vec::new(), (from, Some(repos.new.objects.tree_of(to)?)), &mut changes)?;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// The entry at a path of a commit (or tree), a file or a directory; an empty path is the whole workspace.
pub fn entry(repo: &Repo, commit: ObjectId, path: &[u8]) -> Result<Option<Side>> {
    let mut found = Side { id: repo.objects.tree_of(commit)?, kind: Kind::Directory };
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        if found.kind != Kind::Directory {
            return Ok(None);
        }
        match repo.objects.read_tree(found.id)?.into_iter().find(|entry| entry.name == name) {
            Some(entry) => found = Side { id: entry.id, kind: entry.kind },
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// In which of these commits (oldest first) the entry at `path`, a file or a directory, differs from the one before: the
/// place in the list and the entry then, `None` if it was gone. An empty path is the whole workspace.
pub fn history(repo: &Repo, commits: &[ObjectId], path: &[u8]) -> Result<Vec<(usize, Option<Side>)>> {
    let mut differing = Vec::new();
    let mut last = None;
    for (place, commit) in commits.iter().enumerate() {
        let now = entry(repo, *commit, path)?;
        if now != last {
            differing.push((place, now));
        }
        last = now;
    }
    Ok(differing)
}

/// Makes one change of a deletion and an addition of the same bytes.
pub fn pair_renames(changes: Vec<Change>) -> Vec<Change> {
    let mut gone: HashMap<(ObjectId, Kind), Vec<usize>> = HashMap::new();
    for (place, change) in changes.iter().enumerate().rev() {
        // Empty files and directories are all alike; that says nothing.
        let telling = |old: &Side| old.kind != Kind::Directory && !old.id.is_empty_blob();
        if let (ChangeKind::Deleted, Some(old)) = (change.kind, change.old.filter(telling)) {
            gone.entry((old.id, old.kind)).or_default().push(place);
        }
    }
    let mut sources = HashMap::new();
    for (place, change) in changes.iter().enumerate() {
        if let (ChangeKind::Added, Some(new)) = (change.kind, change.new) {
            let from = gone.get_mut(&(new.id, new.kind)).and_then(Vec::pop);
            sources.extend(from.map(|from| (place, from)));
        }
    }
    let taken: HashSet<usize> = sources.values().copied().collect();
    let pair = |(place, change): (usize, &Change)| {
        let from = sources.get(&place).map(|from| &changes[*from]);
        let change = match from {
            Some(from) => Change { old: from.old, renamed_from: Some(from.path.clone()), ..change.clone() },
            None => change.clone(),
        };
        (!taken.contains(&place)).then_some(change)
    };
    changes.iter().enumerate().filter_map(pair).collect()
}

/// Two directories, either of which may be missing.
fn compare(
    repos: Repos<'_>,
    path: &mut Vec<u8>,
    (old, new): (Option<ObjectId>, Option<ObjectId>),
    changes: &mut Vec<Change>,
) -> Result<()> {
    if old == new {
        return Ok(());
    }
    let mut names: BTreeMap<Vec<u8>, (Option<Side>, Option<Side>)> = BTreeMap::new();
    for entry in old.map(|id| repos.old.objects.read_tree(id)).transpose()?.into_iter().flatten() {
        names.entry(entry.name).or_default().0 = Some(Side { id: entry.id, kind: entry.kind });
    }
    for entry in new.map(|id| repos.new.objects.read_tree(id)).transpose()?.into_iter().flatten() {
        names.entry(entry.name).or_default().1 = Some(Side { id: entry.id, kind: entry.kind });
    }
    for (name, (old, new)) in names {
        if old == new {
            continue;
        }
        let length = path.len();
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        // A directory with something in it is listed by its entries, not by itself.
        let is_full = |side: &Side| side.kind == Kind::Directory && !side.id.is_empty_tree();
        leaf(path, (old.filter(|side| !is_full(side)), new.filter(|side| !is_full(side))), changes);
        let below = |side: Option<Side>| side.filter(is_full).map(|side| side.id);
        compare(repos, path, (below(old), below(new)), changes)?;
        path.truncate(length);
    }
    Ok(())
}

fn leaf(path: &[u8], (old, new): (Option<Side>, Option<Side>), changes: &mut Vec<Change>) {
    let is_file = |side: Side| matches!(side.kind, Kind::File { .. });
    let kind = match (old, new) {
        (None, None) => return,
        (None, Some(_)) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some(old), Some(new)) if old.kind == new.kind || is_file(old) && is_file(new) => ChangeKind::Changed,
        (Some(_), Some(_)) => ChangeKind::TypeChanged,
    };
    changes.push(Change { path: path.to_vec(), kind, old, new, renamed_from: None });
}
