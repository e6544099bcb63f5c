//! `…/messages`: the conversation between a person and the session's agent.

use super::door::{json, sourced};
use super::responses::Common;
use crate::auth::Scoped;
use crate::body::{Counted, MESSAGE_LIMIT};
use crate::detached::detached;
use crate::params::{Params, SessionPath};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{MessageAdded, MessageList, MessageParams, MessageRequest};

/// Adds a message to the conversation. It gets the next number, also if several clients add messages at the same time.
#[utoipa::path(
    post, path = "/v1/sessions/{session_id}/messages", tag = "records", operation_id = "add_message",
    params(SessionPath),
    request_body = MessageRequest,
    responses((status = 201, description = "Stored durably", body = MessageAdded), Common)
)]
pub async fn add(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Counted { value, share }: Counted<MessageRequest, MESSAGE_LIMIT>,
) -> Result<Response, Refusal> {
    let message = translate::new_message(value);
    let added = detached(async move {
        let added = engine.records().add_message(&id, message).await;
        drop(share);
        added
    });
    let added = added.await??;
    Ok(json(StatusCode::CREATED, &translate::message_added(added)))
}

/// The conversation, by `seq_id`. For the next page set `after` to `next`.
#[utoipa::path(
    get, path = "/v1/sessions/{session_id}/messages", tag = "records", operation_id = "list_messages",
    params(SessionPath, MessageParams),
    responses((status = 200, description = "A page of messages", body = MessageList,
        headers(("shellkeep-source" = String, description = "`history` if this node does not have the session and it was read from history"))), Common)
)]
pub async fn list(
    Scoped(engine): Scoped,
    SessionPath(id): SessionPath,
    Params(params): Params<MessageParams>,
) -> Result<Response, Refusal> {
    let limit = translate::message_limit(params.limit)?;
    let page = engine.records().messages(&id, params.after.unwrap_or(0), limit).await?;
    Ok(sourced(page.origin, json(StatusCode::OK, &translate::message_list(page))))
}
