//! Everything that some commits hold, newest first, each object with the newer one it most likely resembles. What another
//! repository has already can be passed over.

use super::error::damaged;
use super::objects::Objects;
use super::{Kind, ObjectId, Repo, Result};
use std::collections::{BTreeSet, HashMap, HashSet};

/// An object that is to be kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) id: ObjectId,
    /// What was in its place in a newer commit.
    pub(super) like: Option<ObjectId>,
}

/// What commits hold.
#[derive(Default)]
pub(super) struct Held<'a> {
    /// In the order in which they are best written.
    pub(super) wanted: Vec<Wanted>,
    /// Commits with a parent that is not among them.
    pub(super) shallow: BTreeSet<ObjectId>,
    seen: HashSet<ObjectId>,
    /// Where what is there already is passed over, with everything that it holds.
    there: Option<&'a Objects>,
}

/// Looks through everything that these commits and annotated tags hold; parents only if they are among them.
pub(super) fn everything(repo: &Repo, roots: &BTreeSet<ObjectId>) -> Result<Held<'static>> {
    look_through(repo, roots, Held::default())
}

/// The same without what `there` has. An object that is there is there with everything it holds, because packs are put in
/// place whole.
pub(super) fn lacking<'a>(repo: &Repo, roots: &BTreeSet<ObjectId>, there: &'a Objects) -> Result<Held<'a>> {
    look_through(repo, roots, Held { there: Some(there), ..Held::default() })
}

fn look_through<'a>(repo: &Repo, roots: &BTreeSet<ObjectId>, mut held: Held<'a>) -> Result<Held<'a>> {
    let mut commits = Vec::new();
    for root in roots {
        let mut id = *root;
        // An annotated tag is not ours; it is kept with what it names.
        while repo.objects.stored.header(id)?.0 == gix_object::Kind::Tag {
            held.add(id, None);
            let (_, bytes) = repo.objects.any(id)?;
            let tag = gix_object::TagRefIter::from_bytes(&bytes, gix_hash::Kind::Sha1);
            id = tag.target_id().map_err(damaged)?;
        }
        commits.push((repo.objects.read_commit(id)?, id));
    }
    commits.sort_by_key(|(commit, _)| std::cmp::Reverse(commit.seconds));
    let kept: HashSet<ObjectId> = commits.iter().map(|(_, id)| *id).collect();
    // Commits lie together: a list of them is read more often than files are.
    for (commit, id) in &commits {
        held.add(*id, None);
        if commit.parents.iter().any(|parent| !kept.contains(parent)) {
            held.shallow.insert(*id);
        }
    }
    let (mut newer, mut newer_meta) = (None, None);
    for (commit, _) in &commits {
        held.tree(repo, commit.tree, newer)?;
        newer = Some(commit.tree);
        if let Some(meta) = commit.meta {
            held.tree(repo, meta, newer_meta)?;
            newer_meta = Some(meta);
        }
    }
    Ok(held)
}

impl Held<'_> {
    /// False if it was there before.
    fn add(&mut self, id: ObjectId, like: Option<ObjectId>) -> bool {
        let new = self.seen.insert(id) && !self.there.is_some_and(|there| there.contains(id));
        if new {
            self.wanted.push(Wanted { id, like: like.filter(|like| *like != id) });
        }
        new
    }

    fn tree(&mut self, repo: &Repo, id: ObjectId, like: Option<ObjectId>) -> Result<()> {
        // The empty tree is known to git without being there, and may be there or not.
        if id.is_empty_tree() && !repo.objects.contains(id) || !self.add(id, like) {
            return Ok(());
        }
        let others = match like {
            Some(like) => {
                repo.objects.read_tree(like)?.into_iter().map(|other| (other.name, (other.kind, other.id))).collect()
            }
            None => HashMap::new(),
        };
        for entry in repo.objects.read_tree(id)? {
            let is_directory = |kind| kind == Kind::Directory;
            let like = others.get(&entry.name).filter(|(kind, _)| is_directory(*kind) == is_directory(entry.kind));
            let like = like.map(|(_, id)| *id);
            if is_directory(entry.kind) {
                self.tree(repo, entry.id, like)?;
            } else {
                self.add(entry.id, like);
            }
        }
        Ok(())
    }
}
