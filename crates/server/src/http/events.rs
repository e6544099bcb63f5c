//! `…/events`: events posted by an agent's framework, and the recording of the session, as pages or as a stream.

use super::door::{json, sourced};
use super::responses::{Common, EventTypes, Followed, Searched};
use super::runs::wants_events;
use super::sse;
use crate::auth::Scoped;
use crate::body::{Counted, EVENTS_LIMIT};
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use shellkeep_protocol::{
    Event, EventListView, EventOverview, EventParams, EventRequest, OverviewParams, PostedEvents,
};

/// Where a disconnected reader wants to continue.
const LAST_EVENT_ID: &str = "last-event-id";

/// Records one event, or several in order.
///
/// The types are `user_input{message}`, `state_transition{from_node, to_node, state_diff}`, `llm_call{prompt, response,
/// token_usage, duration}`, `tool_call{tool_name, parameters, output, error, duration}`, `final_output{output,
/// stream}`, and your own, named `x_…`. Do not post commands: each is recorded as a `tool_call` automatically.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/events", tag = "records", operation_id = "post_events",
    params(SessionPath),
    request_body = EventRequest,
    responses((status = 201, description = "Stored durably", body = PostedEvents), EventTypes, Common)
)]
pub async fn post(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Counted { value, share }: Counted<EventRequest, EVENTS_LIMIT>,
) -> Result<Response, Refusal> {
    let events = translate::new_events(value)?;
    let many = events.len() > 1;
    let posted = detached(async move {
        let posted = engine.records().post_events(&id, events).await;
        drop(share);
        posted
    });
    let posted = posted.await??;
    Ok(json(StatusCode::CREATED, &translate::posted(posted, many)))
}

/// Reads the session's recording: everything that happened in it, in order.
///
/// For the next page set `after` to `next`. `type` and `search` filter. `view=summary` returns each event in one line, and
/// then `failed` returns only those that went wrong. With `Accept: text/event-stream` the response
/// is a stream: each event is an `event` with its number as the id, first the existing ones after `after` (or
/// `Last-Event-ID`), then new ones as they happen. The stream ends only after `limit`
/// events, if that is given, or when the session leaves the node: then with an `error` event (`owner_unreachable`), and it
/// goes on at the other node with `Last-Event-ID`.
///
/// A session that this node does not have is read from history, if there is a history database. It cannot be followed: 409
/// `only_in_history`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/events", tag = "records", operation_id = "list_events",
    params(SessionPath, EventParams),
    responses(
        (status = 200, description = "A page of events, or the events as they happen", content(
            (EventListView = "application/json"), (Event = "text/event-stream")),
            headers(("shellkeep-source" = String, description = "`history` if this node does not have the session and it was read from history"))),
        Followed, Searched, Common
    )
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let summary = translate::summary_query(&params)?;
    let is_limited = params.limit.is_some();
    let mut query = translate::event_query(params)?;
    if wants_events(&headers) {
        if let Some(last) = headers.get(LAST_EVENT_ID) {
            let last = last.to_str().ok().and_then(|text| text.trim().parse().ok());
            query.after = last.ok_or_else(|| Refusal::invalid("last-event-id: not the number of an event"))?;
        }
        let permit = sse::permit(&engine)?;
        let most = is_limited.then_some(query.limit);
        return Ok(sse::events(permit, most, engine.records().follow_events(&id, query).await?));
    }
    if let Some(failed) = summary {
        let page = engine.records().summaries(&id, query, failed).await?;
        return Ok(sourced(page.origin, json(StatusCode::OK, &translate::summary_list(page))));
    }
    let page = engine.records().events(&id, query).await?;
    Ok(sourced(page.origin, json(StatusCode::OK, &translate::event_list(page))))
}

/// The session's recording as a row of bars, each of the same number of events: how many went wrong, how long they took.
///
/// Of a recording with more than 20,000 events, each bar is estimated from its first events.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/events/overview", tag = "records", operation_id = "events_overview",
    params(SessionPath, OverviewParams),
    responses((status = 200, description = "The bars", body = EventOverview), Searched, Common)
)]
pub async fn overview(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<OverviewParams>,
) -> Result<Response, Refusal> {
    let buckets = translate::overview_query(&params)?;
    let overview = engine.records().overview(&id, buckets).await?;
    Ok(json(StatusCode::OK, &translate::overview(overview)))
}
