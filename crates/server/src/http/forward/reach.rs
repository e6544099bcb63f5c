//! Whether this node alone is cut off from the shared store: while it is away, the other nodes are asked whether they reach
//! it.

use super::connect;
use crate::peers::Peers;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use shellkeep_runtime::{ClusterNode, Engine, Scope};
use std::time::Duration;

/// How long a node may take to answer, and how long until all of them are asked again.
const PATIENCE: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Watches until the daemon stops.
pub async fn watch_neighbours(engine: Engine, peers: Peers) {
    let node = engine.node();
    let Some(cluster) = node.cluster() else { return };
    loop {
        cluster.until_away().await;
        for neighbour in cluster.neighbours() {
            let asked = tokio::time::timeout(PATIENCE, reaches_store(&peers, &neighbour)).await;
            if asked.is_ok_and(|reaches| reaches) {
                cluster.is_reached_by(&neighbour.name).await;
                break;
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Whether a node reaches the shared store: only then it can list the nodes.
async fn reaches_store(peers: &Peers, node: &ClusterNode) -> bool {
    let request = Request::builder().uri("/v1/nodes").body(Body::empty());
    let Ok(request) = request else { return false };
    let Ok(mut request) = peers.sign(request, &Scope::Host, &node.name).await else { return false };
    let Ok(mut sender) = connect(node, &mut request).await else { return false };
    sender.send_request(request).await.is_ok_and(|answer| answer.status() == StatusCode::OK)
}
