//! What the rules of a checkpoint left out when it was made: its own `.gitignore` files and the default list.

use crate::ignored::{self, Rules, RulesUse, TooManyRules, Verdict};
use crate::repo::{Kind, ObjectId, Repo, RepoError};
use ignore::gitignore::Gitignore;
use std::collections::HashMap;
use std::sync::Arc;

/// The rules of one checkpoint, each directory's read once.
pub(super) struct PastRules<'a> {
    repo: &'a Repo,
    root: Option<ObjectId>,
    known: HashMap<ObjectId, Level>,
    held: RulesUse,
}

/// A directory as the checkpoint holds it, as far as it matters here.
#[derive(Clone, Default)]
struct Level {
    rules: Option<Arc<Gitignore>>,
    /// Whether its rules were not read because there are too many.
    is_unread: bool,
    below: Arc<HashMap<Vec<u8>, ObjectId>>,
}

impl<'a> PastRules<'a> {
    /// Those of the checkpoint with this tree; with none nothing is left out.
    pub fn new(repo: &'a Repo, root: Option<ObjectId>) -> Self {
        Self { repo, root, known: HashMap::new(), held: RulesUse::default() }
    }

    /// Whether they leave this path out, or a directory that it is in.
    pub fn leave_out(&mut self, path: &[u8], is_directory: bool) -> Result<bool, RepoError> {
        if self.root.is_none() {
            return Ok(false);
        }
        let (mut rules, mut tree) = (Rules::default(), self.root);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        let mut start = 0usize;
        for end in ends {
            let level = self.level(tree)?;
            if level.is_unread {
                // What they leave out is unknown, so nothing below is removed.
                return Ok(true);
            }
            rules.enter(&path[..start.saturating_sub(1)], level.rules.as_ref());
            let (name, is_directory) = (&path[start..end], is_directory || end < path.len());
            let is_out = match rules.judge(&path[..end], is_directory) {
                Verdict::Out => true,
                Verdict::Kept => false,
                Verdict::Unsaid => ignored::is_by_default(name, is_directory),
            };
            if is_out {
                return Ok(true);
            }
            tree = level.below.get(name).copied();
            start = end + 1;
        }
        Ok(false)
    }

    fn level(&mut self, tree: Option<ObjectId>) -> Result<Level, RepoError> {
        let Some(tree) = tree else { return Ok(Level::default()) };
        if let Some(level) = self.known.get(&tree) {
            return Ok(level.clone());
        }
        let mut level = Level::default();
        let mut below = HashMap::new();
        for entry in self.repo.objects.read_tree(tree)? {
            match entry.kind {
                Kind::Directory => drop(below.insert(entry.name, entry.id)),
                Kind::File { .. } if entry.name == ignored::RULES_FILE.as_bytes() => {
                    let rules = self.rules(entry.id)?;
                    level.is_unread = rules.is_err();
                    level.rules = rules.unwrap_or_default();
                }
                _ => {}
            }
        }
        level.below = Arc::new(below);
        self.known.insert(tree, level.clone());
        Ok(level)
    }

    fn rules(&mut self, file: ObjectId) -> Result<Result<Option<Arc<Gitignore>>, TooManyRules>, RepoError> {
        if self.repo.objects.blob_size(file)? >= ignored::MAX_RULES_BYTES {
            return Ok(Err(TooManyRules));
        }
        Ok(self.held.compile(&self.repo.objects.read_blob(file, None)?))
    }
}
