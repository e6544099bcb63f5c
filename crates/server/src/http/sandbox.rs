//! `/v1/sessions/{session_id}/sandbox`: how a session is confined.

use super::door::json;
use super::responses::{Common, Sandboxed};
use crate::auth::Scoped;
use crate::body::{Json, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::SessionPath;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{SandboxInForce, SandboxRequest};
use shellkeep_runtime::SandboxOps;

/// How a session is confined, who set that, and what its commands may read and write.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/sandbox", tag = "sessions", operation_id = "get_sandbox",
    params(SessionPath),
    responses((status = 200, description = "The sandbox in force", body = SandboxInForce), Common)
)]
pub async fn get(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let view = SandboxOps::of(&engine).get(&id).await?;
    Ok(json(StatusCode::OK, &translate::sandbox(view)))
}

/// Confines a session more tightly. A sandbox is never made looser.
///
/// The session's shell is dropped first, with its background jobs; the next command starts in the new sandbox.
#[utoipa::path(
    put, path = "/v1/sessions/{session_id}/sandbox", tag = "sessions", operation_id = "tighten_sandbox",
    params(SessionPath),
    request_body = SandboxRequest,
    responses((status = 200, description = "The sandbox in force", body = SandboxInForce), Sandboxed, Common)
)]
pub async fn put(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<SandboxRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let sandbox = translate::named_sandbox(request.sandbox);
    let view = detached(async move { SandboxOps::of(&engine).tighten(&id, sandbox).await }).await??;
    Ok(json(StatusCode::OK, &translate::sandbox(view)))
}
