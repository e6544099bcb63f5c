//! `GET /`: a page that says where one is.

use axum::http::header;
use axum::response::{IntoResponse, Response};

const PAGE: &str = "shellkeep: durable shell sessions for AI agents\n\n\
    POST /v1/sessions                 make a session, or find it again\n\
    POST /v1/sessions/{id}/run        run a command in it\n\
    POST /v1/sessions/{id}/services   start what runs on beside it\n\
    GET  /openapi.json                everything else\n";

/// A page that says where one is.
#[utoipa::path(
    get, path = "/", tag = "daemon", operation_id = "index",
    responses((status = 200, description = "A page", content_type = "text/plain", body = String))
)]
pub async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], PAGE).into_response()
}
