//! `POST …/hold` and `DELETE …/hold`: a person takes over a session, and hands it back.

use super::door::json;
use super::responses::{Common, Held};
use crate::auth::Scoped;
use crate::body::{Json, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{HoldParams, HoldRequest, HoldResponse, ReleaseResponse};

/// Holds a session for a person; host only.
///
/// While it is held, commands without its `hold_id` wait, or are refused with `session_held` if they say `if_busy:
/// "reject"` or their timeout is over. A command that runs already continues. The hold ends with `DELETE …/hold`, or after
/// `ttl` seconds; the same call with its `hold_id` extends it. Then the agent's next result has a notice, `held`, that says
/// what the person changed.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/hold", tag = "sessions", operation_id = "hold_session",
    params(SessionPath),
    request_body = HoldRequest,
    responses((status = 200, description = "Held", body = HoldResponse), Held, Common)
)]
pub async fn hold(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<HoldRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::take_hold(request)?;
    let view = detached(async move { engine.runs().holds().take(&id, request).await }).await??;
    Ok(json(StatusCode::OK, &translate::hold(view)))
}

/// Ends the hold on a session; host only. Commands that wait run in the order of their arrival.
#[utoipa::path(
    delete, path = "/v1/sessions/{session_id}/hold", tag = "sessions", operation_id = "release_session",
    params(SessionPath, HoldParams),
    responses((status = 200, description = "Not held any longer", body = ReleaseResponse), Held, Common)
)]
pub async fn release(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<HoldParams>,
) -> Result<Response, Refusal> {
    let done = detached(async move { engine.runs().holds().release(&id, params.hold_id).await }).await??;
    Ok(json(StatusCode::OK, &translate::released(done)))
}
