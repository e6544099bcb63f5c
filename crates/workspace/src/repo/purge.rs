//! Deletes what must no longer be kept: commits that contain certain bytes anywhere.

use super::objects::Objects;
use super::{Kind, ObjectId, Repo, RepoError, Result};
use std::collections::{HashMap, HashSet};

impl Repo {
    /// Drops every commit that holds an object of which `finds` says so, be it a file, a name or a message, and everything
    /// that no other commit holds. Gives the tags that are gone; `None` if nothing was found.
    pub fn purge(&mut self, finds: &dyn Fn(&[u8]) -> bool) -> Result<Option<Vec<String>>> {
        self.abandon();
        self.objects.stored.look_again()?;
        let found = find(&self.objects.stored, finds)?;
        if found.is_empty() {
            return Ok(None);
        }
        let mut holding = Holding { repo: self, known: found.iter().map(|id| (*id, true)).collect() };
        let (mut keep, mut gone) = (Vec::new(), Vec::new());
        for (name, commit) in self.tags()? {
            match holding.commit(commit)? {
                true => gone.push(name),
                false => keep.push(commit),
            }
        }
        self.thin(&keep)?;
        match found.iter().find(|id| self.objects.stored.contains(**id)) {
            Some(id) => Err(RepoError::Held { id: *id }),
            None => Ok(Some(gone)),
        }
    }
}

fn find(objects: &Objects, finds: &dyn Fn(&[u8]) -> bool) -> Result<Vec<ObjectId>> {
    let mut all: HashSet<ObjectId> = Objects::ids_in(&objects.packs());
    all.extend(objects.loose()?.into_iter().map(|(id, _)| id));
    let mut found = Vec::new();
    for id in all {
        if finds(&objects.read(id)?.1) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Which objects hold one that was found, each looked at once.
struct Holding<'a> {
    repo: &'a Repo,
    known: HashMap<ObjectId, bool>,
}

impl Holding<'_> {
    fn commit(&mut self, id: ObjectId) -> Result<bool> {
        // An annotated tag is not ours: what it names is kept.
        if self.known.get(&id) == Some(&true) || self.repo.objects.stored.is_annotated_tag(id) {
            return Ok(self.known.contains_key(&id));
        }
        let commit = self.repo.objects.read_commit(id)?;
        Ok(self.tree(commit.tree)? || commit.meta.map_or(Ok(false), |meta| self.tree(meta))?)
    }

    fn tree(&mut self, id: ObjectId) -> Result<bool> {
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let mut holds = false;
        // The empty tree is known to git without being there.
        let entries = if id.is_empty_tree() { Vec::new() } else { self.repo.objects.read_tree(id)? };
        for entry in entries {
            holds |= match entry.kind {
                Kind::Directory => self.tree(entry.id)?,
                _ => self.known.contains_key(&entry.id),
            };
        }
        self.known.insert(id, holds);
        Ok(holds)
    }
}
