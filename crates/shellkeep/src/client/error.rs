//! Why a request to the daemon failed.

use super::hints;
use crate::failure::Failure;
use shellkeep_protocol::Problem;
use std::fmt;

/// Why a request failed.
#[derive(Debug)]
pub enum ClientError {
    /// The daemon refused.
    Refused(Box<Problem>),
    /// The daemon did not answer, or not in its language.
    Broken(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => f.write_str(&hints::words(problem)),
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
    ClientError::Broken(format!("lost the connection to the daemon: {error}"))
}
