//! Why files were not saved, compared, restored, copied or merged.

use crate::notices::counted;
use crate::ops::{FilesReason, Hint};
use shellkeep_session::{LeftOut, SessionState};

/// What became of a checkpoint that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// It was pruned or purged.
    Pruned,
    /// The session moved here from a node that has it.
    OnNode(String),
}

impl Gone {
    /// Of a checkpoint that was recorded up to a record.
    pub(crate) fn of(state: &SessionState, seq: u64) -> Self {
        state.claims.elsewhere(seq).map_or(Self::Pruned, |node| Self::OnNode(node.to_owned()))
    }

    fn sentence(&self, session_id: &str) -> String {
        match self {
            Self::Pruned => format!("of session '{session_id}' was pruned"),
            Self::OnNode(node) => {
                format!("of session '{session_id}' was not copied from node {node}, or was pruned there")
            }
        }
    }
}

/// A file that an operation would have had to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: String,
    /// What would have to be decided.
    pub reason: String,
}

impl From<&LeftOut> for Conflict {
    fn from(file: &LeftOut) -> Self {
        Self { path: file.path.to_text().into_owned(), reason: file.reason.clone() }
    }
}

/// Why files were not saved, compared, restored, copied or merged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CheckpointError {
    /// No such checkpoint, or it was pruned.
    #[error(
        "{} '{checkpoint}' {}",
        if gone.is_some() { "checkpoint" } else { "there is no checkpoint" },
        gone.as_ref().map_or_else(|| format!("in session '{session_id}'"), |gone| gone.sentence(session_id))
    )]
    NotFound {
        session_id: String,
        /// What was asked for.
        checkpoint: String,
        /// What became of it, if there was one.
        gone: Option<Gone>,
    },
    /// There is no such record, or what the session was then is not known.
    #[error("{detail}; nothing was changed")]
    NoSuchMoment { detail: String },
    /// There is nothing to undo or redo.
    #[error("{detail}; nothing was changed")]
    NothingToUndo { detail: String },
    /// The files could not be kept, brought back or copied.
    #[error("the files of session '{session_id}' {what}: {reason}; {state}")]
    Failed {
        session_id: String,
        /// What could not be done.
        what: &'static str,
        /// Why, and whether the disk is full.
        reason: FilesReason,
        /// How the files are now, and what to do next.
        state: &'static str,
    },
    /// There is no such file in the checkpoint.
    #[error("there is no file '{path}' in checkpoint '{checkpoint}'")]
    FileNotFound {
        /// Where it was looked for.
        checkpoint: String,
        path: String,
    },
    /// A fork would work on the same files.
    #[error(
        "session '{session_id}' works in '{path}', outside its workspace '{workspace}', so a fork would change the same files; nothing was forked"
    )]
    NotApart {
        session_id: String,
        /// Where it works.
        path: String,
        workspace: String,
    },
    /// A rewind would take back what other sessions have changed.
    #[error(
        "going back would also undo changes of other sessions in the same directory: {} ({first}); nothing was changed",
        counted(of_others.len() as u64, "file")
    )]
    OfOthers {
        /// The first of them, and who changed it.
        first: String,
        /// All of them, as far as they are named.
        of_others: Vec<Conflict>,
    },
    /// The session was not forked from another, or that one is gone.
    #[error("{detail}")]
    NoOrigin {
        /// What is missing.
        detail: String,
    },
    /// Both sides of a merge changed the same.
    #[error("merge conflict in {} ({first}); nothing was changed", counted(conflicts.len() as u64, "file"))]
    MergeConflict {
        /// The first of them.
        first: String,
        /// All of them.
        conflicts: Vec<Conflict>,
    },
}

impl CheckpointError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "checkpoint_not_found",
            Self::NoSuchMoment { .. } | Self::NothingToUndo { .. } => "no_such_moment",
            Self::Failed { .. } => "files_failed",
            Self::FileNotFound { .. } => "file_not_found",
            Self::NotApart { .. } => "files_not_apart",
            Self::OfOthers { .. } => "files_of_others",
            Self::NoOrigin { .. } => "no_origin",
            Self::MergeConflict { .. } => "merge_conflict",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListCheckpoints),
            Self::NoSuchMoment { .. } => Some(Hint::ListMoments),
            Self::NotApart { .. } => Some(Hint::SeparateFiles),
            Self::OfOthers { .. } => Some(Hint::ForceRewind),
            Self::MergeConflict { .. } => Some(Hint::ResolveConflicts),
            _ => None,
        }
    }
}
