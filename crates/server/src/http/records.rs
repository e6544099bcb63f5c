//! The recording as a whole: export, verification, scrubbing; and the configuration that the session started with.

use super::door::{json, sourced};
use super::responses::{Common, Masked};
use crate::auth::{OfHost, Scoped};
use crate::body::{Json, Nothing, SMALL_LIMIT};
use crate::detached::detached;
use crate::frames;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use shellkeep_protocol::{ExportParams, ScrubReport, ScrubRequest, SnapshotParams, Verdict};
use shellkeep_runtime::{ExportFormat, Secret};
use std::task::{Poll, ready};

/// Exports the recording.
///
/// `jsonl` includes the proof of each event, even where fields are masked: `shellkeep verify FILE` checks it anywhere.
/// `asciicast` is for `asciinema play`. `html` is a single self-contained page.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/export", tag = "records", operation_id = "export",
    params(SessionPath, ExportParams),
    responses(
        (status = 200, description = "The recording", content(
            (String = "application/x-ndjson"), (String = "application/x-asciicast"), (String = "text/html")),
            headers(("shellkeep-source" = String, description = "`history` if this node does not have the session and it was read from history"))),
        Masked, Common
    )
)]
pub async fn export(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<ExportParams>,
) -> Result<Response, Refusal> {
    let format = translate::export_format(params.format.unwrap_or_default());
    let mut stream = engine.records().export(&id, format, translate::is_on(params.redact)).await?;
    let (kind, ending) = match format {
        ExportFormat::Jsonl => ("application/x-ndjson", "jsonl"),
        ExportFormat::Asciicast => ("application/x-asciicast", "cast"),
        ExportFormat::Html => ("text/html; charset=utf-8", "html"),
    };
    // An id contains no quotes. The page is downloaded, not rendered on this origin.
    let name = format!("attachment; filename=\"{id}.{ending}\"");
    let headers =
        [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, &name), (header::CACHE_CONTROL, "no-store")];
    let origin = stream.origin();
    let body = frames::body(move |context| {
        // An error is not an end: the reader must notice that it is incomplete.
        let frame = |piece: Result<Vec<u8>, _>| piece.map(|bytes| Frame::data(bytes.into())).map_err(axum::Error::new);
        Poll::Ready(ready!(stream.poll_next(context)).map(frame))
    });
    Ok(sourced(origin, (headers, body).into_response()))
}

/// Checks that nothing in the recording was changed, dropped or reordered since it was written, and names the first
/// event or file that is wrong.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/verify", tag = "records", operation_id = "verify",
    params(SessionPath),
    responses((status = 200, description = "What was found", body = Verdict), Common)
)]
pub async fn verify(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let verdict = engine.records().verify(&id).await?;
    Ok(json(StatusCode::OK, &Verdict::from(verdict)))
}

/// Masks a secret in everything that is stored of the session: events, outputs, state. The recording still verifies
/// afterwards. Waits for running commands, and drops the shell. Host only.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/scrub", tag = "records", operation_id = "scrub",
    params(SessionPath),
    request_body = ScrubRequest,
    responses((status = 200, description = "Where it stood", body = ScrubReport), Common)
)]
pub async fn scrub(
    OfHost(engine): OfHost,
    SessionPath(id): SessionPath,
    Json(request): Json<ScrubRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let secret = Secret { text: request.secret, force: request.force.unwrap_or(false) };
    let scrubbed = detached(async move { engine.records().scrub(&id, secret).await }).await??;
    Ok(json(StatusCode::OK, &translate::scrubbed(scrubbed)))
}

/// What the session started with: its agent's configuration and its first shell's state.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/config_snapshot", tag = "records", operation_id = "get_config_snapshot",
    params(SessionPath, SnapshotParams),
    responses(
        (status = 200, description = "The snapshot", content_type = "application/json", body = Object),
        Masked, Common
    )
)]
pub async fn config_snapshot(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<SnapshotParams>,
) -> Result<Response, Refusal> {
    let snapshot = engine.records().config_snapshot(&id, translate::is_on(params.redact)).await?;
    Ok(json(StatusCode::OK, &snapshot))
}
