//! `GET /healthz` and `GET /readyz`.

use super::door::json;
use super::responses::NoToken;
use crate::auth::Scoped;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{Live, Readiness, ReadinessStatus};

/// Whether the process responds. Needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "daemon", operation_id = "healthz", security(()),
    responses((status = 200, description = "It answers", body = Live))
)]
pub async fn live() -> Response {
    json(StatusCode::OK, &Live { status: "ok".to_owned(), version: version() })
}

/// Whether the daemon works. A `degraded` daemon still serves; `problems` says what is wrong. One that is drained passes
/// requests on to other nodes, and answers 503 here, so that a load balancer no longer sends it any.
#[utoipa::path(
    get, path = "/readyz", tag = "daemon", operation_id = "readyz",
    responses(
        (status = 200, description = "Ready or degraded", body = Readiness),
        (status = 503, description = "Draining", body = Readiness),
        NoToken
    )
)]
pub async fn ready(Scoped(engine): Scoped) -> Response {
    let health = engine.node().health().await;
    let (status, code) = match (health.draining, health.problems.is_empty()) {
        (true, _) => (ReadinessStatus::Draining, StatusCode::SERVICE_UNAVAILABLE),
        (false, true) => (ReadinessStatus::Ready, StatusCode::OK),
        (false, false) => (ReadinessStatus::Degraded, StatusCode::OK),
    };
    let readiness = Readiness {
        status,
        reasons: health.problems.clone(),
        problems: health.problems,
        live_shells: health.live_shells,
        spare_shells: health.spare_shells,
        version: version(),
        pid: std::process::id(),
    };
    json(code, &readiness)
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
