//! Why a recording, or the agent's state, was not read or written.

use crate::ops::{FilesReason, Hint};
use std::fmt;

/// Why a recording, or the agent's state, was not read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// The recording does not take events of this type.
    #[error("{detail}")]
    InvalidEventType {
        /// Which types it takes, or what the type needs.
        detail: String,
    },
    /// The store took only some of the events.
    #[error(
        "{reason}; only the first {taken} of {total} events were recorded, starting at number {first_seq}. Send only the rest again"
    )]
    EventsCutOff {
        /// What the store said, and whether its disk is full.
        reason: FilesReason,
        /// How many it took.
        taken: usize,
        /// How many there were.
        total: usize,
        /// Number of the first.
        first_seq: u64,
    },
    /// Another client has saved the agent's state since.
    #[error(
        "the agent's state was not saved: {}",
        current.map_or("there is none yet".to_owned(), |version| format!("it is at version {version} now"))
    )]
    VersionConflict {
        /// The version that is kept; none if none is.
        current: Option<u64>,
    },
    /// No state of the agent, or none with this number.
    #[error("session '{session_id}' has no such agent state")]
    AgentStateNotFound { session_id: String },
    /// An old state of the agent is no longer kept.
    #[error(
        "version {version} of the agent's state {}",
        match node {
            Some(node) => format!("stayed on node {node}, from which the session moved here"),
            None => "was deleted to make room for newer output".to_owned(),
        }
    )]
    AgentStateReclaimed {
        version: u64,
        /// The node that has it, if the session moved here from another.
        node: Option<String>,
    },
    /// The file with a state of the agent is not what was saved.
    #[error("version {version} of the agent's state is damaged and not served: {reason}")]
    AgentStateDamaged {
        version: u64,
        /// What is wrong with the file.
        reason: String,
    },
    /// The session is not recorded, or its recording cannot be read.
    #[error("cannot read the recording of session '{session_id}': {reason}")]
    Unreadable { session_id: String, reason: String },
    /// The session's secrets are more than can be masked.
    #[error(
        "the secret variables of session '{session_id}' have or had at least {bytes} bytes, more than the {most} that can be masked, so its recording cannot be shown masked; the host can read it unmasked"
    )]
    TooManySecrets {
        session_id: String,
        /// How many bytes were found before the search stopped.
        bytes: usize,
        /// How many can be masked.
        most: usize,
    },
    /// This node does not have the session, and nothing is added to it in history.
    #[error("session '{session_id}' is only in history, where it cannot be followed")]
    OnlyInHistory { session_id: String },
    /// A search took longer than it may.
    #[error(
        "the search reached its limit of {limit} s and found nothing before {next}; continue from {next}, or use plain text or a simpler pattern"
    )]
    SearchSpent {
        /// Seconds that a search may take.
        limit: u64,
        /// Where to continue.
        next: SearchNext,
    },
    /// A secret was masked only in some places.
    #[error(
        "the secret was masked only in part of session '{session_id}': {reason}. Scrub again; what is masked stays masked"
    )]
    ScrubIncomplete { session_id: String, reason: String },
    /// A file beside the records is not the one that was recorded.
    #[error(
        "file {file} of session '{session_id}' was changed after it was recorded (its hash does not match), so it is not served"
    )]
    FileChanged { session_id: String, file: String },
}

/// Where a search continues: the parameter of the next request, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchNext {
    /// An offset in a run's output or a service's log.
    Offset(u64),
    /// After this record.
    After(u64),
}

impl fmt::Display for SearchNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "offset={offset}"),
            Self::After(seq) => write!(f, "after={seq}"),
        }
    }
}

impl RecordError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidEventType { .. } => "invalid_event_type",
            Self::EventsCutOff { .. } => "store_unavailable",
            Self::VersionConflict { .. } => "version_conflict",
            Self::AgentStateNotFound { .. } => "agent_state_not_found",
            Self::AgentStateReclaimed { .. } => "agent_state_reclaimed",
            Self::AgentStateDamaged { .. } => "agent_state_damaged",
            Self::Unreadable { .. } => "recording_unreadable",
            Self::TooManySecrets { .. } => "too_many_secrets",
            Self::OnlyInHistory { .. } => "only_in_history",
            Self::SearchSpent { .. } => "search_too_expensive",
            Self::ScrubIncomplete { .. } => "scrub_incomplete",
            Self::FileChanged { .. } => "file_changed",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::VersionConflict { .. } => Some(Hint::ReadAgentState),
            Self::AgentStateNotFound { .. } => Some(Hint::SaveAgentState),
            Self::AgentStateDamaged { .. } => Some(Hint::ReadOlderAgentState),
            Self::FileChanged { .. } => Some(Hint::Verify),
            Self::OnlyInHistory { .. } => Some(Hint::ReadPages),
            _ => None,
        }
    }
}
