//! Takes over files that were kept elsewhere: their checkpoints into this node's repository, and the last of them into the
//! workspace.

use super::{Checkpointer, Label, Trouble, create};
use crate::repo::{ObjectId, Repo, RepoError};
use crate::restore::{self, RestoreError};

/// Why files could not be taken over. It can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The workspace or its repository failed.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The files could not be put into the workspace.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl From<RepoError> for AdoptError {
    fn from(error: RepoError) -> Self {
        Self::Trouble(error.into())
    }
}

/// What became of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adopted {
    /// The tag of what was in the workspace before and is no longer, if there was something.
    pub set_aside: Option<String>,
    /// How many paths of the checkpoint are not as it has them.
    pub kept_back: usize,
}

impl Checkpointer {
    /// Brings all checkpoints that `from` has to this repository.
    pub fn fetch(&mut self, from: &Repo) -> Result<(), Trouble> {
        let repo = match &mut self.repo {
            Some(repo) => repo,
            None => match Repo::open(&self.home.join(super::REPOSITORY), &self.faults)? {
                Some(repo) => self.repo.insert(repo),
                None => self.repo.insert(create(&self.home, &self.faults)?),
            },
        };
        from.mirror_into(repo)?;
        Ok(())
    }

    /// Makes the workspace what a checkpoint has, after [`Checkpointer::fetch`]. What is there and not in a checkpoint is tagged
    /// first, with `label`.
    pub fn adopt(&mut self, commit: ObjectId, label: &Label) -> Result<Adopted, AdoptError> {
        // One that was interrupted is completed, and then compared like anything else that is there.
        if let Some((_, applied)) = restore::recover(&self.workspace, &self.home, &self.faults)? {
            applied.finish().map_err(RestoreError::Stage)?;
        }
        self.begin()?;
        self.scan_everything();
        let now = self.draft(label, Some(commit))?;
        let Some(repo) = &mut self.repo else { return Ok(Adopted::default()) };
        let is_new = now.filter(|now| *now != commit && has_files(repo, *now));
        let set_aside = is_new.map(|now| repo.publish(&label.tag, now)).transpose()?;
        let plan = restore::plan(repo, now, Some(commit))?;
        let mut kept_back = plan.kept_back.clone();
        if !plan.steps.is_empty() {
            let staged = restore::stage(repo, &self.workspace, &self.home, &plan, &self.faults)?;
            let applied = restore::apply(staged, b"", &self.faults)?;
            kept_back.clone_from(&applied.kept_back);
            applied.finish().map_err(RestoreError::Stage)?;
        }
        repo.set_head(commit)?;
        self.took(Some(commit), kept_back.iter().map(|kept| kept.path.as_slice()))?;
        Ok(Adopted { set_aside, kept_back: kept_back.len() })
    }
}

fn has_files(repo: &Repo, commit: ObjectId) -> bool {
    repo.objects.read_commit(commit).is_ok_and(|commit| commit.tree != crate::repo::EMPTY_TREE)
}
