//! Sends a request to another node, and streams back its answer.

use super::relay::relay;
use super::silence::until_silent;
use crate::http::sse;
use crate::metrics::Forward;
use crate::peers::{Peers, RESTARTED};
use crate::refusal::Refusal;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use shellkeep_protocol::Problem;
use shellkeep_runtime::{ClusterError, ClusterOps, Engine, LEASE, NodeEntry, OpError};
use shellkeep_session::SessionId;
use std::time::{Duration, Instant};

/// Names the node that answered.
const NODE: HeaderName = HeaderName::from_static("shellkeep-node");

/// Most bytes of a refusal that are read.
const MOST_READ: usize = 64 << 10;

/// How often a node that does not answer is looked for among those that are alive.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// After how long it is looked for once more before it counts as gone.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// This node among the others, for one caller.
#[derive(Clone, Copy)]
pub(super) struct Nodes<'a> {
    /// With the caller's rights.
    pub(super) engine: &'a Engine,
    pub(super) cluster: &'a ClusterOps<'a>,
    pub(super) peers: &'a Peers,
}

impl Nodes<'_> {
    /// The other nodes. Without the shared store, those that this one knows.
    pub(super) async fn others(&self) -> Vec<NodeEntry> {
        self.cluster.others().await.unwrap_or_else(|_| self.cluster.neighbours())
    }

    /// Sends a request to another node.
    pub(super) async fn send(&self, request: Request, target: Target) -> Result<Response, NoAnswer> {
        send(self.engine, self.peers, request, target).await
    }
}

/// Where a request goes.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) node: NodeEntry,
    pub(super) session: Option<SessionId>,
}

impl Target {
    /// The node cannot be reached, and has not seen the request.
    pub(super) fn unreachable(&self) -> Refusal {
        self.refusal(|session_id, node| ClusterError::OwnerUnreachable { session_id, node })
    }

    /// The session is on its way from a node to another. What is about no session is begun by neither of the two.
    pub(super) fn moving(&self) -> Refusal {
        self.refusal(|session_id, _| ClusterError::Moving { session_id })
    }

    /// The node stopped after it was sent the request.
    fn lost(&self) -> Refusal {
        self.refusal(|session_id, node| ClusterError::OwnerLost { session_id, node })
    }

    /// The node refused the request unseen, so long after it was signed. One that has started again is known better when the
    /// shared store is asked for it. One that lives refuses at once; another was stopped
    /// meanwhile, and refuses what waited for it because its signature is too old.
    fn distrusted(&self, after: Duration, problem: &Problem) -> NoAnswer {
        if problem.code == RESTARTED {
            return NoAnswer { refusal: self.unreachable(), is_unsent: true };
        }
        let refusal = if after < LEASE { not_trusted(&self.node, &problem.detail) } else { self.unreachable() };
        NoAnswer { refusal, is_unsent: false }
    }

    fn refusal(&self, of_session: impl FnOnce(String, String) -> ClusterError) -> Refusal {
        let node = self.node.name.clone();
        OpError::from(match &self.session {
            Some(id) => of_session(id.to_string(), node),
            None => ClusterError::NodeUnreachable { node },
        })
        .into()
    }

    /// Returns when no answer can be expected: the node no longer has what the request is about, or nothing comes from it.
    async fn gone(self, engine: Engine, peers: Peers) {
        tokio::select! {
            () = self.moved(engine) => {}
            () = until_silent(&peers, &self.node) => {
                tracing::warn!(node = self.node.name, "nothing comes from another node; a request to it is given up");
            }
        }
    }

    /// Returns when the node no longer has what the request is about: it may have stopped with the request before it.
    async fn moved(&self, engine: Engine) {
        let ops = engine.node();
        let Some(cluster) = ops.cluster() else { return };
        let (mut unknown_since, mut pause) = (None, LOOK_AGAIN);
        loop {
            tokio::time::sleep(pause).await;
            let is_there = match &self.session {
                Some(id) => cluster.is_with(id, &self.node.name).await,
                None => Some(cluster.is_alive(&self.node.name).await),
            };
            match is_there {
                Some(true) => (unknown_since, pause) = (None, LOOK_AGAIN),
                // One that has just let it go says so.
                Some(false) if pause == LOOK_AGAIN => pause = SECOND_LOOK,
                Some(false) => return,
                // A node that lives has given it again by then: it renews its lease more often.
                None if unknown_since.get_or_insert_with(Instant::now).elapsed() >= LEASE => return,
                None => {}
            }
        }
    }
}

/// Why a request that was sent on has no answer.
pub(super) struct NoAnswer {
    pub(super) refusal: Refusal,
    /// Whether the node could not be reached, so that the request can be sent to another.
    pub(super) is_unsent: bool,
}

/// Sends a request to another node. The answer is not gathered: its bytes come as the node sends them, until it ends or
/// the node is gone.
pub(super) async fn send(
    engine: &Engine,
    peers: &Peers,
    request: Request,
    target: Target,
) -> Result<Response, NoAnswer> {
    let answered = exchange(engine, peers, request, &target).await;
    if let Some(session) = &target.session {
        match &answered {
            Ok(response) if !response.status().is_server_error() => {
                peers.located().put(engine.scope(), session, &target.node);
            }
            _ => peers.located().forget(engine.scope(), session),
        }
    }
    let mut response = answered?;
    response.headers_mut().remove(header::CONNECTION);
    if let Ok(name) = HeaderValue::from_str(&target.node.name) {
        response.headers_mut().insert(NODE, name);
    }
    let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == sse::CONTENT_TYPE);
    let last_event = is_stream.then(|| sse::error_event(&target.lost()));
    Ok(relay(response, target.gone(engine.clone(), peers.clone()), last_event))
}

/// Sends a request to another node, and waits until it begins to answer.
async fn exchange(engine: &Engine, peers: &Peers, request: Request, target: &Target) -> Result<Response, NoAnswer> {
    let failed = |refusal| NoAnswer { refusal, is_unsent: false };
    let node = &target.node;
    let request = peers.sign(request, engine.scope(), node).await.map_err(failed)?;
    let signed = Instant::now();
    let answered = tokio::select! {
        // A node that cannot be reached has not seen the request, whatever else is known of it.
        biased;
        answered = peers.links().send(node, request) => answered,
        () = target.clone().gone(engine.clone(), peers.clone()) => {
            Forward::Lost.count(1);
            return Err(failed(target.lost()));
        }
    };
    let response = answered.map_err(|error| {
        tracing::warn!(node = node.name, %error, "a request could not be sent to another node");
        if error.may_be_sent {
            Forward::Lost.count(1);
            failed(target.lost())
        } else {
            Forward::Unreachable.count(1);
            NoAnswer { refusal: target.unreachable(), is_unsent: true }
        }
    })?;
    if response.status() == StatusCode::UNAUTHORIZED {
        Forward::Refused.count(1);
        let after = signed.elapsed();
        let problem = problem(response.map(Body::new)).await;
        tracing::warn!(node = node.name, reason = problem.detail, "another node refused a request");
        return Err(target.distrusted(after, &problem));
    }
    Forward::Answered.count(1);
    Ok(response.map(Body::new))
}

/// What a node says about its refusal.
async fn problem(response: Response) -> Problem {
    let status = response.status();
    let bytes = to_bytes(response.into_body(), MOST_READ).await.unwrap_or_default();
    let told = serde_json::from_slice(&bytes);
    told.unwrap_or_else(|_| Refusal::new(status, "unauthorized", "it does not say why").problem().clone())
}

/// The other node does not believe this one. Its own answer would tell the client to send a token, which it did.
fn not_trusted(node: &NodeEntry, reason: &str) -> Refusal {
    let detail = format!(
        "node '{}' does not trust this one, and nothing was run: {reason}. Set the same SHELLKEEP_CLUSTER_SECRET (or, without one, \
         the same SHELLKEEP_TOKEN) on all nodes, and keep their clocks within 30 s",
        node.name
    );
    Refusal::new(StatusCode::BAD_GATEWAY, "node_not_trusted", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_refuses_late_was_unreachable() {
        let node = NodeEntry { name: "n1".to_owned(), ..NodeEntry::default() };
        let refused = |session: Option<&str>, after: Duration, code: &str| {
            let session = session.map(|name| SessionId::parse(name).unwrap());
            let problem = Refusal::new(StatusCode::UNAUTHORIZED, code, "").problem().clone();
            Target { node: node.clone(), session }.distrusted(after, &problem)
        };
        let code = |session, after| refused(session, after, "node_not_trusted").refusal.problem().code.clone();
        assert_eq!(code(Some("s"), LEASE / 2), "node_not_trusted");
        assert_eq!(code(Some("s"), LEASE), "owner_unreachable");
        assert_eq!(code(None, LEASE), "node_unreachable");
        let restarted = refused(Some("s"), LEASE / 2, RESTARTED);
        assert_eq!((&*restarted.refusal.problem().code, restarted.is_unsent), ("owner_unreachable", true));
    }
}
