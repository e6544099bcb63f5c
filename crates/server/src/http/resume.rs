//! `POST …/resume`: a message for the session's agent.

use super::door::json;
use super::responses::{Agent, Common, Full};
use super::runs::wants_events;
use super::sse;
use crate::auth::Scoped;
use crate::body::{Json, MESSAGE_LIMIT};
use crate::params::SessionPath;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use shellkeep_protocol::{AnswerEvent, ResumeRequest, ResumeResponse};

/// Sends a message to the session's agent, which continues from its last step.
///
/// The agent is the program named in the session's `config`: `{"agent": {"command": ["python3", "agent.py"]}}`. The
/// message is recorded as `user_input`, the agent is started with its last saved state, and everything it does is
/// recorded. With `Accept: text/event-stream` the response is a stream: `event` (data: an event as in `…/events`, with
/// its number as the id), `output` (data: `{text}`, a piece of the answer), then `result`. Without a `request_id` the
/// agent is stopped when you disconnect.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/resume", tag = "agents", operation_id = "resume",
    params(SessionPath),
    request_body = ResumeRequest,
    responses(
        (status = 200, description = "The result, or the events", content(
            (ResumeResponse = "application/json"), (AnswerEvent = "text/event-stream"))),
        Agent, Full, Common
    )
)]
pub async fn resume(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    headers: HeaderMap,
    Json(request): Json<ResumeRequest, MESSAGE_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::resume(request)?;
    // Not in its own task, unlike other operations: disconnecting stops the agent.
    if wants_events(&headers) {
        let permit = sse::permit(&engine)?;
        return Ok(sse::resume(permit, engine.resume_stream(&id, request).await?));
    }
    let stream = engine.resume_stream(&id, request).await?;
    Ok(json(StatusCode::OK, &translate::resumed(stream.result().await)))
}
