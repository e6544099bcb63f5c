//! Events, messages, the agent's state: between the wire and the runtime's vocabulary.

use super::condition::condition;
use crate::refusal::Refusal;
use axum::http::HeaderMap;
use shellkeep_protocol as wire;
use shellkeep_runtime::{
    AgentStateSaved, EventPage, EventQuery, Expected, ExportFormat, Line, MAX_BUCKETS, MAX_EVENT_PAGE,
    MAX_MESSAGE_PAGE, MessageAdded, MessagePage, NewEvent, NewMessage, Overview, Posted, Scrubbed, SummaryPage,
};
use shellkeep_session::{Notice, OutOfReach};

/// Default number of events per page.
const DEFAULT_EVENTS: usize = 100;
/// Default number of bars of an overview.
const DEFAULT_BUCKETS: u64 = 300;

/// The value of a flag in a query; off by default.
pub fn is_on(switch: Option<wire::Switch>) -> bool {
    switch.is_some_and(|wire::Switch(on)| on)
}

/// A request to record events.
pub fn new_events(request: wire::EventRequest) -> Result<Vec<NewEvent>, Refusal> {
    match request {
        wire::EventRequest { event_type: Some(event_type), data: Some(data), events: None } => {
            Ok(vec![NewEvent { event_type, data }])
        }
        wire::EventRequest { event_type: None, data: None, events: Some(events) } => {
            let event = |wire::NewEvent { event_type, data }| NewEvent { event_type, data };
            Ok(events.into_iter().map(event).collect())
        }
        _ => Err(Refusal::invalid(
            "pass one event as event_type and data, or several as events: [{event_type, data}, \
            …]",
        )),
    }
}

/// The numbers of recorded events, for the caller.
pub fn posted(posted: Posted, many: bool) -> wire::PostedEvents {
    wire::PostedEvents {
        seq: posted.last_seq,
        first_seq: many.then_some(posted.first_seq),
        notices: notices(posted.notices),
    }
}

/// A request for events in one line each: whether only those that went wrong. `None` if whole events are wanted.
pub fn summary_query(params: &wire::EventParams) -> Result<Option<bool>, Refusal> {
    match (params.view.unwrap_or_default(), is_on(params.failed)) {
        (wire::EventView::Summary, failed) => Ok(Some(failed)),
        (wire::EventView::Full, false) => Ok(None),
        (wire::EventView::Full, true) => Err(Refusal::invalid("failed: works with view=summary only")),
    }
}

/// Events in one line each, for the caller.
pub fn summary_list(page: SummaryPage) -> wire::EventSummaryList {
    wire::EventSummaryList { events: page.events.into_iter().map(wire::EventSummary::from).collect(), next: page.next }
}

/// A request for an overview: how many bars.
pub fn overview_query(params: &wire::OverviewParams) -> Result<u64, Refusal> {
    match params.buckets.unwrap_or(DEFAULT_BUCKETS) {
        buckets @ 1..=MAX_BUCKETS => Ok(buckets),
        buckets => Err(Refusal::invalid(format!("buckets: {buckets} is not between 1 and {MAX_BUCKETS}"))),
    }
}

/// An overview, for the caller.
pub fn overview(overview: Overview) -> wire::EventOverview {
    let bucket = |bucket: shellkeep_runtime::Bucket| wire::EventBucket {
        seq: bucket.seq,
        events: bucket.events,
        failed: bucket.failed,
        seconds: bucket.seconds,
        from: bucket.from.map(|at| at.to_string()),
    };
    wire::EventOverview { buckets: overview.buckets.into_iter().map(bucket).collect(), sampled: overview.is_sampled }
}

/// A request to read events.
pub fn event_query(params: wire::EventParams) -> Result<EventQuery, Refusal> {
    let limit = match params.limit.unwrap_or(DEFAULT_EVENTS) {
        limit @ 1..=MAX_EVENT_PAGE => limit,
        limit => return Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_EVENT_PAGE}"))),
    };
    let types = params.event_type.iter().flat_map(|types| types.split(','));
    Ok(EventQuery {
        after: params.after.unwrap_or(0),
        limit,
        types: types.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
        search: params.search,
        redact: is_on(params.redact),
    })
}

/// An event, for the caller.
pub fn event(line: Line) -> wire::Event {
    wire::Event {
        seq: line.seq,
        event_type: line.event_type,
        timestamp: line.timestamp.to_string(),
        source: line.author.source.to_string(),
        by: line.author.by,
        data: line.data,
        hash: line.proof.hash.to_string(),
        masked: line.proof.masked.into_iter().map(|(path, commitment)| (path, commitment.to_string())).collect(),
    }
}

/// A page of events, for the caller.
pub fn event_list(page: EventPage) -> wire::EventList {
    wire::EventList { events: page.events.into_iter().map(event).collect(), next: page.next }
}

/// A request to export.
pub fn export_format(format: wire::ExportFormat) -> ExportFormat {
    match format {
        wire::ExportFormat::Jsonl => ExportFormat::Jsonl,
        wire::ExportFormat::Asciicast => ExportFormat::Asciicast,
        wire::ExportFormat::Html => ExportFormat::Html,
    }
}

/// Where a secret was masked, for the host.
pub fn scrubbed(scrubbed: Scrubbed) -> wire::ScrubReport {
    let Scrubbed { seq, seqs, files, checkpoints, out_of_reach, earlier_nodes, forks, .. } = scrubbed;
    let not_reached = out_of_reach.into_iter().map(not_reached).collect();
    let forks = forks.iter().map(ToString::to_string).collect();
    wire::ScrubReport { seq, seqs, files, checkpoints, not_reached, earlier_nodes, forks }
}

fn not_reached(copy: OutOfReach) -> wire::NotReached {
    match copy {
        OutOfReach::HistoryLogs => wire::NotReached::HistoryLogs,
        OutOfReach::BrokerMessages => wire::NotReached::BrokerMessages,
        OutOfReach::ConsumerDatabase => wire::NotReached::ConsumerDatabase,
        OutOfReach::EarlierNodes => wire::NotReached::EarlierNodes,
        OutOfReach::Forks => wire::NotReached::Forks,
    }
}

/// A request to add a message.
pub fn new_message(request: wire::MessageRequest) -> NewMessage {
    NewMessage { role: request.role, content: request.content }
}

/// A message that was added, for the caller.
pub fn message_added(added: MessageAdded) -> wire::MessageAdded {
    wire::MessageAdded { seq_id: added.seq_id, seq: added.seq, notices: notices(added.notices) }
}

/// The number of messages per page.
pub fn message_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(MAX_MESSAGE_PAGE) {
        limit @ 1..=MAX_MESSAGE_PAGE => Ok(limit),
        limit => Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_MESSAGE_PAGE}"))),
    }
}

/// A page of the conversation, for the caller.
pub fn message_list(page: MessagePage) -> wire::MessageList {
    let message = |message: shellkeep_session::Message| wire::Message {
        seq_id: message.seq_id,
        role: message.role,
        content: message.content,
        created_at: message.at.to_string(),
    };
    wire::MessageList { messages: page.messages.into_iter().map(message).collect(), next: page.next }
}

/// What must be true of the agent's state, from the headers.
pub fn expected_state(headers: &HeaderMap) -> Result<Expected, Refusal> {
    let valid = "send either if-match: \"VERSION\", as in the ETag (or * for any), or if-none-match: *";
    condition(headers, valid, |tag| tag.parse::<u64>().ok()).map(Expected::from)
}

/// A state that was saved, for the caller.
pub fn agent_state_saved(saved: AgentStateSaved) -> wire::AgentStateSaved {
    wire::AgentStateSaved { version: saved.version, seq: saved.seq, notices: notices(saved.notices) }
}

fn notices(notices: Vec<Notice>) -> Vec<wire::NoticeView> {
    notices.into_iter().map(Into::into).collect()
}
