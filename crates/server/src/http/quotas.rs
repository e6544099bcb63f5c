//! `/v1/quotas`: limits and their use.

use super::door::json;
use super::responses::Common;
use crate::auth::{OfHost, Scoped};
use crate::body::{Json, SMALL_LIMIT};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{QuotasRequest, QuotasResponse};

/// The quotas and their use. An agent sees the limits and its own use.
#[utoipa::path(
    get, path = "/v1/quotas", tag = "quotas", operation_id = "get_quotas",
    responses((status = 200, description = "The quotas", body = QuotasResponse), Common)
)]
pub async fn get(Scoped(engine): Scoped) -> Result<Response, Refusal> {
    Ok(json(StatusCode::OK, &translate::quotas(engine.node().quotas().await)))
}

/// Changes the named quotas. `null` resets one to its configured value. Changes survive restarts. Host only.
#[utoipa::path(
    put, path = "/v1/quotas", tag = "quotas", operation_id = "set_quotas",
    request_body = QuotasRequest,
    responses((status = 200, description = "The quotas, as they are now", body = QuotasResponse), Common)
)]
pub async fn set(OfHost(engine): OfHost, Json(request): Json<QuotasRequest, SMALL_LIMIT>) -> Result<Response, Refusal> {
    let view = engine.node().set_quotas(translate::quota_changes(request)?).await?;
    Ok(json(StatusCode::OK, &translate::quotas(view)))
}
