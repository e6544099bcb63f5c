//! What a restore does, path by path.

use crate::repo::{Kind, ObjectId};

/// A file, a link or a directory as a checkpoint holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its blob or tree.
    pub id: ObjectId,
    /// Its permission bits; a link has none.
    pub bits: u32,
    /// Its bytes, if they are in no repository: what a merge made.
    pub bytes: Option<Vec<u8>>,
}

impl Item {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    pub(super) fn is_link(&self) -> bool {
        self.kind == Kind::Link
    }

    /// Whether only the permissions differ.
    pub(super) fn is_same_but_bits(&self, other: &Item) -> bool {
        self.is_directory() && other.is_directory()
            || self.is_directory() == other.is_directory() && self.is_link() == other.is_link() && self.id == other.id
    }
}

/// What happens to one path. What becomes another kind of thing (a directory to a file) has two steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// From the workspace's root, `/` between the names; empty is the workspace itself.
    pub path: Vec<u8>,
    /// What is there now; `None` if nothing.
    pub old: Option<Item>,
    /// What must be there; `None` if nothing.
    pub new: Option<Item>,
}

/// A path that is not as the plan wants it, and why: something of the user's is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBack {
    pub path: Vec<u8>,
    /// Why, in words.
    pub reason: &'static str,
}

/// All that a restore will do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// By path.
    pub steps: Vec<PathChange>,
    /// What is not removed, because it may have been there and was not saved.
    pub kept_back: Vec<KeptBack>,
}
