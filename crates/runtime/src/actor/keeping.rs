//! Work with a session's files, which is done on a thread of its own.

use crate::checkpoints::Wanted;
use shellkeep_workspace::checkpointer::{Checkpointer, Saved, Trouble};
use std::path::PathBuf;
use tokio::task::JoinHandle;

/// What is done with the files now.
#[derive(Default)]
pub(super) enum Keeping {
    /// The files are not watched.
    #[default]
    Off,
    /// They are watched.
    Idle(Box<Checkpointer>),
    /// They are being read or written.
    Busy(JoinHandle<Worked>),
}

impl Keeping {
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}

/// The result of work with the files.
pub(super) struct Worked {
    pub(super) keeper: Box<Checkpointer>,
    pub(super) outcome: Outcome,
}

/// What the work was, and how it ended.
pub(super) enum Outcome {
    /// They are watched from now on, and the existing files may have been saved.
    Begun(Option<Wanted>, Result<Option<Saved>, Trouble>),
    /// They were saved, if something had changed.
    Saved(Wanted, Result<Option<Saved>, Trouble>),
    /// They are no longer watched. The file that marks a live session for the next daemon is no longer needed, if there
    /// is one.
    Rested { open: Option<PathBuf> },
}
