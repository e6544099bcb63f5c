//! `…/runs/{run_id}/screen`, `/screens` and `/resize`.

use super::door::json;
use super::responses::{Common, Masked, NoTerminal};
use crate::auth::Scoped;
use crate::body::{Json, SMALL_LIMIT};
use crate::params::{Params, RunPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{
    PastScreenList, PastScreenParams, ResizeRequest, ScreenParams, ScreenResponse, TerminalResized, TerminalSize,
};

/// What the terminal of a run that was started with `tty: true` shows.
///
/// `wait` delays the response until the program has drawn something: `quiet:300` returns when nothing has changed for 300
/// ms, `change` when the `version` is another one, `match:RE` when a text on the screen matches. The end of the run ends
/// every wait. The daemon answers what programs ask their terminal (DA1, DSR, CPR); a viewer must not answer again.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/runs/{run_id}/screen", tag = "runs", operation_id = "read_screen",
    params(RunPath, ScreenParams),
    responses((status = 200, description = "The screen", body = ScreenResponse), NoTerminal, Common)
)]
pub async fn read(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Params(params): Params<ScreenParams>,
) -> Result<Response, Refusal> {
    let query = translate::screen_query(params.wait.as_deref(), params.timeout, params.version)?;
    let format = params.format.unwrap_or_default();
    let answer = move |view| json(StatusCode::OK, &translate::screen(view, format));
    Ok(engine.runs().screen_as(&id, &run_id, query, answer).await?)
}

/// The screens that a run with `tty: true` had, for a replay.
///
/// The first one is complete and shows the terminal as it was at `from_ms`. Each later one has the rows that changed. A run
/// that has not ended has none yet.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/runs/{run_id}/screens", tag = "runs", operation_id = "list_screens",
    params(RunPath, PastScreenParams),
    responses((status = 200, description = "A page of screens", body = PastScreenList), NoTerminal, Masked, Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Params(params): Params<PastScreenParams>,
) -> Result<Response, Refusal> {
    let query = translate::past_screen_query(&params)?;
    let screens = engine.runs().past_screens(&id, &run_id, query).await?;
    Ok(json(StatusCode::OK, &translate::past_screens(screens)))
}

/// Changes the size of a run's terminal. The program gets SIGWINCH.
///
/// While somebody holds the session, only the holder can.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/runs/{run_id}/resize", tag = "runs", operation_id = "resize",
    params(RunPath),
    request_body = ResizeRequest,
    responses((status = 200, description = "Done", body = TerminalResized), NoTerminal, Common)
)]
pub async fn resize(
    Scoped(engine): Scoped,
    RunPath(id, run_id): RunPath,
    Json(ResizeRequest { rows, cols, hold }): Json<ResizeRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let size = translate::terminal_size(TerminalSize { rows, cols });
    engine.runs().resize(&id, &run_id, size, hold.as_deref()).await?;
    Ok(json(StatusCode::OK, &translate::resized(&run_id, size)))
}
