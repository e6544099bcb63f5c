//! What handlers share, and JSON responses.

use super::pieces;
use crate::control::Control;
use crate::metrics::RequestMetrics;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use shellkeep_runtime::Origin;
use std::sync::Arc;

/// What handlers share. The engine is not here: a handler gets it from the request, with the caller's rights.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) metrics: PrometheusHandle,
    pub(crate) counts: Arc<RequestMetrics>,
    pub(crate) control: Arc<dyn Control>,
}

/// The header of an answer about a session that this node does not have.
const SOURCE: HeaderName = HeaderName::from_static("shellkeep-source");

/// An answer that says so if it was read from history.
pub(crate) fn sourced(origin: Origin, mut answer: Response) -> Response {
    match origin {
        Origin::Node => {}
        Origin::History => drop(answer.headers_mut().insert(SOURCE, HeaderValue::from_static("history"))),
    }
    answer
}

/// The answer to a caller who already has what it asks for: one of the tags in its `If-None-Match` is this one.
pub(crate) fn unchanged(headers: &HeaderMap, tag: &str) -> Option<Response> {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = given.flat_map(|value| value.split(',')).map(str::trim);
    // A proxy that compresses marks the tag as weak.
    let is_known = known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
    is_known.then(|| (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response())
}

/// A JSON answer.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match pieces::body(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => Refusal::internal(format!("cannot encode the response: {error}")).into_response(),
    }
}
