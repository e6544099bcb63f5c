//! `POST …/run`, `GET …/runs`, `GET /v1/runs` and `GET …/runs/{run_id}`.

use super::door::{Door, json, sourced};
use super::responses::{Busy, Common, Full};
use super::sse;
use crate::auth::Scoped;
use crate::body::{Json, RUN_LIMIT};
use crate::detached::detached;
use crate::params::{Params, RunPath, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use shellkeep_protocol::{
    DisconnectChoice, OutputEvent, RunDetail, RunList, RunListParams, RunParams, RunRequest, RunResponse,
};
use shellkeep_runtime::{Attached, HangUp, attached};
use std::time::Instant;

/// Runs a command.
///
/// Responds when it ends, or immediately with `blocking: false`. With `Accept: text/event-stream` the response is a
/// stream: the event `started` (data: `{run_id, seq}`), then `stdout` and `stderr` (data: `{text, base64?}`), then
/// `result` (data: the run). Disconnecting does not end the command, unless `on_disconnect` is `"interrupt"`; its
/// result can be read by its `run_id` or `request_id`.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/run", tag = "runs", operation_id = "run",
    params(SessionPath),
    request_body = RunRequest,
    responses(
        (status = 200, description = "The run, or its events", content(
            (RunResponse = "application/json"), (OutputEvent = "text/event-stream"))),
        Busy, Full, Common
    )
)]
pub async fn run(
    State(door): State<Door>,
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    headers: HeaderMap,
    Json(request): Json<Box<RunRequest>, RUN_LIMIT>,
) -> Result<Response, Refusal> {
    let started = Instant::now();
    let is_stream = wants_events(&headers);
    let attached = attach(&request, is_stream)?;
    let (attached, hang_up) = attached.unzip();
    let mut command = Box::new(translate::run(*request)?);
    command.hang_up = hang_up;
    if is_stream {
        let permit = sse::permit(&engine)?;
        let stream = detached(async move { engine.run_stream(&id, command).await }).await??;
        return Ok(sse::run(permit, stream, attached));
    }
    let view = detached(async move { engine.run(&id, command).await }).await??;
    drop(attached);
    door.counts.ran(started.elapsed());
    Ok(json(StatusCode::OK, &translate::run_view(*view)))
}

/// The runs of a session, newest first. A page costs the same however many runs there are.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/runs", tag = "runs", operation_id = "list_runs",
    params(SessionPath, RunListParams),
    responses((status = 200, description = "A page of runs", body = RunList,
        headers(("shellkeep-source" = String, description = "`history` if this node does not have the session and it was read from history"))), Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<RunListParams>,
) -> Result<Response, Refusal> {
    let page = engine.runs().lists().of(&id, translate::run_list(&params)?).await?;
    Ok(sourced(page.origin, json(StatusCode::OK, &translate::run_page(page))))
}

/// The runs of all sessions on all nodes, newest first. An agent sees its own.
///
/// No session is woken, and a page costs the same however many sessions there are.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", operation_id = "list_all_runs",
    params(RunListParams),
    responses((status = 200, description = "A page of runs", body = RunList), Common)
)]
pub async fn all(Scoped(engine): Scoped, Params(params): Params<RunListParams>) -> Result<Response, Refusal> {
    let page = engine.runs().lists().of_all(translate::all_run_list(&params)?).await?;
    Ok(json(StatusCode::OK, &translate::all_run_page(page)))
}

/// A run. `wait` delays the response until the run ends, for at most this many seconds.
///
/// With `Accept: text/event-stream` the response is a stream: its output from the beginning as events `stdout` and
/// `stderr`, then `result`, as for `POST …/run`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/runs/{run_id}", tag = "runs", operation_id = "get_run",
    params(RunPath, RunParams),
    responses(
        (status = 200, description = "The run, or its events", content(
            (RunDetail = "application/json"), (OutputEvent = "text/event-stream")),
            headers(("shellkeep-source" = String, description = "`history` if this node does not have the session and it was read from history"))),
        Common
    )
)]
pub async fn get(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    headers: HeaderMap,
    Params(params): Params<RunParams>,
) -> Result<Response, Refusal> {
    let wait = translate::wait(params.wait)?;
    let max_output = translate::max_output(params.max_output)?;
    if wants_events(&headers) {
        let permit = sse::permit(&engine)?;
        return Ok(sse::run(permit, engine.runs().watch(&id, &run_id, max_output).await?, None));
    }
    let detail = engine.runs().view(&id, &run_id, wait, max_output).await?;
    Ok(sourced(detail.origin, json(StatusCode::OK, &translate::run_detail(detail))))
}

/// The guard of a command that ends with its caller.
fn attach(request: &RunRequest, is_stream: bool) -> Result<Option<(Attached, HangUp)>, Refusal> {
    match request.on_disconnect.unwrap_or_default() {
        DisconnectChoice::Continue => Ok(None),
        DisconnectChoice::Interrupt if is_stream || request.blocking.unwrap_or(true) => Ok(Some(attached())),
        DisconnectChoice::Interrupt => Err(Refusal::invalid(
            "on_disconnect: a call with blocking: false returns at once, so there is no connection to watch; use \
                blocking: true or Accept: text/event-stream",
        )),
    }
}

/// Whether the caller wants a stream.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    wants(headers, "text/event-stream")
}

/// Whether the caller accepts this media type: it is named, and not with `q=0`.
pub(super) fn wants(headers: &HeaderMap, wanted: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(wanted)) && !parts.any(is_refusal)
    })
}

/// Whether a parameter of a media type is a quality of nothing.
fn is_refusal(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_for_those_who_ask() {
        let with = |accept: &str| HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
        assert!(wants_events(&with("text/event-stream")));
        assert!(wants_events(&with("application/json, text/event-stream; q=0.9")));
        assert!(!wants_events(&with("*/*")));
        for refused in ["text/event-stream;q=0", "text/event-stream; charset=utf-8; Q = 0.000, application/json"] {
            assert!(!wants_events(&with(refused)), "{refused}");
        }
        assert!(!wants_events(&HeaderMap::new()));
    }
}
