//! Why files could not be read or written, with what a caller can do about it.

use shellkeep_store::AppendError;
use std::error::Error;
use std::{fmt, io};

/// Why files could not be read or written.
#[derive(Debug, Clone)]
pub struct FilesReason {
    sentence: String,
    is_full: bool,
}

impl FilesReason {
    /// Whether the disk, or the user's share of it, is full.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The same with what could not be done in front.
    pub(crate) fn of(self, what: impl fmt::Display) -> Self {
        Self { sentence: format!("{what}: {self}"), ..self }
    }
}

impl From<&AppendError> for FilesReason {
    fn from(error: &AppendError) -> Self {
        Self { sentence: error.to_string(), is_full: matches!(error, AppendError::NoSpace { .. }) }
    }
}

impl From<&io::Error> for FilesReason {
    fn from(error: &io::Error) -> Self {
        Self::from(error as &(dyn Error + 'static))
    }
}

impl From<&(dyn Error + 'static)> for FilesReason {
    fn from(error: &(dyn Error + 'static)) -> Self {
        let is_full = |error: &(dyn Error + 'static)| {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        };
        let mut chain = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
        Self { sentence: error.to_string(), is_full: chain.any(is_full) }
    }
}

impl fmt::Display for FilesReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
