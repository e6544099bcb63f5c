//! A message for a session's agent, and what came of it.

use crate::run::BusyChoice;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/sessions/{id}/resume`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// What the agent is told; at most 1 MiB.
    #[schema(example = "run the tests again")]
    pub message: String,
    /// Seconds the agent may work on it; as `config.agent.timeout` says, or 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 86400)]
    pub timeout: Option<f64>,
    /// Your key for this call. The same key again gives the first call's result, or goes on with it if the daemon died
    /// meanwhile. With a key the agent goes on when you hang up; without one it is stopped then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What happens when the agent works on another message: wait, or 409 `agent_busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<BusyChoice>,
}

/// What came of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResumeResponse {
    /// Its name in the recording.
    pub resume_id: String,
    /// What the agent answered.
    pub output: String,
    /// How its work ended.
    pub status: ResumeStatus,
    /// Steps it completed: how often it saved its state.
    pub steps: u64,
    /// Version of its state that is kept; 0 if there is none.
    pub agent_state_version: u64,
    /// Number of the event that holds the message.
    pub seq_from: u64,
    /// Number of the last event.
    pub seq_to: u64,
    /// Why it is not done, and what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How an agent's work on a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// The agent said that it is done.
    Done,
    /// Somebody stopped it: its caller went away, the session was ended, the daemon stopped.
    Interrupted,
    /// It ended without a word, or did what it may not do.
    Failed,
    /// Its time was over.
    TimedOut,
}

/// Data of the event `output` of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerEvent {
    /// A piece of the answer.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_spelled_as_the_contract_says() {
        let all = [ResumeStatus::Done, ResumeStatus::Interrupted, ResumeStatus::Failed, ResumeStatus::TimedOut];
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"["done","interrupted","failed","timed_out"]"#);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let error = serde_json::from_str::<ResumeRequest>(r#"{"message": "x", "mesage": "y"}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `mesage`"), "{error}");
    }
}
