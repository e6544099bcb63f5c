//! Why a service was not started or found.

use crate::ops::Hint;

/// Why a service was not started or found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// No such service.
    #[error("session '{session_id}' has no service '{service_id}'")]
    NotFound {
        session_id: String,
        /// The name asked for.
        service_id: String,
    },
    /// The service could not be started.
    #[error("cannot start the service: {reason}")]
    NotStarted { reason: String },
}

impl ServiceError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "service_not_found",
            Self::NotStarted { .. } => "service_not_started",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListServices),
            _ => None,
        }
    }
}
