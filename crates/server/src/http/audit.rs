//! `/v1/audit`: who changed permissions or deleted something, and which requests were rejected.

use super::door::json;
use super::responses::Common;
use crate::auth::Scoped;
use crate::params::Params;
use crate::refusal::Refusal;
use axum::extract::Query;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use shellkeep_protocol::{AuditEntry, AuditList};
use utoipa::IntoParams;

/// Default number of entries.
const DEFAULT_LIMIT: usize = 100;
/// Maximum number of entries.
const MAX_LIMIT: usize = 10_000;

/// Query of `GET /v1/audit`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
    /// Maximum number of entries, 1 to 10,000; by default 100.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

/// How many entries a valid query asks for.
pub(super) fn limit_of(uri: &Uri) -> usize {
    Query::<AuditParams>::try_from_uri(uri).ok().and_then(|Query(params)| params.limit).unwrap_or(DEFAULT_LIMIT)
}

/// The last entries of the audit trail, of all nodes where they share a store. Host only.
#[utoipa::path(
    get, path = "/v1/audit", tag = "tokens", operation_id = "audit",
    params(AuditParams),
    responses((status = 200, description = "The entries, oldest first", body = AuditList), Common)
)]
pub async fn list(Scoped(engine): Scoped, Params(params): Params<AuditParams>) -> Result<Response, Refusal> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_LIMIT}")));
    }
    let entries = engine.node().audit_trail(limit).await?;
    let view = |entry: shellkeep_runtime::AuditEntry| AuditEntry {
        at: entry.at.to_string(),
        door: entry.door,
        who: entry.who,
        agent: entry.agent,
        what: entry.what,
        object: entry.object,
        code: entry.code,
        left_out: entry.left_out,
    };
    Ok(json(StatusCode::OK, &AuditList { audit: entries.into_iter().map(view).collect() }))
}
