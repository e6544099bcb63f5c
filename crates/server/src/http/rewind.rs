//! `…/rewind`, `…/fork`, `…/merge_back`: returning to an earlier moment, forking, and merging a fork back.

use super::door::json;
use super::responses::{Common, Files, Full};
use crate::auth::Scoped;
use crate::body::{Json, SMALL_LIMIT};
use crate::detached::detached;
use crate::params::SessionPath;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{
    ForkRequest, ForkResponse, MergeBackRequest, MergeBackResponse, RewindRequest, RewindResponse,
};
use shellkeep_runtime::{ClusterError, OpError, Rewind, attached};

/// Rewinds a session to an earlier moment: its files, its shell and its agent's state.
///
/// Files that will be replaced are saved in a checkpoint first; rewind to `undo` to revert. The recording is never changed.
/// `dry_run` only reports what would change. Files that are in no checkpoint are never touched. Fails with `session_busy` if
/// a command is still running after 2 s.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/rewind", tag = "files", operation_id = "rewind",
    params(SessionPath),
    request_body = RewindRequest,
    responses((status = 200, description = "What changed, or would change", body = RewindResponse), Files, Common)
)]
pub async fn rewind(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<RewindRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let (attached, hang_up) = attached();
    let request = Rewind { hang_up: Some(hang_up), ..translate::rewind(&request)? };
    let dry_run = request.dry_run;
    let rewound = detached(async move { engine.files().rewind(&id, request).await }).await??;
    drop(attached);
    Ok(json(StatusCode::OK, &translate::rewound(rewound, dry_run)))
}

/// Creates a session from a moment of this one, with its own copy of the workspace and the same state. Services are not
/// copied. A session that works outside its workspace is rejected without `share_files`, because its fork would use the
/// same files.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/fork", tag = "files", operation_id = "fork",
    params(SessionPath),
    request_body(content = ForkRequest, description = "May be empty."),
    responses((status = 201, description = "The new session", body = ForkResponse), Files, Full, Common)
)]
pub async fn fork(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<ForkRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::fork(request)?;
    let forked = detached(async move { engine.files().fork(&id, request).await }).await??;
    Ok(json(StatusCode::CREATED, &translate::forked(forked)))
}

/// Merges a fork's file changes back into the session it was forked from, file by file and, in text files, line by
/// line.
///
/// On a conflict the merge is rejected with the list, unless `prefer` chooses a side. With `dry_run`, only reports what
/// would change, and any conflicts.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/merge_back", tag = "files", operation_id = "merge_back",
    params(("session_id" = String, Path, description = "The fork")),
    request_body(content = MergeBackRequest, description = "May be empty."),
    responses((status = 200, description = "What changed, or would change", body = MergeBackResponse), Files, Common)
)]
pub async fn merge_back(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(request): Json<MergeBackRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let request = translate::merge_back(request);
    let merged = detached(async move { engine.files().merge_back(&id, request).await }).await?.map_err(not_merged)?;
    Ok(json(StatusCode::OK, &translate::merged(merged, request.dry_run)))
}

/// A fork and its origin on different nodes are a conflict: to try again does not help, as it does when a node cannot be reached.
fn not_merged(error: OpError) -> Refusal {
    match &error {
        OpError::Cluster(apart @ ClusterError::OriginElsewhere { origin, node, .. }) => {
            let refusal = Refusal::new(StatusCode::CONFLICT, apart.code(), apart.to_string());
            refusal.with("session_id", origin.as_str()).with("node", node.as_str())
        }
        _ => error.into(),
    }
}
