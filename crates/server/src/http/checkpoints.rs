//! `…/checkpoints`: the saved versions of a session's files, their contents, and their size on disk.

use super::door::json;
use super::files::find;
use super::responses::{Common, Files};
use crate::auth::Scoped;
use crate::body::Nothing;
use crate::detached::detached;
use crate::params::{CheckpointPath, Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{Checkpoint, CheckpointDetail, CheckpointList, CheckpointParams, CheckpointUsage, PathParams};
use shellkeep_runtime::DiffQuery;

/// The kind and permissions of a file, as git writes them: `100644`, or `120000` for a symbolic link, whose target is then the
/// body.
const FILE_MODE: &str = "x-file-mode";

/// Checkpoints, oldest first, a page at a time.
///
/// One is taken after each tool call that changed files in the session's workspace. Those with `kept: false` were
/// pruned: their changes are still listed, but their files are gone.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/checkpoints", tag = "files", operation_id = "list_checkpoints",
    params(SessionPath, CheckpointParams),
    responses((status = 200, description = "A page", body = CheckpointList), Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<CheckpointParams>,
) -> Result<Response, Refusal> {
    let limit = translate::checkpoint_limit(params.limit)?;
    let page = engine.files().checkpoints(&id, params.after.unwrap_or(0), limit).await?;
    Ok(json(StatusCode::OK, &translate::checkpoint_list(page)))
}

/// Saves the files as they are now.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/checkpoints", tag = "files", operation_id = "create_checkpoint",
    params(SessionPath),
    responses(
        (status = 201, description = "The new checkpoint", body = Checkpoint),
        (status = 204, description = "Nothing has changed since the last one, so there is no new one"),
        Files, Common
    )
)]
pub async fn create(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    Ok(match detached(async move { engine.files().checkpoint(&id).await }).await?? {
        Some(view) => json(StatusCode::CREATED, &translate::checkpoint(view)),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// One checkpoint, and which files it changed.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/checkpoints/{checkpoint}", tag = "files", operation_id = "get_checkpoint",
    params(
        SessionPath,
        ("checkpoint" = String, Path, description = "Its id, a commit or a prefix of one, `latest`, or another \
            moment (the files as they were then): the number of a record, a run id, `-N`, an RFC 3339 time")
    ),
    responses((status = 200, description = "The checkpoint", body = CheckpointDetail), Files, Common)
)]
pub async fn get(Scoped(engine): Scoped, CheckpointPath(id, name): CheckpointPath) -> Result<Response, Refusal> {
    let to = translate::moment("checkpoint", &name)?;
    let query = DiffQuery { to: Some(to), ..DiffQuery::default() };
    let changes = engine.files().diff(&id, query).await?;
    let checkpoint = find(&engine, &id, &name, changes.to.as_ref()).await?;
    let detail = CheckpointDetail {
        checkpoint: translate::checkpoint(checkpoint),
        files: translate::file_changes(changes.files),
    };
    Ok(json(StatusCode::OK, &detail))
}

/// A file as it was: its bytes, or the target of a symbolic link.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/checkpoints/{checkpoint}/file", tag = "files", operation_id = "get_past_file",
    params(CheckpointPath, PathParams),
    responses(
        (status = 200, description = "The bytes; `X-File-Mode` has kind and permissions as git writes them", body = Vec<u8>,
            content_type = "application/octet-stream"),
        Files, Common
    )
)]
pub async fn file(
    Scoped(engine): Scoped,
    CheckpointPath(id, name): CheckpointPath,
    Params(params): Params<PathParams>,
) -> Result<Response, Refusal> {
    let at = translate::moment("checkpoint", &name)?;
    let path = translate::path(params.path, params.path_base64)?;
    let path = path.ok_or_else(|| Refusal::invalid("path: missing; name the file"))?;
    let file = engine.files().past_file(&id, &at, &path).await?;
    let kind = if file.is_link { 0o120_000 } else { 0o100_000 };
    let permissions = if file.is_link { 0 } else { file.mode & 0o7777 };
    let mode = format!("{:06o}", kind | permissions);
    // A browser must not render a session's files.
    let headers = [
        (header::CONTENT_TYPE.as_str(), "application/octet-stream"),
        (header::ETAG.as_str(), &format!("\"{}\"", file.at.commit)),
        (header::CONTENT_DISPOSITION.as_str(), "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS.as_str(), "nosniff"),
        (FILE_MODE, &mode),
    ];
    Ok((headers, file.bytes).into_response())
}

/// How much disk space the checkpoints of a session use, and the limit.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/checkpoints/usage", tag = "files", operation_id = "get_checkpoint_usage",
    params(SessionPath),
    responses((status = 200, description = "What they take", body = CheckpointUsage), Common)
)]
pub async fn usage(Scoped(engine): Scoped, SessionPath(id): SessionPath) -> Result<Response, Refusal> {
    let usage = engine.files().checkpoint_use(&id, false).await?;
    Ok(json(StatusCode::OK, &translate::checkpoint_usage(usage)))
}

/// Prunes old checkpoints according to the policy, and frees their space.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/checkpoints/thin", tag = "files", operation_id = "thin_checkpoints",
    params(SessionPath),
    responses((status = 200, description = "What they use now", body = CheckpointUsage), Files, Common)
)]
pub async fn thin(Scoped(engine): Scoped, SessionPath(id): SessionPath, _: Nothing) -> Result<Response, Refusal> {
    let usage = detached(async move { engine.files().checkpoint_use(&id, true).await }).await??;
    Ok(json(StatusCode::OK, &translate::checkpoints_thinned(usage)))
}
