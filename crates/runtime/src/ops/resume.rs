//! The vocabulary of resuming: a message for a session's agent, and its result.

use super::{Hint, IfBusy};
use shellkeep_record::Line;
use std::time::Duration;

/// Default time that an agent may work on a message.
pub const DEFAULT_RESUME_TIMEOUT: Duration = Duration::from_secs(300);
/// Longest message for an agent.
pub const MAX_RESUME_MESSAGE: usize = 1 << 20;

/// Send a message to a session's agent, which continues from its last step.
#[derive(Debug, Clone)]
pub struct ResumeSession {
    pub message: String,
    /// How long it may work on it; by default as in the session's config.
    pub timeout: Option<Duration>,
    /// The idempotency key: a second call with the same key returns the first one's result, or continues its work after
    /// a crash.
    pub request_id: Option<String>,
    /// What to do when the agent works on another message.
    pub if_busy: IfBusy,
}

impl ResumeSession {
    /// A message with every setting at its default.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), timeout: None, request_id: None, if_busy: IfBusy::Wait }
    }
}

/// How an agent's work on a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeStatus {
    /// The agent reported that it is done.
    Done,
    /// It was stopped: the caller disconnected, the session was ended, or the daemon stopped.
    Interrupted,
    /// It exited without reporting a result, or violated the protocol.
    Failed,
    /// It timed out.
    TimedOut,
}

impl ResumeStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
        }
    }

    /// From its name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Done, Self::Interrupted, Self::Failed, Self::TimedOut].into_iter().find(|status| status.as_str() == word)
    }
}

/// The result of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumeView {
    /// Its id in the recording: `a` and the number of the message's event.
    pub resume_id: String,
    /// The agent's answer.
    pub output: String,
    /// How it ended.
    pub status: ResumeStatus,
    /// Steps it completed: how often it saved its state.
    pub steps: u64,
    /// Version of its saved state; 0 if there is none.
    pub agent_state_version: u64,
    /// Number of the message's event.
    pub seq_from: u64,
    /// Number of the last event.
    pub seq_to: u64,
    /// Why it is not done, and what to do next.
    pub error: Option<String>,
}

/// What a streaming caller gets.
#[derive(Debug, Clone)]
pub enum ResumeChunk {
    /// A new event of the session.
    Event(Box<Line>),
    /// A piece of the answer.
    Output(String),
    /// The end.
    Result(Box<ResumeView>),
}

/// Why a session's agent was not resumed. Nothing was recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResumeError {
    /// The session's config names no agent.
    #[error("session '{session_id}' has no agent to run: {reason}")]
    NoAgent {
        session_id: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// The agent works on another message.
    #[error("the agent of session '{session_id}' is working on another message ({resume_id}); nothing was recorded")]
    Busy {
        session_id: String,
        /// What it works on.
        resume_id: String,
    },
    /// The agent's program did not start.
    #[error(
        "cannot start the agent of session '{session_id}': {reason}; nothing was recorded. Fix the agent config or install the program, then send the message again"
    )]
    NotStarted { session_id: String, reason: String },
}

impl ResumeError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoAgent { .. } => "no_agent",
            Self::Busy { .. } => "agent_busy",
            Self::NotStarted { .. } => "agent_not_started",
        }
    }

    /// What to do next, where that differs from door to door.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::NoAgent { .. } => Some(Hint::ConfigureAgent),
            Self::Busy { .. } => Some(Hint::WaitForAgent),
            Self::NotStarted { .. } => None,
        }
    }

    /// Whether retrying later can help; otherwise the session must be changed.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::NotStarted { .. })
    }

    /// The session it is about.
    pub fn session_id(&self) -> &str {
        let (Self::NoAgent { session_id, .. } | Self::Busy { session_id, .. } | Self::NotStarted { session_id, .. }) =
            self;
        session_id
    }
}
