//! `/v1/node`, `/v1/nodes` and `/v1/agents`: the node as a whole, the nodes beside it, and ending an agent. Host only.

use super::door::json;
use super::responses::Common;
use crate::auth::{OfHost, Scoped};
use crate::body::Nothing;
use crate::detached::detached;
use crate::params::{AgentPath, NodePath, Params};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use axum::response::Response;
use shellkeep_protocol::{AgentEnded, ClusterNode, DrainQuery, Node, NodeList};
use shellkeep_runtime::{ClusterError, OpError};

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
    let (nodes, this) = match node.cluster() {
        Some(cluster) => (cluster.nodes().await?, Some(cluster.own().name)),
        None => (Vec::new(), None),
    };
    Ok(json(StatusCode::OK, &NodeList { nodes: nodes.into_iter().map(translate::cluster_node).collect(), this }))
}

/// One of the nodes that share this one's store.
#[utoipa::path(
    get, path = "/v1/nodes/{node}", tag = "daemon", operation_id = "get_cluster_node",
    params(("node" = String, Path, description = "The node's name")),
    responses((status = 200, description = "The node", body = ClusterNode), Common)
)]
pub async fn one(Scoped(engine): Scoped, NodePath(name): NodePath) -> Result<Response, Refusal> {
    let node = engine.node();
    node.check_figures()?;
    let cluster = node.cluster().ok_or_else(|| no_such(&name))?;
    Ok(json(StatusCode::OK, &translate::cluster_node(cluster.node(&name).await?)))
}

/// Drains a node: it takes no more sessions and stops its services, and each of its sessions sleeps when its commands have
/// ended, so that another node goes on with it. Lasts until the node is restarted. Host only.
#[utoipa::path(
    post, path = "/v1/nodes/{node}/drain", tag = "daemon", operation_id = "drain_node",
    params(("node" = String, Path, description = "The node's name"), DrainQuery),
    responses((status = 200, description = "The node, with the number of sessions that are left", body = ClusterNode), Common)
)]
pub async fn drain(
    OfHost(engine): OfHost,
    NodePath(name): NodePath,
    Params(query): Params<DrainQuery>,
    _: Nothing,
) -> Result<Response, Refusal> {
    let wait = translate::wait(query.wait)?;
    let node = engine.node();
    // A request about another node was sent there.
    let cluster = node.cluster().filter(|cluster| cluster.own().name == name).ok_or_else(|| no_such(&name))?;
    Ok(json(StatusCode::OK, &translate::cluster_node(cluster.drain(wait).await?)))
}

fn no_such(name: &str) -> Refusal {
    OpError::from(ClusterError::NoSuchNode { node: name.to_owned() }).into()
}

/// Ends an agent on all nodes: its services are stopped and its shells dropped. Its sessions stay until they are deleted or
/// reclaimed.
#[utoipa::path(
    post, path = "/v1/agents/{agent}/end", tag = "agents", operation_id = "end_agent",
    params(("agent" = String, Path, description = "The agent")),
    responses((status = 200, description = "What was ended", body = AgentEnded), Common)
)]
pub async fn end_agent(OfHost(engine): OfHost, AgentPath(agent): AgentPath, _: Nothing) -> Result<Response, Refusal> {
    let ended = detached(async move { engine.node().end_agent(&agent).await }).await??;
    Ok(json(StatusCode::OK, &translate::ended_agent(ended)))
}
