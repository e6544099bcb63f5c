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
    /// Another service of the session has this name and runs.
    #[error("session '{session_id}' already runs a service named '{name}' ({service_id}); choose another name")]
    NameTaken {
        session_id: String,
        name: String,
        /// The session that has it.
        service_id: String,
    },
    /// The service could not be started.
    #[error("cannot start the service: {reason}")]
    NotStarted { reason: String },
}

impl ServiceError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "service_not_found",
            Self::NameTaken { .. } => "service_name_taken",
            Self::NotStarted { .. } => "service_not_started",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(Hint::ListServices),
            Self::NameTaken { .. } => Some(Hint::StopService),
            Self::NotStarted { .. } => None,
        }
    }
}
