//! `…/files` and `…/files/content`: single files of a session's workspace, even while a command runs.

use super::door::{json, unchanged};
use super::responses::{Common, SingleFile};
use crate::auth::Scoped;
use crate::body::Raw;
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{
    FileListing, FileRemoved, FileWritten, ListFilesParams, ReadFileParams, RemoveFileParams, WriteFileParams,
};
use shellkeep_runtime::{FilePart, Lent, MAX_FILE_BYTES, RemoveFile, WriteFile};

/// The size of the file of which a part is returned.
const FILE_SIZE: HeaderName = HeaderName::from_static("x-file-size");

/// What is at a path, and what is in it if it is a directory.
///
/// Symbolic links are not followed. A directory is listed by name, a page at a time: pass `next` as `after`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/files", tag = "files", operation_id = "list_files",
    params(SessionPath, ListFilesParams),
    responses((status = 200, description = "What is there", body = FileListing), SingleFile, Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<ListFilesParams>,
) -> Result<Response, Refusal> {
    let path = translate::path(params.path, params.path_base64)?.unwrap_or_default();
    let (limit, after) = (translate::file_limit(params.limit)?, translate::file_after(params.after)?);
    let listing = engine.files().list(&id, &path, after, limit).await?;
    Ok(json(StatusCode::OK, &translate::file_listing(listing)))
}

/// Reads a file, or a part of it.
///
/// The `ETag` is the SHA-256 of the content, if the response is the whole file. `X-File-Size` is the size of the file.
/// Files of more than 64 MiB are read in parts, with `offset` and `limit`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/files/content", tag = "files", operation_id = "read_file",
    params(
        SessionPath, ReadFileParams,
        ("If-None-Match" = Option<String>, Header, description = "An `ETag` that you have already")
    ),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The whole file is still that of `If-None-Match`"),
        SingleFile, Common
    )
)]
pub async fn read(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<ReadFileParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let path = translate::file_path(params.path, params.path_base64)?;
    let part = FilePart { offset: params.offset.unwrap_or(0), limit: params.limit };
    let content = engine.files().read(&id, &path, part).await?;
    let tag = content.sha256.map(|hash| format!("\"{hash}\""));
    if let Some(unchanged) = tag.as_deref().and_then(|tag| unchanged(&headers, tag)) {
        return Ok(unchanged);
    }
    let share = engine.lend(Lent::BodyBytes, content.bytes.len() as u64)?;
    // A browser must not render a session's files.
    let mut headers = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (FILE_SIZE, content.size.into()),
    ]);
    if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.insert(header::ETAG, tag);
    }
    Ok((headers, super::sse::held(content.bytes, share)).into_response())
}

/// Writes a file: the raw body, up to 64 MiB.
///
/// It is written to a temporary file and renamed, so a reader sees either the old content or the new. Missing
/// directories are created. The change is recorded as a `tool_call` and saved in a checkpoint, like that of a command.
/// With `If-Match` it is written only if the file has that SHA-256 (`*`: any), with `If-None-Match: *` only if there is
/// none.
#[utoipa::path(
    put, path = "/v1/sessions/{session_id}/files/content", tag = "files", operation_id = "write_file",
    params(
        SessionPath, WriteFileParams,
        ("If-Match" = Option<String>, Header,
            description = "The SHA-256 that the file must have now, as its `ETag`; `*`: any"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there must be no file yet")
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The content"),
    responses(
        (status = 200, description = "It was written", body = FileWritten),
        (status = 201, description = "It is new", body = FileWritten),
        SingleFile, Common
    )
)]
pub async fn write(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<WriteFileParams>,
    headers: HeaderMap,
    Raw(body): Raw<MAX_FILE_BYTES>,
) -> Result<Response, Refusal> {
    let write = WriteFile {
        path: translate::file_path(params.path, params.path_base64)?,
        bytes: body.to_vec(),
        mode: translate::file_mode(params.mode.as_deref())?,
        expected: translate::expected_file(&headers)?,
    };
    drop(body);
    let written = detached(async move { engine.files().write(&id, write).await }).await??;
    let status = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let tag = [(header::ETAG, format!("\"{}\"", written.sha256))];
    Ok((tag, json(status, &translate::file_written(written))).into_response())
}

/// Removes a file, a symbolic link, or a directory; one that is not empty only with `recursive=true`.
///
/// The change is recorded as a `tool_call` and saved in a checkpoint; a rewind restores what checkpoints contain.
/// With `If-Match` it is removed only if the file has that SHA-256 (`*`: any).
#[utoipa::path(
    delete, path = "/v1/sessions/{session_id}/files/content", tag = "files", operation_id = "remove_file",
    params(
        SessionPath, RemoveFileParams,
        ("If-Match" = Option<String>, Header,
            description = "The SHA-256 that the file must have now, as its `ETag`; `*`: any")
    ),
    responses((status = 200, description = "It is gone", body = FileRemoved), SingleFile, Common)
)]
pub async fn remove(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<RemoveFileParams>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let remove = RemoveFile {
        path: translate::file_path(params.path, params.path_base64)?,
        recursive: translate::is_on(params.recursive),
        expected: translate::expected_file(&headers)?,
    };
    let removed = detached(async move { engine.files().remove(&id, remove).await }).await??;
    Ok(json(StatusCode::OK, &translate::file_removed(removed)))
}
