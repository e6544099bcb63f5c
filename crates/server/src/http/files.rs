//! How a session's files differ between two moments, and when a path changed; with what all routes about files share.

use super::door::json;
use super::responses::{Common, Files, Masked};
use super::runs::wants;
use crate::auth::Scoped;
use crate::params::{CheckpointPath, Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{AgainstParams, DiffParams, DiffResponse, FileHistory, PathParams};
use shellkeep_runtime::{CheckpointError, CheckpointView, DiffQuery, DiffView, Engine, OpError};
use shellkeep_session::{FilesAt, SessionId};

/// The media types of a patch, the preferred one first.
const PATCHES: [&str; 2] = ["text/x-diff", "text/plain"];
/// The header of a truncated patch, where there is no field for it.
const TRUNCATED: &str = "x-truncated";

/// How the files differ between two moments, or between one and now.
///
/// Without `from` and `to`: what has changed since the last checkpoint. With `from_session`: how they differ from those of
/// another session, such as a fork. With `Accept: text/x-diff` or `text/plain` the
/// response is only the patch, in git's format; if it is longer than `max_bytes`, it is truncated and has the header
/// `X-Truncated: true`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/diff", tag = "files", operation_id = "diff",
    params(SessionPath, DiffParams),
    responses(
        (status = 200, description = "The difference, or only the patch", content(
            (DiffResponse = "application/json"), (String = "text/x-diff"), (String = "text/plain"))),
        Files, Masked, Common
    )
)]
pub async fn diff(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<DiffParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let raw = wanted_patch(&headers);
    let patch = translate::patch_bytes(params.patch, params.max_bytes, raw.is_some())?;
    let path = translate::path(params.path, params.path_base64)?;
    let from = params.from.map(|text| translate::moment("from", &text)).transpose()?;
    let to = params.to.map(|text| translate::moment_or_now("to", &text)).transpose()?.flatten();
    let from_session = translate::session_id("from_session", params.from_session.as_deref())?;
    let (binary, redact) = (translate::is_on(params.binary), translate::is_on(params.redact));
    let query = DiffQuery { from, from_session, to, path, patch, binary, redact };
    Ok(answer(engine.files().diff(&id, query).await?, raw))
}

/// What a checkpoint changed, or how it differs from another one or from now.
///
/// Without `against`: from the previous checkpoint to this one. With another checkpoint: from that one to this one.
/// With `now`: from this one to the files as they are. Only the patch as in `GET …/diff`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/checkpoints/{checkpoint}/diff", tag = "files", operation_id = "diff_checkpoint",
    params(CheckpointPath, AgainstParams),
    responses(
        (status = 200, description = "The difference, or only the patch", content(
            (DiffResponse = "application/json"), (String = "text/x-diff"), (String = "text/plain"))),
        Files, Masked, Common
    )
)]
pub async fn diff_checkpoint(
    Scoped(engine): Scoped,
    CheckpointPath(id, name): CheckpointPath,
    Params(params): Params<AgainstParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let raw = wanted_patch(&headers);
    let patch = translate::patch_bytes(params.patch, params.max_bytes, raw.is_some())?;
    let path = translate::path(params.path, params.path_base64)?;
    let this = translate::moment("checkpoint", &name)?;
    let against = params.against.map(|text| translate::moment_or_now("against", &text)).transpose()?;
    let (from, to) = match against {
        None => (None, Some(this)),
        Some(None) => (Some(this), None),
        Some(Some(other)) => (Some(other), Some(this)),
    };
    let (binary, redact) = (translate::is_on(params.binary), translate::is_on(params.redact));
    let query = DiffQuery { from, from_session: None, to, path, patch, binary, redact };
    Ok(answer(engine.files().diff(&id, query).await?, raw))
}

/// When a path changed, oldest first: `list_file_changes`. The path may be a directory, and may no longer exist.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/files/history", tag = "files", operation_id = "list_file_changes",
    params(SessionPath, PathParams),
    responses((status = 200, description = "The changes", body = FileHistory), Common)
)]
pub async fn history(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<PathParams>,
) -> Result<Response, Refusal> {
    let path = translate::path(params.path, params.path_base64)?;
    let path = path.ok_or_else(|| Refusal::invalid("path: missing; name the file or directory"))?;
    let entries = engine.files().history(&id, &path).await?;
    Ok(json(StatusCode::OK, &translate::file_history(entries)))
}

/// A checkpoint as in the list.
pub(super) async fn find(
    engine: &Engine,
    id: &SessionId,
    name: &str,
    at: Option<&FilesAt>,
) -> Result<CheckpointView, Refusal> {
    if let Some(at) = at {
        return Ok(engine.files().checkpoint_at(id, at).await?);
    }
    let (session_id, checkpoint) = (id.to_string(), name.to_owned());
    Err(OpError::Checkpoint(CheckpointError::NotFound { session_id, checkpoint, gone: None }).into())
}

fn wanted_patch(headers: &HeaderMap) -> Option<&'static str> {
    PATCHES.into_iter().find(|kind| wants(headers, kind))
}

fn answer(view: DiffView, raw: Option<&'static str>) -> Response {
    let Some(kind) = raw else { return json(StatusCode::OK, &translate::diff(view)) };
    let mut headers = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    if view.truncated {
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    (headers, view.patch.unwrap_or_default()).into_response()
}
