//! What is kept of a deleted session is on the node that had it, and the shared store does not know on which: the other nodes
//! are asked.

use crate::peers::Peers;
use crate::refusal::{RETRY_AFTER, Refusal};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use shellkeep_runtime::{NodeEntry, Scope};
use std::time::Duration;
use tokio::task::JoinSet;

/// How long another node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of its answer.
const MOST_READ: usize = 4 << 20;
/// After how many seconds to ask again for what a silent node may have.
const ASK_AGAIN: u64 = 5;

/// What other nodes have of a deleted session.
pub(super) enum Kept {
    /// This node has its recording.
    At(NodeEntry),
    /// None that answered has it. These did not answer.
    Unknown { silent: Vec<String> },
}

/// Asks other nodes for the deleted session that a request is about.
pub(super) async fn find(peers: &Peers, scope: &Scope, others: Vec<NodeEntry>, uri: &Uri) -> Kept {
    let mut silent = Vec::new();
    let Some(uri) = session_of(uri) else { return Kept::Unknown { silent } };
    let mut asked = JoinSet::new();
    for node in others {
        let (peers, scope, uri) = (peers.clone(), scope.clone(), uri.clone());
        asked.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, has_it(&peers, &scope, &node, uri)).await;
            (node, answer.ok().flatten())
        });
    }
    while let Some(answered) = asked.join_next().await {
        match answered {
            Ok((node, Some(true))) => return Kept::At(node),
            Ok((node, None)) => silent.push(node.name),
            Ok((_, Some(false))) | Err(_) => {}
        }
    }
    silent.sort_unstable();
    Kept::Unknown { silent }
}

/// The answer of this node, which has no recording either; if other nodes did not answer, that they may have it.
pub(super) fn or_silent(own: Response, silent: &[String]) -> Response {
    if silent.is_empty() || own.status() != StatusCode::NOT_FOUND {
        return own;
    }
    let detail = format!(
        "no node that answers has this recording of a deleted session, and it may be on node '{}', which does not answer. \
         Try again",
        silent.join("' or '")
    );
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", detail);
    refusal.with(RETRY_AFTER, ASK_AGAIN).into_response()
}

/// The route of the session that a request is about.
fn session_of(uri: &Uri) -> Option<Uri> {
    let name = uri.path().strip_prefix("/v1/sessions/")?.split('/').next()?;
    format!("/v1/sessions/{name}").parse().ok()
}

/// Whether a node has the recording; `None` if it does not say.
async fn has_it(peers: &Peers, scope: &Scope, node: &NodeEntry, uri: Uri) -> Option<bool> {
    let request = Request::builder().uri(uri).body(Body::empty()).ok()?;
    let request = peers.sign(request, scope, node).await.ok()?;
    let answer = peers.links().send(node, request).await.ok()?;
    let status = answer.status();
    // A connection whose answer was read is kept.
    to_bytes(Body::new(answer.into_body()), MOST_READ).await.ok()?;
    match status {
        StatusCode::OK => Some(true),
        StatusCode::NOT_FOUND => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_below_a_session_is_about_it() {
        let of = |uri: &'static str| session_of(&Uri::from_static(uri)).map(|uri| uri.to_string());
        for uri in ["/v1/sessions/w.deleted.7", "/v1/sessions/w.deleted.7/events?limit=1"] {
            assert_eq!(of(uri).as_deref(), Some("/v1/sessions/w.deleted.7"));
        }
        assert_eq!(of("/v1/runs"), None);
    }

    #[test]
    fn only_what_was_not_found_may_be_on_a_silent_node() {
        let own = |status: StatusCode| status.into_response();
        let silent = ["n2".to_owned(), "n3".to_owned()];
        assert_eq!(or_silent(own(StatusCode::OK), &silent).status(), StatusCode::OK);
        assert_eq!(or_silent(own(StatusCode::NOT_FOUND), &[]).status(), StatusCode::NOT_FOUND);
        assert_eq!(or_silent(own(StatusCode::NOT_FOUND), &silent).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
