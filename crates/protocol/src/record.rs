//! Records: events posted and read back, the conversation, the agent's own state, proof, and scrubbing.

use crate::event_summary::{EventSummaryList, EventView};
use crate::query::Switch;
use crate::run::NoticeView;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// Body of `POST …/events`: one event as `{event_type, data}`, or many as `{events: […]}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventRequest {
    /// `user_input`, `state_transition`, `llm_call`, `tool_call`, `final_output`, or your own name that starts with
    /// `x_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Its fields: an object of at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Value>,
    /// Many at once, at most 10,000 with 8 MiB. All are checked before the first is recorded; if the store fails after
    /// some, the error says how many were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<NewEvent>>,
}

/// One event of many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// Its type.
    pub event_type: String,
    /// Its fields.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// Where posted events are in the recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PostedEvents {
    /// Number of the event, or of the last of many.
    pub seq: u64,
    /// Number of the first of many; they follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<u64>,
    /// Notices; usually absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

/// Query of `GET …/events`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Only events after this number.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub after: Option<u64>,
    /// Maximum number of events to return, 1–1000. A page also ends at 8 MiB.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
    /// Only events of this type or kind (`session`, `shell`, `service`, `checkpoint`, `notice`), or of these, separated
    /// by commas.
    #[serde(default, rename = "type", deserialize_with = "crate::query::blank")]
    #[param(rename = "type")]
    pub event_type: Option<String>,
    /// Only events that match this regular expression.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub search: Option<String>,
    /// Whether to mask secrets.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub redact: Option<Switch>,
    /// `full` (the default), or `summary`: each event in one line, as in a timeline.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub view: Option<EventView>,
    /// Only events that went wrong; with `view=summary` only.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub failed: Option<Switch>,
}

/// One event of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Position in the session, from 1, no gaps.
    pub seq: u64,
    /// The type.
    pub event_type: String,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// Where it comes from, set by the daemon whatever `data` says: `runtime` is the daemon itself, `agent` and `host`
    /// posted it, `unknown` is from a recording of format 3. It is covered by the hash.
    pub source: String,
    /// The id of the agent's token that posted or requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Its fields.
    #[schema(value_type = Object)]
    pub data: Value,
    /// Its hash, which also covers the previous event.
    pub hash: String,
    /// Fields that are masked, by path, each with the commitment to what it was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub masked: BTreeMap<String, String>,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The events, in order.
    pub events: Vec<Event>,
    /// Pass this as `after` for the next page; `null` when there is nothing more yet.
    pub next: Option<u64>,
}

/// A page of events, as `view` asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum EventListView {
    /// With `view=full`.
    Full(EventList),
    /// With `view=summary`.
    Summary(EventSummaryList),
}

/// Query of `GET …/export`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportParams {
    /// `jsonl` (the default), `asciicast` or `html`.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub format: Option<ExportFormat>,
    /// Whether to mask secrets.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub redact: Option<Switch>,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// One event per line, with its proof.
    #[default]
    Jsonl,
    /// For `asciinema play`.
    Asciicast,
    /// A single HTML page.
    Html,
}

impl FromStr for ExportFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "jsonl" => Ok(Self::Jsonl),
            "asciicast" => Ok(Self::Asciicast),
            "html" => Ok(Self::Html),
            _ => Err("a format is `jsonl`, `asciicast` or `html`"),
        }
    }
}

/// Query of `GET …/config_snapshot`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SnapshotParams {
    /// Whether to mask secrets.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(value_type = Option<bool>)]
    pub redact: Option<Switch>,
}

/// The result of verifying a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// Whether nothing was changed, dropped or reordered.
    pub intact: bool,
    /// Number of events that were checked.
    pub events: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Fields that were masked after they were recorded; the proof still covers their original values.
    pub masked_fields: u64,
    /// Numbers without an event, because it could not be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<Hole>,
    /// The signature that covers its end. Compare `key` with a copy kept elsewhere to know who signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
    /// Signatures of other nodes for earlier events, if the session was on several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_signed: Vec<Signed>,
    /// Whether all these signatures were made by known keys.
    #[serde(default)]
    pub key_is_known: bool,
    /// Attached files that match their recorded hashes: long outputs, agent states, the configuration.
    #[serde(default)]
    pub files: u64,
    /// Files that were deleted to make room. Their contents are still proven by their hashes.
    #[serde(default)]
    pub files_reclaimed: u64,
    /// Remarks, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The first event or file that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad: Option<Bad>,
}

impl From<shellkeep_record::Verdict> for Verdict {
    fn from(verdict: shellkeep_record::Verdict) -> Self {
        let intact = verdict.is_intact();
        let hole = |hole: shellkeep_record::Hole| Hole {
            from: hole.from,
            through: hole.through,
            declared: hole.declared,
            reason: hole.reason,
        };
        Self {
            intact,
            events: verdict.lines,
            head: verdict.head.map(|head| Head { seq: head.seq, hash: head.hash.to_string() }),
            masked_fields: verdict.masked_fields,
            holes: verdict.holes.into_iter().map(hole).collect(),
            signed: verdict.signed.map(Signed::from),
            also_signed: verdict.also_signed.into_iter().map(Signed::from).collect(),
            key_is_known: verdict.key_is_known,
            files: verdict.files,
            files_reclaimed: verdict.files_reclaimed,
            remarks: verdict.remarks,
            bad: verdict.bad.map(|bad| Bad { file: bad.file, line: bad.line_number, seq: bad.seq, reason: bad.reason }),
        }
    }
}

/// A signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Signed {
    /// The public key, 64 hex digits.
    pub key: String,
    /// Number of the last event that it covers, including all before it.
    pub seq: u64,
    /// When it was made.
    pub at: String,
}

impl From<shellkeep_record::SignedHead> for Signed {
    fn from(head: shellkeep_record::SignedHead) -> Self {
        Self { key: head.key.to_string(), seq: head.seq, at: head.at.to_string() }
    }
}

/// The end of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Head {
    /// Number of the last event.
    pub seq: u64,
    /// Its hash: a copy kept elsewhere can later prove that nothing before it was changed.
    pub hash: String,
}

/// Numbers without events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hole {
    /// The first.
    pub from: u64,
    /// The last.
    pub through: u64,
    /// Whether the runtime itself reported them as lost.
    pub declared: bool,
    /// Why.
    pub reason: String,
}

/// An event or file that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bad {
    /// The file it is in.
    pub file: String,
    /// Its line in that file, from 1.
    pub line: u64,
    /// Its number, if that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

/// Body of `POST …/scrub`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// The secret, at least 6 bytes.
    pub secret: String,
    /// Mask it even if it is so common that other text is masked with it, such as `123456`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub force: Option<bool>,
}

impl std::fmt::Debug for ScrubRequest {
    /// Without the secret, which must not end up in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScrubRequest { .. }")
    }
}

/// Where a secret was masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubReport {
    /// Number of the event of the scrub.
    pub seq: u64,
    /// Numbers of the events that contained it.
    pub seqs: Vec<u64>,
    /// Files that contained it.
    pub files: Vec<String>,
    /// Names of the checkpoints that contained it and were deleted.
    #[serde(default)]
    pub checkpoints: Vec<String>,
    /// Copies that may contain it and could not be masked.
    #[serde(default)]
    pub not_reached: Vec<NotReached>,
    /// Names of the nodes that had the session earlier, whose data directories may contain it.
    #[serde(default)]
    pub earlier_nodes: Vec<String>,
    /// Its forks and their forks, which are sessions of their own and may contain it: scrub each of them. With several nodes,
    /// those that are kept on this one.
    #[serde(default)]
    pub forks: Vec<String>,
}

/// A copy that a scrub cannot mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotReached {
    /// Backups and logs of the history database.
    HistoryLogs,
    /// Messages in the queue of the history broker.
    BrokerMessages,
    /// The database to which consumers write those messages.
    ConsumerDatabase,
    /// Data directories of nodes that had the session earlier.
    EarlierNodes,
    /// Its forks.
    Forks,
}

/// Body of `POST …/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    /// The author: `user`, `assistant`, `system`, `tool`, …
    pub role: String,
    /// A text, or your framework's content parts; at most 1 MiB.
    #[schema(value_type = Object)]
    pub content: Value,
}

/// Response to a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageAdded {
    /// Its number in the conversation, from 1, no gaps.
    pub seq_id: u64,
    /// Number of its event in the recording.
    pub seq: u64,
    /// Notices; usually absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

/// A message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Its number.
    pub seq_id: u64,
    /// The author.
    pub role: String,
    /// The content.
    #[schema(value_type = Object)]
    pub content: Value,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A page of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageList {
    /// The messages, by `seq_id`.
    pub messages: Vec<Message>,
    /// Pass this as `after` for the next page; `null` on the last one.
    pub next: Option<u64>,
}

/// Query of `GET …/messages`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageParams {
    /// Only messages after this number.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(default = 0)]
    pub after: Option<u64>,
    /// Maximum number of messages to return, 1–1000.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    pub limit: Option<usize>,
}

/// Query of `GET …/agent_state`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AgentStateParams {
    /// An earlier version, if it is still kept.
    #[serde(default, deserialize_with = "crate::query::blank")]
    pub version: Option<u64>,
}

/// Response to a saved state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentStateSaved {
    /// Its version, which is also the `ETag`.
    pub version: u64,
    /// Number of its event in the recording.
    pub seq: u64,
    /// Notices; usually absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<NoticeView>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let shown = format!("{:?}", ScrubRequest { secret: "horse-battery".to_owned(), force: None });
        assert!(!shown.contains("horse"), "{shown}");
    }
}
