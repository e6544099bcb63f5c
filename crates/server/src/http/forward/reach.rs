//! While this node cannot reach the shared store, it asks the other nodes whether they do. One that does not takes no session
//! for the time of a lease, so this node may serve its own for that long.

use crate::peers::Peers;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use serde::Deserialize;
use shellkeep_runtime::{Engine, NodeEntry, Reaches, Scope};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a node may take to answer: it may have to find out first that the store does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long until all of them are asked again: several times in a lease.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Most bytes of a refusal that are read.
const MOST_READ: usize = 64 << 10;

/// The part of a refusal that tells why.
#[derive(Deserialize)]
struct Code {
    code: String,
}

/// Watches until the daemon stops.
pub async fn watch_neighbours(engine: Engine, peers: Peers, mut stopped: watch::Receiver<bool>) {
    tokio::select! {
        () = watch(&engine, &peers) => {}
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
}

async fn watch(engine: &Engine, peers: &Peers) {
    let node = engine.node();
    let Some(cluster) = node.cluster() else { return };
    loop {
        cluster.until_away().await;
        let mut asked = JoinSet::new();
        for neighbour in cluster.neighbours() {
            let (peers, at) = (peers.clone(), Instant::now());
            asked.spawn(async move {
                let answer = tokio::time::timeout(PATIENCE, ask(&peers, &neighbour)).await.ok().flatten();
                (neighbour.name, at, answer)
            });
        }
        while let Some(answered) = asked.join_next().await {
            if let Ok((name, at, Some(reaches))) = answered {
                cluster.heard(&name, at, reaches);
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Asks a node for the list of nodes, which is in the shared store. `None` if it does not answer, or with something else.
async fn ask(peers: &Peers, node: &NodeEntry) -> Option<Reaches> {
    let request = Request::builder().uri("/v1/nodes").body(Body::empty()).ok()?;
    let request = peers.sign(request, &Scope::Host, node).await.ok()?;
    let answer = peers.links().send(node, request).await.ok()?;
    if answer.status() == StatusCode::OK {
        return Some(Reaches::Store);
    }
    let body = to_bytes(Body::new(answer.into_body()), MOST_READ).await.ok()?;
    let Code { code } = serde_json::from_slice(&body).ok()?;
    (code == "store_unavailable").then_some(Reaches::Nothing)
}
