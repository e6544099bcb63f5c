//! `/v1/node`, `/v1/nodes` and `/v1/agents`: the node as a whole, the nodes beside it, and ending an agent. Host only.

use super::door::json;
use super::responses::Common;
use crate::auth::Scoped;
use crate::body::Nothing;
use crate::detached::detached;
use crate::params::AgentPath;
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{AgentEnded, Node, NodeList};

/// The status of the node: sessions, shells, services, quotas, queue, pressure.
#[utoipa::path(
    get, path = "/v1/node", tag = "daemon", operation_id = "get_node",
    responses((status = 200, description = "The node", body = Node), Common)
)]
pub async fn get(Scoped(engine): Scoped) -> Result<Response, Refusal> {
    let view = engine.node().view().await?;
    Ok(json(StatusCode::OK, &translate::node(view)))
}

/// The nodes that share this one's store and are alive, this one among them. None if the store is not shared.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "daemon", operation_id = "list_nodes",
    responses((status = 200, description = "The nodes", body = NodeList), Common)
)]
pub async fn nodes(Scoped(engine): Scoped) -> Result<Response, Refusal> {
    let node = engine.node();
    node.check_figures()?;
    let nodes = match node.cluster() {
        Some(cluster) => cluster.nodes().await?,
        None => Vec::new(),
    };
    Ok(json(StatusCode::OK, &NodeList { nodes: nodes.into_iter().map(translate::cluster_node).collect() }))
}

/// Ends an agent: its services are stopped and its shells dropped. Its sessions stay until they are deleted or
/// reclaimed.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/end", tag = "agents", operation_id = "end_agent",
    params(("agent" = String, Path, description = "The agent")),
    responses((status = 200, description = "What was ended", body = AgentEnded), Common)
)]
pub async fn end_agent(Scoped(engine): Scoped, AgentPath(agent): AgentPath, _: Nothing) -> Result<Response, Refusal> {
    let ended = detached(async move { engine.node().end_agent(&agent).await }).await??;
    Ok(json(StatusCode::OK, &translate::ended_agent(ended)))
}
