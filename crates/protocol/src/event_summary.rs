//! Events in one line each, as in a timeline, and a recording as a row of bars.

use serde::{Deserialize, Serialize};
use shellkeep_record::player::{Kind, Summary};
use std::str::FromStr;
use utoipa::{IntoParams, ToSchema};

/// How much of an event is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventView {
    /// All of it.
    #[default]
    Full,
    /// One line.
    Summary,
}

impl FromStr for EventView {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "full" => Ok(Self::Full),
            "summary" => Ok(Self::Summary),
            _ => Err("a view is `full` or `summary`"),
        }
    }
}

/// A page of events, each in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventSummaryList {
    /// The events, in order.
    pub events: Vec<EventSummary>,
    /// Pass this as `after` for the next page; `null` when there is nothing more yet.
    pub next: Option<u64>,
}

/// An event in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventSummary {
    /// Position in the session.
    pub seq: u64,
    /// The type.
    pub event_type: String,
    /// When (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// What it is about.
    pub kind: EventKind,
    /// Where it comes from.
    pub source: String,
    /// The id of the token that posted or requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What it says, truncated after 100 characters.
    pub text: String,
    /// How it went, as in `exit 2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Whether it went wrong; absent if it did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Seconds that it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The run that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How many notices it has; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notices: Option<usize>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A message for the agent.
    Input,
    /// A model was called.
    Model,
    /// A tool was used.
    Tool,
    /// The agent answered.
    Output,
    /// The agent's own state.
    Agent,
    /// The session, its shell and its files.
    Session,
    /// A service.
    Service,
    /// Something is missing or was masked.
    Record,
    /// The host's own type.
    Other,
}

/// Characters of a text in a summary: what fits into a row.
const SUMMARY_TEXT: usize = 100;

impl From<Summary> for EventSummary {
    fn from(summary: Summary) -> Self {
        let kind = match summary.kind {
            Kind::Input => EventKind::Input,
            Kind::Model => EventKind::Model,
            Kind::Tool => EventKind::Tool,
            Kind::Output => EventKind::Output,
            Kind::Agent => EventKind::Agent,
            Kind::Session => EventKind::Session,
            Kind::Service => EventKind::Service,
            Kind::Record => EventKind::Record,
            Kind::Other => EventKind::Other,
        };
        Self {
            seq: summary.seq,
            event_type: summary.event_type,
            timestamp: summary.timestamp.to_string(),
            kind,
            source: summary.author.source.to_string(),
            by: summary.author.by,
            text: shortened(summary.text),
            outcome: summary.outcome.map(shortened),
            failed: summary.failed,
            seconds: summary.seconds,
            run_id: summary.run_id,
            notices: Some(summary.notices.len()).filter(|count| *count > 0),
        }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SUMMARY_TEXT) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Query of `GET …/events/overview`.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OverviewParams {
    /// Maximum number of bars, 1–1000.
    #[serde(default, deserialize_with = "crate::query::blank")]
    #[param(minimum = 1, maximum = 1000, default = 300)]
    pub buckets: Option<u64>,
}

/// A recording as a row of bars, each of the same number of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventOverview {
    /// The bars, in order.
    pub buckets: Vec<EventBucket>,
    /// Whether the figures are estimates from some events of each bar, because the recording is long.
    pub sampled: bool,
}

/// Some events in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventBucket {
    /// Number of the first.
    pub seq: u64,
    /// How many there are.
    pub events: u64,
    /// How many went wrong.
    pub failed: u64,
    /// Seconds that they took together.
    pub seconds: f64,
    /// When the first of them happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub from: Option<String>,
}
