//! A message for a session's agent, and its result.

use crate::run::BusyChoice;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/sessions/{id}/resume`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// The message; at most 1 MiB.
    #[schema(example = "run the tests again")]
    pub message: String,
    /// Seconds the agent may work on it; by default `config.agent.timeout`, or 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 86400)]
    pub timeout: Option<f64>,
    /// Idempotency key: repeating it returns the first call's result, or continues the work if the daemon died in
    /// between. With a key the agent keeps running when you disconnect; without one it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What to do while the agent works on another message: wait, or 409 `agent_busy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<BusyChoice>,
}

/// The result of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResumeResponse {
    /// Its id in the recording.
    pub resume_id: String,
    /// The agent's answer.
    pub output: String,
    /// How its work ended.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How an agent's work on a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

/// Data of the event `output` of a streamed response.
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
