//! `/v1/daemon`: the daemon itself. Its status and settings, reload and stop. Host only.

use super::door::{Door, json};
use super::responses::{Common, Configured, StopRefused};
use crate::auth::{OfHost, Scoped};
use crate::body::{Json, Nothing, SMALL_LIMIT};
use crate::control::{Control, Reloading, StopOrder};
use crate::refusal::Refusal;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{DaemonStatus, ReadinessStatus, Reloaded, SettingsInForce, StopRequest, Stopping};
use shellkeep_runtime::Engine;
use std::sync::Arc;

/// The daemon: process, version, data directory, doors, and whether it works.
#[utoipa::path(
    get, path = "/v1/daemon", tag = "daemon", operation_id = "get_daemon",
    responses((status = 200, description = "The daemon", body = DaemonStatus), Common)
)]
pub(crate) async fn get(State(door): State<Door>, Scoped(engine): Scoped) -> Result<Response, Refusal> {
    let node = engine.node().view().await?;
    let is_draining = engine.node().cluster().is_some_and(|cluster| cluster.own().draining);
    let facts = door.control.facts();
    let status = DaemonStatus {
        status: match node.problems.is_empty() {
            _ if is_draining => ReadinessStatus::Draining,
            true => ReadinessStatus::Ready,
            false => ReadinessStatus::Degraded,
        },
        problems: node.problems,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: facts.started_at,
        uptime: node.uptime.as_secs_f64(),
        data: facts.data.display().to_string(),
        config_file: door.control.settings().file,
        doors: facts.doors,
        store: facts.store,
        sessions: node.sessions,
        live_shells: node.live_shells,
        running: node.running,
        services: node.services,
        stop_grace: door.control.stop_grace().as_secs_f64(),
    };
    Ok(json(StatusCode::OK, &status))
}

/// The settings in effect, and where each came from.
#[utoipa::path(
    get, path = "/v1/daemon/settings", tag = "daemon", operation_id = "get_settings",
    responses((status = 200, description = "The settings", body = SettingsInForce), Common)
)]
pub(crate) async fn settings(State(door): State<Door>, Scoped(engine): Scoped) -> Result<Response, Refusal> {
    engine.node().check_host()?;
    Ok(json(StatusCode::OK, &door.control.settings()))
}

/// Reads the configuration file again. The response lists what changed, and what needs a restart. An invalid file
/// changes nothing.
#[utoipa::path(
    post, path = "/v1/daemon/reload", tag = "daemon", operation_id = "reload_daemon",
    responses((status = 200, description = "What changed", body = Reloaded), Common, Configured)
)]
pub(crate) async fn reload(State(door): State<Door>, OfHost(engine): OfHost, _: Nothing) -> Result<Response, Refusal> {
    engine.node().command("reload_daemon")?;
    let Reloading { report, quotas } = read(&door, "nothing was changed", |control| control.reload()).await?;
    engine.node().configure_quotas(quotas).await?;
    Ok(json(StatusCode::OK, &report))
}

/// Reads the configuration. If it is invalid, `unchanged` says what was not done.
async fn read<T: Send + 'static>(
    door: &Door,
    unchanged: &str,
    reading: impl FnOnce(&dyn Control) -> Result<T, String> + Send + 'static,
) -> Result<T, Refusal> {
    let control = Arc::clone(&door.control);
    let read = tokio::task::spawn_blocking(move || reading(&*control)).await;
    let read = read.map_err(|error| Refusal::internal(error.to_string()))?;
    read.map_err(|reason| Refusal::new(StatusCode::CONFLICT, "invalid_configuration", format!("{unchanged}: {reason}")))
}

/// Refuses to stop while there are records that only this process has.
async fn check_written(engine: &Engine) -> Result<(), Refusal> {
    let lost = engine.node().unwritten().await?;
    if lost == 0 {
        return Ok(());
    }
    let records = if lost == 1 { "1 record is".to_owned() } else { format!("{lost} records are") };
    let detail = format!(
        "{records} only in memory, because the disk cannot be written, and would be lost: ends of commands with their \
         output, messages, changes of sessions. The daemon was not stopped. Free space on the disk of the data directory \
         and try again, or stop with --now (`\"now\": true`) and lose them"
    );
    Err(Refusal::new(StatusCode::CONFLICT, "records_unwritten", detail).with("records", lost))
}

/// Stops the daemon. Running commands get `stop_grace` to finish, new ones are rejected with `shutting_down`. With
/// `restart` it starts again; if the configuration is invalid, it does not stop. Nor does it stop without `now` while it has
/// records that it cannot write.
#[utoipa::path(
    post, path = "/v1/daemon/stop", tag = "daemon", operation_id = "stop_daemon",
    request_body = StopRequest,
    responses((status = 202, description = "It stops", body = Stopping), Common, StopRefused)
)]
pub(crate) async fn stop(
    State(door): State<Door>,
    OfHost(engine): OfHost,
    Json(request): Json<StopRequest, SMALL_LIMIT>,
) -> Result<Response, Refusal> {
    engine.node().command(if request.restart { "restart_daemon" } else { "stop_daemon" })?;
    if request.restart {
        read(&door, "the daemon was not restarted", |control| control.check_configuration()).await?;
    }
    if !request.now {
        check_written(&engine).await?;
    }
    let running = engine.node().view().await?.running;
    let grace = if request.now { 0.0 } else { door.control.stop_grace().as_secs_f64() };
    door.control.stop(StopOrder { now: request.now, restart: request.restart });
    Ok(json(StatusCode::ACCEPTED, &Stopping { running, grace, pid: std::process::id() }))
}
