//! `…/agent_state`: what an agent's framework stores in its session. Any bytes, with versions that detect concurrent
//! writes.

use super::door::{json, unchanged};
use super::responses::{Common, Conflict};
use crate::auth::Scoped;
use crate::body::Raw;
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{AgentStateParams, AgentStateSaved};
use shellkeep_runtime::{AgentStateView, MAX_AGENT_STATE, SaveAgentState};

/// The default content type.
const UNSAID: &str = "application/octet-stream";

/// Saves the agent's state: JSON or any bytes, up to 16 MiB, with your `Content-Type`.
///
/// With `If-Match: "3"` it is saved only if the current version is 3, with `If-None-Match: *` only if there is none;
/// otherwise the response is 412 with the current version. Without either, the last write wins.
#[utoipa::path(
    put, path = "/v1/sessions/{session_id}/agent_state", tag = "records", operation_id = "put_agent_state",
    params(
        SessionPath,
        ("If-Match" = Option<String>, Header,
            description = "The version that must be current, as in `\"3\"`; `*`: any"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there must be none yet")
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The state"),
    responses(
        (status = 200, description = "Stored durably", body = AgentStateSaved),
        (status = 201, description = "The first one", body = AgentStateSaved),
        Conflict, Common
    )
)]
pub async fn put(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    headers: HeaderMap,
    Raw(body): Raw<MAX_AGENT_STATE>,
) -> Result<Response, Refusal> {
    let media_type = match headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) {
        None => UNSAID.to_owned(),
        Some(Ok(value)) => value.trim().to_owned(),
        Some(Err(_)) => return Err(Refusal::invalid("content-type: a media type such as application/json")),
    };
    let save = SaveAgentState { media_type, bytes: body.to_vec(), expected: translate::expected_state(&headers)? };
    let saved = detached(async move { engine.records().save_agent_state(&id, save).await }).await??;
    let status = if saved.version == 1 { StatusCode::CREATED } else { StatusCode::OK };
    let tag = [(header::ETAG, etag(saved.version))];
    Ok((tag, json(status, &translate::agent_state_saved(saved))).into_response())
}

/// The agent's state as it was saved, with its version as the `ETag`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/agent_state", tag = "records", operation_id = "get_agent_state",
    params(
        SessionPath, AgentStateParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag` that you have already")
    ),
    responses(
        (status = 200, description = "The bytes, with the content type they were saved with", body = Vec<u8>,
            content_type = "application/octet-stream"),
        (status = 304, description = "It still is the version of `If-None-Match`"),
        (status = 410, description = "`agent_state_reclaimed`: that version is no longer kept"),
        (status = 500, description = "`agent_state_damaged`: the file does not match its hash, and is not returned"),
        Common
    )
)]
pub async fn get(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<AgentStateParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let AgentStateView { version, media_type, bytes } = engine.records().agent_state(&id, params.version).await?;
    let tag = etag(version);
    if let Some(unchanged) = unchanged(&headers, &tag) {
        return Ok(unchanged);
    }
    // A browser must not render what an agent has saved.
    let headers = [
        (header::CONTENT_TYPE, media_type.as_str()),
        (header::ETAG, tag.as_str()),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"agent_state\""),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, bytes).into_response())
}

fn etag(version: u64) -> String {
    format!("\"{version}\"")
}
