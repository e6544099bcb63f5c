//! `…/runs/{run_id}/output`, `/input` and `/signal`.

use super::door::json;
use super::responses::{Common, Reclaimed, RunEnded, Searched};
use crate::auth::Scoped;
use crate::body::{Json, RUN_LIMIT, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::{Params, RunPath, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{InputAccepted, InputRequest, OutputParams, OutputResponse, SignalRequest, SignalSent};
use shellkeep_runtime::Signalled;

/// Reads a run's output, even while it runs.
///
/// `offset` and `limit` page through it: start at 0 and continue at `next_offset`. `tail` returns the last bytes,
/// `tail_lines` the last lines, `grep` the lines that match a regular expression. All counts but `tail_lines` are
/// bytes.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/runs/{run_id}/output", tag = "runs", operation_id = "read_output",
    params(RunPath, OutputParams),
    responses((status = 200, description = "A page of output", body = OutputResponse), Reclaimed, Searched, Common)
)]
pub async fn read(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Params(params): Params<OutputParams>,
) -> Result<Response, Refusal> {
    let query = translate::output(params)?;
    let stream = query.stream;
    let page = engine.output(&id, &run_id, query).await?;
    Ok(json(StatusCode::OK, &translate::output_page(stream, page)))
}

/// Sends input to a run that was started with `blocking: false` and without `stdin`.
///
/// While somebody holds the session, only the holder can.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/runs/{run_id}/input", tag = "runs", operation_id = "send_input",
    params(RunPath),
    request_body = InputRequest,
    responses((status = 200, description = "Taken", body = InputAccepted), RunEnded, Common)
)]
pub async fn input(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Json(request): Json<InputRequest, RUN_LIMIT>,
) -> Result<Response, Refusal> {
    let (hold, name) = (request.hold.clone(), run_id.to_string());
    let input = translate::input(request)?;
    let bytes = detached(async move { engine.runs().input(&id, &run_id, input, hold.as_deref()).await }).await??;
    Ok(json(StatusCode::OK, &InputAccepted { run_id: name, bytes }))
}

/// Sends a signal to a run's processes.
///
/// After `INT`, `TERM`, `HUP` or `QUIT` it has 5 s to clean up and exit; then it is killed.
///
/// A run is also found by its `request_id`. If it has not started, `INT`, `TERM`, `KILL`, `HUP` and `QUIT` cancel it: its
/// caller gets `run_cancelled`, and it never runs. While somebody holds the session, only the holder can send signals to
/// a run that has started.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/runs/{run_id}/signal", tag = "runs", operation_id = "send_signal",
    params(SessionPath, ("run_id" = String, Path, description = "The run, or its request_id")),
    request_body = SignalRequest,
    responses((status = 200, description = "Sent", body = SignalSent), RunEnded, Common)
)]
pub async fn signal(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Json(request): Json<SignalRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let (run_id, cancelled) = match engine.runs().signal(&id, &run_id, &request.signal, request.hold.as_deref()).await?
    {
        Signalled::Sent(run_id) => (run_id, None),
        Signalled::Cancelled => (run_id, Some(true)),
    };
    Ok(json(StatusCode::OK, &SignalSent { run_id: run_id.into(), signal: request.signal, cancelled }))
}
