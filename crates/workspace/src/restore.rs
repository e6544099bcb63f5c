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
mod error;
mod intent;
mod past_rules;
mod place;
mod plan;
mod preview;
mod stage;
mod stage_directory;
mod steps;
mod strip;

pub use apply::{Applied, apply};
pub use error::RestoreError;
pub use plan::{Snapshot, plan, plan_between};
pub use preview::preview;
pub use stage::{Staged, stage};
pub use steps::{Item, KeptBack, PathChange, Plan};
pub use strip::{make_way, strip};

use crate::fault::Faults;
use stage_directory::StageDirectory;
use std::path::Path;

/// After a crash, before anything else is done with the workspace: completes a restore whose intent was written, and
/// gives its note; drops what was only staged. `None` if there was nothing to complete.
pub fn recover(workspace: &Path, home: &Path, faults: &Faults) -> Result<Option<(Vec<u8>, Applied)>, RestoreError> {
    let Some(intent) = intent::load(home)? else {
        stage::drop_unfinished(workspace, home).map_err(RestoreError::Stage)?;
        return Ok(None);
    };
    let note = intent.note.clone();
    let stage = StageDirectory::open(&intent.place, workspace, home).map_err(RestoreError::Apply)?;
    let applied = apply::carry_out(workspace, home, intent, &stage, faults)?;
    Ok(Some((note, applied)))
}
