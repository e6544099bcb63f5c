//! The HTTP door: one file per resource. Every handler reads, translates, calls one operation, and translates back.

mod agent_state;
mod assets;
mod audit;
mod checkpoints;
mod console;
mod daemon;
mod door;
mod events;
mod files;
mod forward;
mod health;
mod hold;
mod kv;
mod live;
mod messages;
mod metrics;
mod node;
pub mod openapi;
mod output;
mod pieces;
mod problem;
mod quotas;
mod records;
mod responses;
mod resume;
mod rewind;
mod routes;
mod runs;
mod sandbox;
mod screen;
mod services;
mod sessions;
mod sse;
mod take_over;
mod tokens;
mod workspace_files;

use crate::auth::{self, Auth, Gate};
use crate::control::Control;
use crate::mcp;
use crate::metrics::RequestMetrics;
use crate::peers::Peers;
use crate::refusal::Refusal;
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use door::Door;
pub use forward::watch_neighbours;
use metrics_exporter_prometheus::PrometheusHandle;
use routes::{delete, get, post, put};
use shellkeep_runtime::Engine;
use std::sync::Arc;

/// All routes over one engine. `auth` authenticates the callers of this door, `control` is the program that runs it.
/// `peers` are the nodes that share its store, if any do; `mcp_clients` are those of all doors.
pub fn router(
    engine: Engine,
    auth: Auth,
    peers: Option<Peers>,
    metrics: PrometheusHandle,
    control: Arc<dyn Control>,
    mcp_clients: mcp::Clients,
) -> Router {
    let counts = Arc::new(RequestMetrics::new());
    if let (Some(peers), Some(cluster)) = (&peers, engine.node().cluster()) {
        peers.known_since(cluster.own().since);
    }
    let gate = Arc::new(Gate { engine, auth, peers: peers.clone(), counts: Arc::clone(&counts) });
    let routes = Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::file))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::scrape))
        .route("/openapi.json", get(openapi::serve))
        .merge(session_routes())
        .route("/v1/services", get(services::all))
        .route("/v1/runs", get(runs::all))
        .route("/v1/quotas", get(quotas::get).merge(put(quotas::set)))
        .route("/v1/node", get(node::get))
        .route("/v1/nodes", get(node::nodes))
        .route("/v1/nodes/{node}", get(node::one))
        .route("/v1/nodes/{node}/drain", post(node::drain))
        .route("/v1/daemon", get(daemon::get))
        .route("/v1/daemon/settings", get(daemon::settings))
        .route("/v1/daemon/reload", post(daemon::reload))
        .route("/v1/daemon/stop", post(daemon::stop))
        .route("/v1/hold", post(hold::hold))
        .route("/v1/agents/{agent}/end", post(node::end_agent))
        .route("/v1/audit", get(audit::list))
        .route("/v1/live", get(live::live))
        .route("/v1/console/code", post(console::code))
        .route("/v1/console/login", post(console::login))
        .route("/v1/console/logout", post(console::logout))
        .route("/v1/tokens", get(tokens::list).merge(post(tokens::create)))
        .route("/v1/tokens/{token_id}", delete(tokens::revoke))
        .merge(mcp::routes(mcp_clients))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method);
    // A node without others has nothing to pass on, and a layer costs each request some copies of what is below it.
    let routes = match peers {
        Some(peers) => routes.layer(from_fn_with_state(peers, forward::pass_on)),
        None => routes,
    };
    routes.layer(from_fn_with_state(gate, auth::gate)).with_state(Door { metrics, counts, control })
}

fn session_routes() -> Router<Door> {
    Router::new()
        .route("/v1/sessions", get(sessions::list).merge(post(sessions::create)))
        .route("/v1/sessions/{session_id}", get(sessions::get).merge(delete(sessions::delete)))
        .route("/v1/sessions/{session_id}/state", get(sessions::state))
        .route("/v1/sessions/{session_id}/sandbox", get(sandbox::get).merge(put(sandbox::put)))
        .route("/v1/sessions/{session_id}/hibernate", post(sessions::hibernate))
        .route("/v1/sessions/{session_id}/restart", post(sessions::restart))
        .route("/v1/sessions/{session_id}/end", post(sessions::end))
        .route("/v1/sessions/{session_id}/hold", post(take_over::hold).merge(delete(take_over::release)))
        .route("/v1/sessions/{session_id}/run", post(runs::run))
        .route("/v1/sessions/{session_id}/runs", get(runs::list))
        .route("/v1/sessions/{session_id}/runs/{run_id}", get(runs::get))
        .route("/v1/sessions/{session_id}/runs/{run_id}/output", get(output::read))
        .route("/v1/sessions/{session_id}/runs/{run_id}/input", post(output::input))
        .route("/v1/sessions/{session_id}/runs/{run_id}/signal", post(output::signal))
        .route("/v1/sessions/{session_id}/runs/{run_id}/screen", get(screen::read))
        .route("/v1/sessions/{session_id}/runs/{run_id}/screens", get(screen::list))
        .route("/v1/sessions/{session_id}/runs/{run_id}/resize", post(screen::resize))
        .route("/v1/sessions/{session_id}/services", get(services::list).merge(post(services::start)))
        .route("/v1/sessions/{session_id}/services/{service_id}", get(services::get))
        .route("/v1/sessions/{session_id}/services/{service_id}/stop", post(services::stop))
        .route("/v1/sessions/{session_id}/services/{service_id}/logs", get(services::logs))
        .route("/v1/sessions/{session_id}/events", get(events::list).merge(post(events::post)))
        .route("/v1/sessions/{session_id}/events/overview", get(events::overview))
        .route("/v1/sessions/{session_id}/export", get(records::export))
        .route("/v1/sessions/{session_id}/verify", post(records::verify))
        .route("/v1/sessions/{session_id}/scrub", post(records::scrub))
        .route("/v1/sessions/{session_id}/config_snapshot", get(records::config_snapshot))
        .route("/v1/sessions/{session_id}/messages", get(messages::list).merge(post(messages::add)))
        .route("/v1/sessions/{session_id}/agent_state", get(agent_state::get).merge(put(agent_state::put)))
        .route("/v1/sessions/{session_id}/resume", post(resume::resume))
        .route("/v1/sessions/{session_id}/checkpoints", get(checkpoints::list).merge(post(checkpoints::create)))
        .route("/v1/sessions/{session_id}/checkpoints/usage", get(checkpoints::usage))
        .route("/v1/sessions/{session_id}/checkpoints/thin", post(checkpoints::thin))
        .route("/v1/sessions/{session_id}/checkpoints/{checkpoint}", get(checkpoints::get))
        .route("/v1/sessions/{session_id}/checkpoints/{checkpoint}/diff", get(files::diff_checkpoint))
        .route("/v1/sessions/{session_id}/checkpoints/{checkpoint}/file", get(checkpoints::file))
        .route("/v1/sessions/{session_id}/diff", get(files::diff))
        .route("/v1/sessions/{session_id}/files", get(workspace_files::list))
        .route("/v1/sessions/{session_id}/files/content", {
            get(workspace_files::read).merge(put(workspace_files::write)).merge(delete(workspace_files::remove))
        })
        .route("/v1/sessions/{session_id}/files/history", get(files::history))
        .route("/v1/sessions/{session_id}/kv", get(kv::list).merge(post(kv::change)))
        .route("/v1/sessions/{session_id}/kv/{*key}", get(kv::get).merge(put(kv::put)).merge(delete(kv::delete)))
        .route("/v1/sessions/{session_id}/rewind", post(rewind::rewind))
        .route("/v1/sessions/{session_id}/fork", post(rewind::fork))
        .route("/v1/sessions/{session_id}/merge_back", post(rewind::merge_back))
}

async fn no_route() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is no such route; GET /openapi.json lists all of them")
}

async fn no_method() -> Refusal {
    let detail = "this route exists, but not for this method; the Allow header and GET /openapi.json list those it has";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
