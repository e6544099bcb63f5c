//! Why a request to the daemon failed.

use super::hints::Refused;
use crate::failure::Failure;
use std::fmt;

/// Why a request failed.
#[derive(Debug)]
pub enum ClientError {
    /// The daemon refused.
    Refused(Box<Refused>),
    /// The daemon did not answer, or not in its language.
    Broken(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Broken(message) => f.write_str(message),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::client(error)
    }
}

pub(super) fn broken(error: impl fmt::Display) -> ClientError {
    ClientError::Broken(format!(
        "lost the connection to the daemon: {error}; `shellkeep status` says whether it is running"
    ))
}

/// The daemon's answer is not what it should be.
pub(super) fn unreadable(error: serde_json::Error) -> ClientError {
    ClientError::Broken(format!("cannot read the daemon's response ({error}); is it the same version as this client?"))
}
