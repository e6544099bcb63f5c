//! `POST /v1/hold`: the daemon pauses writes during the last part of a backup.

use super::responses::Common;
use super::sse;
use crate::auth::OfHost;
use crate::body::Nothing;
use crate::refusal::Refusal;
use axum::response::Response;

/// Pauses writes until the caller disconnects, at most 30 s: nothing is written to the store, the recordings and the
/// checkpoints. For `shellkeep backup`; host only.
///
/// The event `held` means that writes are paused, `released` that they are not any longer. Commands keep running; what
/// needs the store waits.
#[utoipa::path(
    post, path = "/v1/hold", tag = "daemon", operation_id = "hold",
    responses((status = 200, description = "Events: `held`, `released`", content_type = "text/event-stream"), Common)
)]
pub async fn hold(OfHost(engine): OfHost, _: Nothing) -> Result<Response, Refusal> {
    let permit = sse::permit(&engine)?;
    let hold = engine.node().hold().await?;
    Ok(sse::hold(permit, hold))
}
