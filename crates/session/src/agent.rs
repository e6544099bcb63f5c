//! What an agent stores in its session besides the shell: its own state, and the conversation.

use crate::{ByteString, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The state that an agent's framework saved last. The session does not look into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// Counts the saves of the session, from 1. A number is never reused, even after a rewind.
    pub version: u64,
    /// The media type.
    pub media_type: String,
    /// Where the bytes are.
    pub content: Content,
}

impl AgentState {
    /// The name of the file of a state that is too large for its record.
    pub fn file_name(version: u64) -> String {
        format!("agent_state.{version}")
    }
}

/// Bytes that are inside a record if they are few, and in a separate file if they are many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Inline(ByteString),
    /// A file in the session's directory for output.
    File {
        name: String,
        /// Its length.
        bytes: u64,
        /// The BLAKE3 hash of its bytes, as hex. Files of version 3 and before have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
    },
}

impl Content {
    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.as_bytes().len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The event type of a message for an agent.
pub const USER_INPUT: &str = "user_input";
/// The event type of an agent's final output.
pub const FINAL_OUTPUT: &str = "final_output";
/// The event type of any other end of its work.
pub const RESUME_ENDED: &str = "resume_ended";

/// One message of the conversation between a person and an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Position in the conversation, from 1, no gaps.
    pub seq_id: u64,
    /// The author: `user`, `assistant`, `system`, `tool`, …
    pub role: String,
    /// The content: a text, or a framework's content parts.
    pub content: Value,
    pub at: Timestamp,
}
