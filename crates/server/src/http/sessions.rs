//! `/v1/sessions`: create, find, list and delete sessions, read their state, drop their shell.

use super::door::json;
use super::responses::{Common, Full, Sandboxed};
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

/// Creates a session, or returns the existing one with that id unchanged.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "create_session",
    request_body(content = CreateSessionRequest, description = "May be empty."),
    responses(
        (status = 201, description = "A new session", body = Session),
        (status = 200, description = "The existing session, unchanged", body = Session),
        Full, Sandboxed, Common
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

/// Sessions, a page at a time, by id or by activity. Filters can be combined.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    params(ListParams),
    responses((status = 200, description = "A page", body = SessionList), Common)
)]
pub async fn list(Scoped(engine): Scoped, Params(params): Params<ListParams>) -> Result<Response, Refusal> {
    let is_of_deleted = translate::is_on(params.deleted);
    let query = translate::session_query(params)?;
    if is_of_deleted {
        let engine = engine.clone();
        let sessions = tokio::task::spawn_blocking(move || engine.node().deleted()).await;
        let sessions = sessions.map_err(|error| Refusal::internal(error.to_string()))??;
        return Ok(json(StatusCode::OK, &translate::session_list(SessionPage { sessions, next: None })));
    }
    let page = engine.list(&query).await?;
    Ok(json(StatusCode::OK, &translate::session_list(page)))
}

/// One session.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}", tag = "sessions", operation_id = "get_session",
    params(SessionPath),
    responses((status = 200, description = "The session", body = Session), Common)
)]
pub async fn get(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let view = engine.get(&id).await?;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// Deletes a session: its processes are killed and its files deleted.
///
/// When the host deletes it, its recording is deleted too. When an agent deletes its own session, the session is gone
/// for the agent, and the host keeps its recording, in the list `?deleted=true`, until `record.keep_deleted` has passed
/// or the host deletes it by the name it has there.
#[utoipa::path(
    delete, path = "/v1/sessions/{session_id}", tag = "sessions", operation_id = "delete_session",
    params(SessionPath),
    responses((status = 204, description = "It is gone"), Common)
)]
pub async fn delete(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    detached(async move { engine.destroy(&id).await }).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Ends a session: its services are stopped and its shell is dropped. The session and its files stay until it is
/// deleted or reclaimed. Host only.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/end", tag = "sessions", operation_id = "end_session",
    params(SessionPath),
    responses((status = 200, description = "The session, without a shell", body = Session), Common)
)]
pub async fn end(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.node().end_session(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// The state of the session's shell.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/state", tag = "sessions", operation_id = "get_state",
    params(SessionPath),
    responses((status = 200, description = "The state", body = StateResponse), Common)
)]
pub async fn state(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let state = engine.state(&id).await?;
    Ok(json(StatusCode::OK, &StateResponse::from(state)))
}

/// Drops the shell and keeps the session. Waits for running commands.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/hibernate", tag = "sessions", operation_id = "hibernate_session",
    params(SessionPath),
    responses((status = 200, description = "The session, without a shell", body = Session), Common)
)]
pub async fn hibernate(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.hibernate(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}

/// Kills what runs and gives the session a clean shell with its initial state.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/restart", tag = "sessions", operation_id = "restart_session",
    params(SessionPath),
    responses((status = 200, description = "The session, in its initial state", body = Session), Common)
)]
pub async fn restart(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let view = detached(async move { engine.restart(&id).await }).await??;
    Ok(json(StatusCode::OK, &translate::session(view)))
}
