//! `/v1/sessions`: make, find, list and end sessions, read their state, take their shell away.

use super::door::json;
use super::responses::{Common, Full};
use crate::auth::Scoped;
use crate::body::{Json, Nothing, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{CreateSessionRequest, ListParams, Session, SessionList, StateResponse};
use shellkeep_runtime::{Created, SessionPage};
use shellkeep_session::SessionId;

/// Makes a session, or finds the one with that id and leaves it as it is.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "create_session",
    request_body(content = CreateSessionRequest, description = "May be empty."),
    responses(
        (status = 201, description = "A new session", body = Session),
        (status = 200, description = "The session that was there, unchanged", body = Session),
        Full, Common
    )
)]
pub async fn create(
    Scoped(engine): Scoped,
    Json(request): Json<CreateSessionRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::create(request)?;
    let (status, view) = match detached(async move { engine.create(request).await }).await?? {
        Created::New(view) => (StatusCode::CREATED, view),
        Created::Existing(view) => (StatusCode::OK, view),
    };
    Ok(json(status, &translate::session(view)))
}

/// Sessions ordered by id, a page at a time.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    params(ListParams),
    responses((status = 200, description = "A page", body = SessionList), Common)
)]
pub async fn list(Scoped(engine): Scoped, Params(params): Params<ListParams>) -> Result<Response, Refusal> {
    let limit = translate::page_limit(params.limit)?;
    let after = params.after.as_deref().map(SessionId::parse).transpose();
    let after = after.map_err(|error| Refusal::bad_id("after", &error))?;
    if translate::is_on(params.deleted) {
        let engine = engine.clone();
        let sessions = tokio::task::spawn_blocking(move || engine.node().deleted()).await;
        let sessions = sessions.map_err(|error| Refusal::internal(error.to_string()))??;
        return Ok(json(StatusCode::OK, &translate::session_list(SessionPage { sessions, next: None })));
    }
    let page = engine.list(params.agent.as_deref(), after.as_ref(), limit).await?;
    Ok(json(StatusCode::OK, &translate::session_list(page)))
}

/// One session.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}", tag = "sessions", operation_id = "get_session",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "The session", body = Session), Common)
)]
pub async fn get(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let view = engine.get(&id).await?;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// Ends a session: its processes are ended and its files removed.
///
/// By the host's word its recording goes too. When an agent removes its own session, the session is gone for the agent and
/// its recording stays with the host, in the list `?deleted=true`, until `record.keep_deleted` has passed or the host
/// deletes it by the name it has there.
#[utoipa::path(
    delete, path = "/v1/sessions/{session_id}", tag = "sessions", operation_id = "delete_session",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 204, description = "It is gone"), Common)
)]
pub async fn delete(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    detached(async move { engine.destroy(&id).await }).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The session is done for now: its services are stopped and its shell is given up. It stays, and so do its files, until
/// it is removed or reclaimed. The host's right.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/end", tag = "sessions", operation_id = "end_session",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "The session, without a shell", body = Session), Common)
)]
pub async fn end(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.node().end_session(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// What the session's shell knows.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/state", tag = "sessions", operation_id = "get_state",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "The state", body = StateResponse), Common)
)]
pub async fn state(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let state = engine.state(&id).await?;
    Ok(json(StatusCode::OK, &StateResponse::from(state)))
}

/// Drops the shell and keeps the session. Waits its turn behind running commands.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/hibernate", tag = "sessions", operation_id = "hibernate_session",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "The session, without a shell", body = Session), Common)
)]
pub async fn hibernate(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.hibernate(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// Ends what runs and gives the session a clean shell with the state it began with.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/restart", tag = "sessions", operation_id = "restart_session",
    params(("session_id" = String, Path, description = "The session")),
    responses((status = 200, description = "The session, as it began", body = Session), Common)
)]
pub async fn restart(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.restart(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}
