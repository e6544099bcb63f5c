//! `…/services` and `/v1/services`: start, find and stop services, read their logs.

use super::door::json;
use super::responses::{Common, Full, Searched, ServiceName};
use super::runs::wants_events;
use super::sse;
use crate::auth::Scoped;
use crate::body::{Json, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::{Params, ServicePath, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use shellkeep_protocol::{
    AllServicesParams, LogEvent, LogParams, LogResponse, Service, ServiceList, ServiceParams, StartServiceRequest,
    StopServiceRequest,
};

/// Starts a service: a command that keeps running next to the session's shell until it is stopped.
///
/// It starts with the session's directory, variables and functions, and keeps running when the session hibernates and
/// when the daemon is restarted. Responds immediately, or with `wait` when it is ready or has exited.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/services", tag = "services", operation_id = "start_service",
    params(SessionPath),
    request_body = StartServiceRequest,
    responses(
        (status = 201, description = "The service with its current status", body = Service),
        ServiceName, Full, Common
    )
)]
pub async fn start(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<StartServiceRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::start_service(request)?;
    let view = detached(async move { engine.services().start(&id, request).await }).await??;
    Ok(json(StatusCode::CREATED, &translate::service(view)))
}

/// A session's services: running ones, and those that ended recently, in the order they were started.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/services", tag = "services", operation_id = "list_services",
    params(SessionPath),
    responses((status = 200, description = "The services", body = ServiceList), Common)
)]
pub async fn list(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let views = engine.services().list(&id).await?;
    Ok(json(StatusCode::OK, &translate::service_list(views)))
}

/// Running services of all sessions. An agent sees its own.
#[utoipa::path(
    get, path = "/v1/services", tag = "services", operation_id = "list_all_services",
    params(AllServicesParams),
    responses((status = 200, description = "The services", body = ServiceList), Common)
)]
pub async fn all(Scoped(engine): Scoped, Params(params): Params<AllServicesParams>) -> Result<Response, Refusal> {
    let views = engine.services().all(params.agent.as_deref()).await?;
    Ok(json(StatusCode::OK, &translate::service_list(views)))
}

/// The status of a service. `wait` delays the response until it is ready or has exited, for at most this many seconds.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/services/{service_id}", tag = "services", operation_id = "get_service",
    params(ServicePath, ServiceParams),
    responses((status = 200, description = "The service", body = Service), Common)
)]
pub async fn get(
    Scoped(engine): Scoped,
    ServicePath(id, service): ServicePath,
    Params(params): Params<ServiceParams>,
) -> Result<Response, Refusal> {
    let wait = translate::service_wait(params.wait)?;
    let view = engine.services().get(&id, &service, wait).await?;
    Ok(json(StatusCode::OK, &translate::service(view)))
}

/// Stops a service and everything it started: SIGTERM, and SIGKILL after `grace`. Stopping one that has ended is not an
/// error.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/services/{service_id}/stop", tag = "services",
    operation_id = "stop_service",
    params(ServicePath),
    request_body(content = StopServiceRequest, description = "May be empty."),
    responses((status = 200, description = "The service, which has ended", body = Service), Common)
)]
pub async fn stop(
    Scoped(engine): Scoped,
    ServicePath(id, service): ServicePath,
    Json(request): Json<StopServiceRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let grace = translate::grace(&request)?;
    let view = detached(async move { engine.services().stop(&id, &service, grace).await }).await??;
    Ok(json(StatusCode::OK, &translate::service(view)))
}

/// Reads a service's log: stdout and stderr as they were written.
///
/// `offset` and `limit` page through it: start at 0 and continue at `next_offset`. `tail` returns the last bytes,
/// `tail_lines` the last lines, `grep` the lines that match a regular expression. With `Accept: text/event-stream` the
/// response is a stream from `offset`, or from the last `tail` bytes or `tail_lines` lines: events `log` (data: `{text,
/// base64?, offset, next_offset}`) as it is written, then `end` (data: the service).
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/services/{service_id}/logs", tag = "services", operation_id = "read_log",
    params(ServicePath, LogParams),
    responses(
        (status = 200, description = "A page of the log, or its events", content(
            (LogResponse = "application/json"), (LogEvent = "text/event-stream"))),
        Searched, Common
    )
)]
pub async fn logs(
    Scoped(engine): Scoped,
    ServicePath(id, service): ServicePath,
    Params(params): Params<LogParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if wants_events(&headers) {
        let (offset, tail) = translate::log_follow(&params)?;
        let permit = sse::permit(&engine)?;
        let stream = engine.services().follow_log(&id, &service, offset, tail).await?;
        return Ok(sse::log(permit, stream, id, service));
    }
    let page = engine.services().log(&id, &service, translate::log_query(params)?).await?;
    Ok(json(StatusCode::OK, &translate::log_page(page)))
}
