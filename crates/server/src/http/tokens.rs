//! `/v1/tokens`: the host creates, lists and revokes tokens of agents, auditors and metrics.

use super::door::json;
use super::responses::Common;
use crate::auth::{OfHost, Scoped};
use crate::body::{Json, Nothing, SMALL_LIMIT};
use crate::params::TokenPath;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{CreateTokenRequest, IssuedToken, TokenList};

/// Creates a token for an agent, an auditor or metrics. Its secret is in this response and nowhere else.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body = CreateTokenRequest,
    responses((status = 201, description = "The token, with its secret", body = IssuedToken), Common)
)]
pub async fn create(
    OfHost(engine): OfHost,
    Json(request): Json<CreateTokenRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let issued = engine.identities().create_token(translate::new_token(request)?).await?;
    Ok(json(StatusCode::CREATED, &translate::issued_token(issued)))
}

/// All tokens, including recently revoked ones, without their secrets.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    responses((status = 200, description = "The tokens, oldest first", body = TokenList), Common)
)]
pub async fn list(Scoped(engine): Scoped) -> Result<Response, Refusal> {
    let tokens = engine.identities().tokens().await?;
    Ok(json(StatusCode::OK, &TokenList { tokens: tokens.into_iter().map(translate::token).collect() }))
}

/// Revokes a token, effective immediately: its open requests are ended. What it started keeps running.
#[utoipa::path(
    delete, path = "/v1/tokens/{token_id}", tag = "tokens", operation_id = "revoke_token",
    params(("token_id" = String, Path, description = "The token's id, not its secret")),
    responses((status = 204, description = "Revoked"), Common)
)]
pub async fn revoke(OfHost(engine): OfHost, TokenPath(id): TokenPath, _: Nothing) -> Result<Response, Refusal> {
    engine.identities().revoke_token(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
