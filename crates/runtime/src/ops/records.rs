//! The vocabulary of records: what an agent's framework posts, reads and saves, and scrubbing.

pub use shellkeep_record::Line;
pub use shellkeep_record::player::Summary;
pub use shellkeep_record::verify::Verdict;

use shellkeep_session::{Message, Notice, OutOfReach, SessionId, Timestamp};
use std::fmt;

/// Longest `data` of one event, as JSON. Larger data belongs in a file, with its path in the event.
pub const MAX_EVENT_BYTES: usize = 1 << 20;
/// Most events of one call.
pub const MAX_EVENTS: usize = 10_000;
/// Most bytes of `data` of one call.
pub const MAX_EVENTS_BYTES: usize = 8 << 20;
/// Longest name of a type of events.
pub const MAX_EVENT_TYPE: usize = 64;
/// Most events on one page.
pub const MAX_EVENT_PAGE: usize = 1000;
/// Longest content of a message, as JSON.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Longest role of a message.
pub const MAX_ROLE: usize = 64;
/// Most messages on one page.
pub const MAX_MESSAGE_PAGE: usize = 1000;
/// Longest state of an agent.
pub const MAX_AGENT_STATE: usize = 16 << 20;
/// The longest secret for a scrub.
pub const MAX_SECRET: usize = 64 << 10;

/// An event from an agent's framework.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// One of the types of the contract, or the caller's own, which begins with `x_`.
    pub event_type: String,
    /// Its fields; an object.
    pub data: serde_json::Value,
}

/// The numbers of recorded events.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// Number of the first.
    pub first_seq: u64,
    /// Number of the last; there is nothing else between them.
    pub last_seq: u64,
    pub notices: Vec<Notice>,
}

/// Read a recording.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only events after this number.
    pub after: u64,
    /// Most events to return.
    pub limit: usize,
    /// Only events of these types; all if none is named.
    pub types: Vec<String>,
    /// Only events that match this regular expression.
    pub search: Option<String>,
    /// Whether to mask secrets.
    pub redact: bool,
}

/// Where what was read comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This node has the session.
    Node,
    /// Only history has it.
    History,
}

/// A page of a recording.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// The events, in order.
    pub events: Vec<Line>,
    /// Where to continue, if there may be more: pass it as `after`.
    pub next: Option<u64>,
    pub origin: Origin,
}

/// A page of a recording, each event in one line.
#[derive(Debug, Clone)]
pub struct SummaryPage {
    /// The events, in order.
    pub events: Vec<Summary>,
    /// Where to continue, if there may be more: pass it as `after`.
    pub next: Option<u64>,
    pub origin: Origin,
}

/// Most bars of an overview.
pub const MAX_BUCKETS: u64 = 1000;

/// A recording as a row of bars.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The bars, in order.
    pub buckets: Vec<Bucket>,
    /// Whether each bar stands for more events than were read for it.
    pub is_sampled: bool,
}

/// Some events in a row.
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    /// Number of the first.
    pub seq: u64,
    /// How many there are.
    pub events: u64,
    /// How many of those that were read went wrong.
    pub failed: u64,
    /// Seconds that they took together.
    pub seconds: f64,
    /// When the first of them happened.
    pub from: Option<Timestamp>,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// One event per line, with its proof.
    Jsonl,
    /// For `asciinema play`.
    Asciicast,
    /// A single HTML page.
    Html,
}

/// Add a message to the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The author.
    pub role: String,
    pub content: serde_json::Value,
}

/// A message that was added.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageAdded {
    /// Its number in the conversation.
    pub seq_id: u64,
    /// Number of its record.
    pub seq: u64,
    pub notices: Vec<Notice>,
}

/// A page of the conversation.
#[derive(Debug, Clone)]
pub struct MessagePage {
    /// The messages, by number.
    pub messages: Vec<Message>,
    /// Where to continue, if there is more: pass it as `after`.
    pub next: Option<u64>,
    pub origin: Origin,
}

/// The condition for saving a state, or for changing a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// None: the last write wins.
    Anything,
    /// There is none yet.
    Nothing,
    /// There is one, of any version.
    Something,
    /// This version is current.
    Version(u64),
}

impl Expected {
    /// Whether it holds for what there is now; `None` is nothing.
    pub(crate) fn holds(self, current: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => current.is_none(),
            Self::Something => current.is_some(),
            Self::Version(version) => current == Some(version),
        }
    }
}

/// Save the agent's state.
#[derive(Clone)]
pub struct SaveAgentState {
    /// What the bytes are.
    pub media_type: String,
    pub bytes: Vec<u8>,
    /// The condition.
    pub expected: Expected,
}

/// A state that was saved.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStateSaved {
    pub version: u64,
    /// Number of its record.
    pub seq: u64,
    pub notices: Vec<Notice>,
}

/// A state of the agent, read back.
#[derive(Clone)]
pub struct AgentStateView {
    pub version: u64,
    /// What the bytes are.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// A secret to mask. It is never printed.
#[derive(Clone)]
pub struct Secret {
    pub text: String,
    /// Whether it is masked even if it is so common that other text is masked with it.
    pub force: bool,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The result of a scrub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// Number of the record of the scrub.
    pub seq: u64,
    /// Numbers of the events in which something was masked.
    pub seqs: Vec<u64>,
    /// Files in which something was masked.
    pub files: Vec<String>,
    /// Names of the checkpoints that contained it and were deleted.
    pub checkpoints: Vec<String>,
    /// Copies that it could not mask.
    pub out_of_reach: Vec<OutOfReach>,
    /// Names of the nodes that had the session earlier, if these are among them.
    pub earlier_nodes: Vec<String>,
    /// Its forks and theirs, if these are among them.
    pub forks: Vec<SessionId>,
    pub at: Timestamp,
}
