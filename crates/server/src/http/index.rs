//! `GET /`: a short overview.

use axum::http::header;
use axum::response::{IntoResponse, Response};

const PAGE: &str = "shellkeep: durable shell sessions for AI agents\n\n\
    POST /v1/sessions                 create a session, or find an existing one\n\
    POST /v1/sessions/{id}/run        run a command in it\n\
    POST /v1/sessions/{id}/services   start a service in it\n\
    GET  /openapi.json                everything else\n";

/// A short overview of the API.
#[utoipa::path(
    get, path = "/", tag = "daemon", operation_id = "index",
    responses((status = 200, description = "A page", content_type = "text/plain", body = String))
)]
pub async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], PAGE).into_response()
}
