//! Brings what one repository has to another one, where another machine reads it, or back from there. Everything that is
//! new goes into one pack, which is on the disk before the tags that name it are: a tag that is there is complete.

use super::{ObjectId, Repo, Result, compact, walk};
use std::collections::{BTreeMap, BTreeSet};

/// What came to the other repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mirrored {
    /// Tags that it did not have.
    pub tags: usize,
    /// Objects that it did not have.
    pub objects: usize,
}

impl Repo {
    /// Gives `to` every tag of this repository that it lacks, with all that those commits hold. What it has, it keeps. Can be
    /// repeated after an error or a crash.
    pub fn mirror_into(&self, to: &mut Repo) -> Result<Mirrored> {
        let there: BTreeMap<String, ObjectId> = to.refs.tags()?.into_iter().collect();
        let here = self.refs.tags()?.into_iter();
        let new: BTreeMap<String, ObjectId> = here.filter(|(name, id)| there.get(name) != Some(id)).collect();
        let roots: BTreeSet<ObjectId> = new.values().copied().collect();
        if roots.is_empty() {
            return Ok(Mirrored::default());
        }
        to.objects.stored.look_again()?;
        let held = walk::lacking(self, &roots, &to.objects.stored)?;
        let directory = to.objects.stored.pack_directory();
        compact::write_pack(&self.objects.stored, &directory, &held.wanted, &to.faults)?;
        let (objects, cut) = (held.wanted.len(), held.shallow);
        to.objects.stored.look_again()?;
        to.space.forget();
        // A commit whose parents were pruned here lacks them there too; others find theirs among what was there.
        let mut shallow = to.refs.shallow()?;
        for id in cut {
            let parents = self.objects.read_commit(id)?.parents;
            if parents.iter().any(|parent| !to.objects.contains(*parent)) {
                shallow.insert(id);
            }
        }
        to.refs.set_shallow(&shallow)?;
        to.refs.add_all(&new)?;
        Ok(Mirrored { tags: new.len(), objects })
    }

    /// Tags of `other` that this repository does not have: they were pruned or purged here.
    pub fn lacks_tags_of(&self, other: &Repo) -> Result<bool> {
        let here: BTreeMap<String, ObjectId> = self.refs.tags()?.into_iter().collect();
        Ok(other.refs.tags()?.iter().any(|(name, id)| here.get(name) != Some(id)))
    }
}
