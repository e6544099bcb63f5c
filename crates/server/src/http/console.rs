//! `/v1/console`: how the console in the browser gets its token, and gives it back.

use super::door::{Door, json};
use super::responses::{Common, ConsoleLogin};
use crate::auth::{Lobby, OfHost, Scoped};
use crate::body::{Json, Nothing, SMALL_LIMIT};
use crate::refusal::Refusal;
use crate::translate;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use shellkeep_protocol::{ConsoleCode, ConsoleCodeRequest, ConsoleLoginRequest, IssuedToken};
use shellkeep_runtime::CODE_LIFETIME;

/// Creates a code with which a browser gets a token. It works once, for a minute. Host only.
///
/// `shellkeep console` opens the console with it: the code is in the fragment of the address, which a browser does not
/// send.
#[utoipa::path(
    post, path = "/v1/console/code", tag = "console", operation_id = "create_console_code",
    request_body = ConsoleCodeRequest,
    responses((status = 201, description = "The code", body = ConsoleCode), Common)
)]
pub(crate) async fn code(
    State(door): State<Door>,
    OfHost(engine): OfHost,
    Json(request): Json<ConsoleCodeRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    let code = engine.identities().console_code(translate::console_right(request.right.unwrap_or_default()))?;
    let urls = door.control.facts().doors.into_iter().filter(|door| door.starts_with("http://")).collect();
    Ok(json(StatusCode::CREATED, &ConsoleCode { code, expires_in: CODE_LIFETIME.as_secs_f64(), urls }))
}

/// Exchanges a code for a token that is valid for 12 hours. Needs no token.
///
/// The token is listed and revoked like others. A page of another origin cannot use this.
#[utoipa::path(
    post, path = "/v1/console/login", tag = "console", operation_id = "console_login", security(()),
    request_body = ConsoleLoginRequest,
    responses((status = 201, description = "The token, with its secret", body = IssuedToken), ConsoleLogin, Common)
)]
pub(crate) async fn login(
    lobby: Lobby,
    Json(request): Json<ConsoleLoginRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    match lobby.login(&request.code).await? {
        Some(issued) => Ok(json(StatusCode::CREATED, &translate::issued_token(issued))),
        None => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "invalid_code",
            "this code is wrong, was used, or is older than a minute; `shellkeep console` makes a new one",
        )),
    }
}

/// Revokes the caller's own token of the console.
#[utoipa::path(
    post, path = "/v1/console/logout", tag = "console", operation_id = "console_logout",
    responses((status = 204, description = "Revoked"), Common)
)]
pub(crate) async fn logout(Scoped(engine): Scoped, _: Nothing) -> Result<Response, Refusal> {
    engine.identities().console_logout().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
