//! Brings a workspace back to a checkpoint, or to what a merge made: [`plan`] says what differs, [`stage`] writes
//! every new file to a directory beside, [`apply`] only renames, removes and sets permissions. A full disk fails while
//! staging, with nothing changed. Before the first rename an intent file is written; with it, applying can be repeated
//! after a crash at any point ([`recover`]), so the workspace is before or after.
//!
//! Nothing of the user's is lost: only what the checkpoint right before holds is replaced or removed. What changed since,
//! what checkpoints leave out, and directories with such things in them stay, and are said ([`KeptBack`]). A file that
//! is replaced is looked at again after it was swapped out, and swapped back if it is not what was expected.
//!
//! Restored files get new times of last change, so that build tools notice them.

mod apply;
mod intent;
mod past_rules;
mod place;
mod plan;
mod preview;
mod stage;
mod strip;

pub use apply::{Applied, apply};
pub use plan::{Snapshot, plan, plan_between};
pub use preview::preview;
pub use stage::{Staged, stage};
pub use strip::strip;

use crate::fault::Faults;
use crate::repo::{Kind, ObjectId, RepoError};
use std::io;
use std::path::Path;

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
    fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    fn is_link(&self) -> bool {
        self.kind == Kind::Link
    }

    /// Whether only the permissions differ.
    fn is_same_but_bits(&self, other: &Item) -> bool {
        self.is_directory() && other.is_directory()
            || self.is_directory() == other.is_directory() && self.is_link() == other.is_link() && self.id == other.id
    }
}

/// What happens to one path. What becomes another kind of thing (a directory to a file) has two steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// From the workspace's root, `/` between the names; empty is the workspace itself.
    pub path: Vec<u8>,
    /// What is there now; `None` if nothing.
    pub old: Option<Item>,
    /// What must be there; `None` if nothing.
    pub new: Option<Item>,
}

/// All that a restore will do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// By path.
    pub steps: Vec<Step>,
}

/// A path that is not as the plan wants it, and why: something of the user's is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBack {
    /// Which.
    pub path: Vec<u8>,
    /// Why, in words.
    pub reason: &'static str,
}

/// Why a restore ended early.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A checkpoint could not be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The files could not be written; nothing was changed.
    #[error("the files could not be prepared, nothing was changed: {0}")]
    Stage(#[source] io::Error),
    /// The files are partly changed; doing it again completes it.
    #[error("the rewind stopped half way and is completed as soon as it is tried again: {0}")]
    Apply(#[source] io::Error),
    /// The intent file cannot be read.
    #[error("the note of an unfinished rewind cannot be read: {reason}")]
    Intent {
        /// What is wrong with it.
        reason: String,
    },
}

impl RestoreError {
    /// Whether the disk, or what one may use of it, is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Repo(error) => error.is_full(),
            Self::Stage(error) | Self::Apply(error) => matches!(error.kind(), StorageFull | QuotaExceeded),
            Self::Intent { .. } => false,
        }
    }
}

/// After a crash, before anything else is done with the workspace: completes a restore whose intent was written, and
/// gives its note; drops what was only staged. `None` if there was nothing to complete.
pub fn recover(workspace: &Path, home: &Path, faults: &Faults) -> Result<Option<(Vec<u8>, Applied)>, RestoreError> {
    let Some(intent) = intent::load(home)? else {
        stage::drop_unfinished(workspace, home).map_err(RestoreError::Stage)?;
        return Ok(None);
    };
    let note = intent.note.clone();
    let applied = apply::carry_out(workspace, home, intent, faults)?;
    Ok(Some((note, applied)))
}
