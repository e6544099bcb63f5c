//! `…/kv`: a session's keyed store. Values are any bytes, with versions; a batch is atomic.

use super::door::{json, unchanged};
use super::responses::{Common, KvRefused};
use crate::auth::Scoped;
use crate::body::{Json, RUN_LIMIT, Raw};
use crate::detached::detached;
use crate::params::{KeyPath, Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{KvBatch, KvChanged, KvList, KvParams, KvWritten};
use shellkeep_runtime::{KvOp, KvPut, Lent, MAX_KV_VALUE};

/// Lists keys in order, a page at a time: pass `next` as `after`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/kv", tag = "kv", operation_id = "list_kv",
    params(SessionPath, KvParams),
    responses((status = 200, description = "The keys", body = KvList), KvRefused, Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<KvParams>,
) -> Result<Response, Refusal> {
    let page = engine.kv().list(&id, translate::kv_query(params)?).await?;
    Ok(json(StatusCode::OK, &translate::kv_list(page)))
}

/// A value, with the content type it was put with and its version as the `ETag`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/kv/{key}", tag = "kv", operation_id = "get_kv",
    params(KeyPath, ("If-None-Match" = Option<String>, Header, description = "An `ETag` that you have already")),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "It still is the version of `If-None-Match`"),
        KvRefused, Common
    )
)]
pub async fn get(Scoped(engine): Scoped, KeyPath(id, key): KeyPath, headers: HeaderMap) -> Result<Response, Refusal> {
    let (entry, bytes) = engine.kv().get(&id, key).await?;
    let tag = format!("\"{}\"", entry.version);
    if let Some(unchanged) = unchanged(&headers, &tag) {
        return Ok(unchanged);
    }
    let share = engine.lend(Lent::BodyBytes, bytes.len() as u64)?;
    let unsaid = HeaderValue::from_static(translate::UNSAID);
    // A browser must not render what an agent has put.
    let headers = HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_str(&entry.value.content_type).unwrap_or(unsaid)),
        (header::ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static(""))),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    Ok((headers, super::sse::held(bytes, share)).into_response())
}

/// Puts a value: the body, up to 64 MiB, with your `Content-Type`.
///
/// With `If-Match: "3"` it is put only if the key is at version 3, with `If-Match: *` only if it exists, with
/// `If-None-Match: *` only if it does not.
/// The response is sent once the value survives a crash.
#[utoipa::path(
    put, path = "/v1/sessions/{session_id}/kv/{key}", tag = "kv", operation_id = "put_kv",
    params(
        KeyPath,
        ("If-Match" = Option<String>, Header,
            description = "The version that the key must have now, as in `\"3\"`; `*`: any"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: the key must not exist yet")
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The value"),
    responses((status = 200, description = "It is put", body = KvWritten), KvRefused, Common)
)]
pub async fn put(
    Scoped(engine): Scoped,
    KeyPath(id, key): KeyPath,
    headers: HeaderMap,
    Raw(body): Raw<MAX_KV_VALUE>,
) -> Result<Response, Refusal> {
    let content_type = match headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) {
        None => translate::UNSAID.to_owned(),
        Some(Ok(value)) => value.trim().to_owned(),
        Some(Err(_)) => return Err(Refusal::invalid("content-type: a media type such as application/json")),
    };
    let change = KvPut::Bytes { bytes: body.to_vec(), content_type };
    drop(body);
    let op = KvOp { key, change, expected: translate::expected_key(&headers)? };
    let changed = detached(async move { engine.kv().change(&id, vec![op]).await }).await??;
    let tag = [(header::ETAG, format!("\"{}\"", changed.version))];
    let written = translate::kv_written(changed).ok_or_else(|| {
        Refusal::internal(
            "a put returned no \
        entry"
                .to_owned(),
        )
    })?;
    Ok((tag, json(StatusCode::OK, &written)).into_response())
}

/// Deletes a key. Deleting one that does not exist succeeds.
#[utoipa::path(
    delete, path = "/v1/sessions/{session_id}/kv/{key}", tag = "kv", operation_id = "delete_kv",
    params(
        KeyPath,
        ("If-Match" = Option<String>, Header,
            description = "The version that the key must have now, as in `\"3\"`; `*`: any")
    ),
    responses((status = 204, description = "It is gone"), KvRefused, Common)
)]
pub async fn delete(
    Scoped(engine): Scoped,
    KeyPath(id, key): KeyPath,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let op = KvOp { key, change: KvPut::Delete, expected: translate::expected_key(&headers)? };
    detached(async move { engine.kv().change(&id, vec![op]).await }).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Changes several keys atomically.
///
/// A `put` sends its value, or names the SHA-256 of one that the session already has. With `if_version`, the whole
/// batch is applied only if the key is at that version; 0 means that the key does not exist.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/kv", tag = "kv", operation_id = "change_kv",
    params(SessionPath),
    request_body = KvBatch,
    responses((status = 200, description = "All changes were made", body = KvChanged), KvRefused, Common)
)]
pub async fn change(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Json(batch): Json<KvBatch, RUN_LIMIT>,
) -> Result<Response, Refusal> {
    let ops = translate::kv_batch(batch)?;
    let changed = detached(async move { engine.kv().change(&id, ops).await }).await??;
    Ok(json(StatusCode::OK, &translate::kv_changed(changed)))
}
