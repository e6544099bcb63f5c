//! `POST /v1/hold`: the daemon holds still while a backup copies what changes.

use super::responses::Common;
use super::sse;
use crate::auth::Scoped;
use crate::body::Nothing;
use crate::refusal::Refusal;
use axum::response::Response;

/// Holds still until the caller hangs up, at most 30 s: nothing is written to the store, the recordings and the checkpoints.
/// For `shellkeep backup`; the host's right.
///
/// The event `held` says that it does, `released` that it does no longer. Commands run on; what needs the store waits.
#[utoipa::path(
    post, path = "/v1/hold", tag = "daemon", operation_id = "hold",
    responses((status = 200, description = "Events: `held`, `released`", content_type = "text/event-stream"), Common)
)]
pub async fn hold(Scoped(engine): Scoped, _: Nothing) -> Result<Response, Refusal> {
    let permit = sse::permit(&engine)?;
    let hold = engine.node().hold().await?;
    Ok(sse::hold(permit, hold))
}
