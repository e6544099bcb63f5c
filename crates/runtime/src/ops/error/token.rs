//! Why a token was not created, found or revoked.

use crate::ops::{FilesReason, Hint};

/// Why a token was not created, found or revoked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TokenError {
    /// No such token.
    #[error("there is no token '{token_id}'")]
    NotFound {
        /// The name asked for.
        token_id: String,
    },
    /// The tokens cannot be written.
    #[error("cannot save the tokens: {detail}: {reason}. Check the data directory's disk and try again")]
    Unavailable {
        /// What is in force now.
        detail: &'static str,
        /// Why, and whether the disk is full.
        reason: FilesReason,
    },
}

impl TokenError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "token_not_found",
            Self::Unavailable { .. } => "store_unavailable",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListTokens),
            _ => None,
        }
    }
}
