//! Comparing what is known with a checkpoint: when the index's file is lost, and when the files were put to another
//! checkpoint than the last.

use super::Trouble;
use crate::index::{Base, Changes, Directory, Index, Leaf, Node, Stamp, Told, Written};
use crate::meta;
use crate::repo::{Entry, Kind, ObjectId, Repo, RepoError};
use std::collections::BTreeSet;

/// The file type in a mode.
const REGULAR: u32 = 0o100_000;
/// The file type in a mode.
const LINK: u32 = 0o120_000;

/// An index with all that a checkpoint holds and nothing that is known of the disk: every file will be read, and those
/// that are kept though a rule leaves them out stay kept.
pub(super) fn seed(repo: &Repo, commit: ObjectId) -> Result<Index, Trouble> {
    let base = base(repo, commit)?;
    let root = seed_directory(repo, base.written)?;
    let mut index = Index { root, base: Some(base), ..Index::default() };
    index.recount();
    Ok(index)
}

fn base(repo: &Repo, commit: ObjectId) -> Result<Base, RepoError> {
    let about = repo.objects.read_commit(commit)?;
    Ok(Base { commit, written: Written { tree: about.tree, meta: about.meta } })
}

fn seed_directory(repo: &Repo, written: Written) -> Result<Directory, RepoError> {
    let level = meta::read(repo, written.meta)?;
    let mut directory = Directory { bits: level.modes.directory, ..Directory::default() };
    for entry in repo.objects.read_tree(written.tree)? {
        let node = if entry.kind == Kind::Directory {
            let meta = level.below.get(&entry.name).copied();
            Node::Directory(Box::new(seed_directory(repo, Written { tree: entry.id, meta })?))
        } else {
            Node::Leaf(unread(told(&entry, &level.modes)))
        };
        directory.entries.insert(entry.name.into(), node);
    }
    Ok(directory)
}

/// A file of which only a checkpoint is known, and nothing of the disk.
fn unread(told: Told) -> Leaf {
    let mode = if told.kind == Kind::Link { LINK } else { REGULAR } | told.bits;
    Leaf { stamp: Stamp { mode, ..Stamp::default() }, id: Some(told.id), is_sure: false, is_racy: true }
}

fn told(entry: &Entry, modes: &meta::Modes) -> Told {
    let bits = match entry.kind {
        Kind::File { executable } => modes.of_file(&entry.name, executable),
        Kind::Link | Kind::Directory => 0,
    };
    Told { id: entry.id, kind: entry.kind, bits }
}

/// Puts into the index what a checkpoint holds, where it was just put on the disk. What may be read is read again; of what may
/// not, this is all that is ever known, and what the index had is no longer there. `kept_back` are the paths that are not as
/// the checkpoint has them.
pub(super) fn place(
    index: &mut Index,
    repo: &Repo,
    commit: ObjectId,
    kept_back: &BTreeSet<&[u8]>,
) -> Result<(), RepoError> {
    let written = base(repo, commit)?.written;
    Placing { repo, kept_back, path: Vec::new() }.directory(&mut index.root, written)?;
    index.recount();
    Ok(())
}

struct Placing<'a> {
    repo: &'a Repo,
    kept_back: &'a BTreeSet<&'a [u8]>,
    path: Vec<u8>,
}

impl Placing<'_> {
    fn directory(&mut self, here: &mut Directory, there: Written) -> Result<(), RepoError> {
        if here.written == Some(there) {
            return Ok(());
        }
        let level = meta::read(self.repo, there.meta)?;
        let length = self.path.len();
        for entry in self.repo.objects.read_tree(there.tree)? {
            push(&mut self.path, &entry.name);
            if entry.kind == Kind::Directory {
                let meta = level.below.get(&entry.name).copied();
                self.below(here, &entry.name, Written { tree: entry.id, meta })?;
            } else if !self.kept_back.contains(self.path.as_slice()) {
                let told = told(&entry, &level.modes);
                let is_known = match here.entries.get(entry.name.as_slice()) {
                    Some(Node::Leaf(leaf)) => leaf.told() == Some(told),
                    // The next look finds out what became of it.
                    Some(Node::Directory(_)) => true,
                    None => false,
                };
                if !is_known {
                    here.entries.insert(entry.name.into(), Node::Leaf(unread(told)));
                    here.mark();
                }
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn below(&mut self, here: &mut Directory, name: &[u8], there: Written) -> Result<(), RepoError> {
        let node = here.entries.entry(name.into()).or_insert_with(|| Node::Directory(Box::default()));
        let Node::Directory(below) = node else { return Ok(()) };
        self.directory(below, there)?;
        if below.written.is_none() {
            here.mark();
        }
        Ok(())
    }
}

/// Takes another checkpoint as the one before. What is known of the disk stays as it is; what counts as changed is
/// found anew. Directories that are the same are not gone into.
pub(super) fn align(index: &mut Index, repo: Option<&Repo>, commit: Option<ObjectId>) -> Result<(), Trouble> {
    let mut compared = Compared { repo, changes: Changes::new(), path: Vec::new() };
    let base = match (commit, repo) {
        (Some(commit), Some(repo)) => Some(base(repo, commit)?),
        (Some(id), None) => return Err(RepoError::Missing { id }.into()),
        (None, _) => None,
    };
    compared.directory(Some(&index.root), base.map(|base| base.written))?;
    index.changes = compared.changes;
    index.base = base;
    Ok(())
}

struct Compared<'a> {
    repo: Option<&'a Repo>,
    changes: Changes,
    path: Vec<u8>,
}

impl Compared<'_> {
    fn directory(&mut self, here: Option<&Directory>, there: Option<Written>) -> Result<(), RepoError> {
        if there.is_some() && here.and_then(|here| here.written) == there {
            return Ok(());
        }
        let mut level = meta::Level::default();
        let mut entries = Vec::new();
        if let (Some(there), Some(repo)) = (there, self.repo) {
            level = meta::read(repo, there.meta)?;
            entries = repo.objects.read_tree(there.tree)?;
        }
        let length = self.path.len();
        let find = |name: &[u8]| here.and_then(|here| here.entries.get(name));
        for entry in &entries {
            push(&mut self.path, &entry.name);
            match (entry.kind, find(&entry.name)) {
                (Kind::Directory, known) => {
                    let known =
                        known.and_then(|node| if let Node::Directory(below) = node { Some(&**below) } else { None });
                    let meta = level.below.get(&entry.name).copied();
                    self.directory(known, Some(Written { tree: entry.id, meta }))?;
                }
                (_, Some(Node::Leaf(leaf))) if leaf.is_sure && leaf.told() == Some(told(entry, &level.modes)) => {}
                _ => {
                    self.changes.insert(self.path.clone(), Some(told(entry, &level.modes)));
                }
            }
            self.path.truncate(length);
        }
        // What is here and not there is new. Git's order is not ours where a directory's name is part of another's.
        let mut there: Vec<(&[u8], bool)> =
            entries.iter().map(|entry| (entry.name.as_slice(), entry.kind == Kind::Directory)).collect();
        there.sort_unstable();
        for (name, node) in here.iter().flat_map(|here| &here.entries) {
            push(&mut self.path, name);
            let is_known = |is_directory| there.binary_search(&(&**name, is_directory)).is_ok();
            match node {
                Node::Leaf(_) if !is_known(false) => {
                    self.changes.insert(self.path.clone(), None);
                }
                Node::Directory(below) if !is_known(true) => self.directory(Some(below), None)?,
                _ => {}
            }
            self.path.truncate(length);
        }
        Ok(())
    }
}

/// Goes on to a name in the directory at a path.
fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
