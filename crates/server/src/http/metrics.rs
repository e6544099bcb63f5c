//! `GET /metrics`.

use super::door::Door;
use super::responses::Common;
use crate::auth::Scoped;
use crate::refusal::Refusal;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use metrics::gauge;
use shellkeep_runtime::NodeView;

/// Metrics in Prometheus' text format. For the host, and for tokens with the role `metrics` or `auditor`.
#[utoipa::path(
    get, path = "/metrics", tag = "daemon", operation_id = "metrics",
    responses((status = 200, description = "Figures", content_type = "text/plain; version=0.0.4", body = String), Common)
)]
pub(crate) async fn scrape(State(door): State<Door>, Scoped(engine): Scoped) -> Result<Response, Refusal> {
    engine.node().check_figures()?;
    engine.node().count_agents()?;
    let health = engine.node().health().await;
    gauge!("shellkeep_shells", "state" => "live").set(health.live_shells as f64);
    gauge!("shellkeep_shells", "state" => "spare").set(health.spare_shells as f64);
    gauge!("shellkeep_degraded").set(if health.problems.is_empty() { 0.0 } else { 1.0 });
    if let Ok(node) = engine.node().view().await {
        gauge_node(&node);
    }
    if let Some(cluster) = engine.node().cluster() {
        // Without the shared store a node sees only itself.
        let nodes = cluster.nodes().await.ok().map(|nodes| nodes.len());
        gauge!("shellkeep_shared_store_up").set(if nodes.is_some() { 1.0 } else { 0.0 });
        gauge!("shellkeep_cluster_nodes").set(nodes.unwrap_or(1) as f64);
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, door.metrics.render()).into_response())
}

/// Gauges that are read on each scrape. Those of admission are also set where they change; they are set here too, so
/// that they exist from the first scrape on.
fn gauge_node(node: &NodeView) {
    gauge!("shellkeep_sessions").set(node.sessions as f64);
    gauge!("shellkeep_services").set(node.services as f64);
    gauge!("shellkeep_processes").set(node.processes as f64);
    gauge!("shellkeep_memory_bytes").set(node.memory as f64);
    gauge!("shellkeep_queue_length").set(node.waiting as f64);
    gauge!("shellkeep_commands_running").set(node.running as f64);
    gauge!("shellkeep_pressure", "resource" => "cpu").set(node.cpu_pressure);
    gauge!("shellkeep_pressure", "resource" => "memory").set(node.memory_pressure);
    gauge!("shellkeep_memory_free").set(node.memory_free);
    gauge!("shellkeep_limit", "limit" => "running").set(node.running_limit as f64);
    gauge!("shellkeep_limit_used", "limit" => "running").set(node.running as f64);
    for quota in &node.quotas.quotas {
        gauge!("shellkeep_limit", "limit" => quota.name.as_str()).set(quota.limit as f64);
        if let Some(used) = quota.used {
            gauge!("shellkeep_limit_used", "limit" => quota.name.as_str()).set(used as f64);
        }
    }
}
