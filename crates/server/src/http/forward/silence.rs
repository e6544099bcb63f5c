//! Whether anything still comes from another node. A link that loses everything looks like a node that takes its time: the node
//! lives, and keeps its sessions, but what was sent to it has no answer and never will.

use crate::peers::Peers;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::Uri;
use shellkeep_runtime::{LEASE, NodeEntry, Scope};
use std::time::{Duration, Instant};

/// How often a node is asked while a request waits for it.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of its answer.
const MOST_READ: usize = 4 << 10;

/// Returns when nothing has come from a node for the time of a lease, though it was asked. Every answer counts, whatever was
/// asked and whoever waits, so that a node is asked about once a second however many requests wait for it.
pub(super) async fn until_silent(peers: &Peers, node: &NodeEntry) {
    let mut heard = Instant::now();
    loop {
        tokio::time::sleep(ASK_AGAIN).await;
        heard = peers.links().heard(&node.name).map_or(heard, |last| last.max(heard));
        if heard.elapsed() < ASK_AGAIN {
            continue;
        }
        if let Ok(true) = tokio::time::timeout(PATIENCE, is_there(peers, node)).await {
            heard = Instant::now();
            continue;
        }
        // Another request may have been answered while this one waited.
        heard = peers.links().heard(&node.name).map_or(heard, |last| last.max(heard));
        if heard.elapsed() >= LEASE {
            return;
        }
    }
}

/// Whether anything comes back. A machine that refuses a connection can be heard: its node may be about to stop, and first
/// answers what it has begun.
async fn is_there(peers: &Peers, node: &NodeEntry) -> bool {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = Uri::from_static("/healthz");
    let Ok(request) = peers.sign(request, &Scope::Host, node).await else { return true };
    match peers.links().send(node, request).await {
        // A connection whose answer was read is kept.
        Ok(answer) => to_bytes(Body::new(answer.into_body()), MOST_READ).await.is_ok(),
        Err(error) => !error.is_silence(),
    }
}
