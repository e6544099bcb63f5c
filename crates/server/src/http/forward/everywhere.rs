//! Requests that every node serves its part of: this node sends them to all others too, and adds up what they answer.

use super::sending::{Nodes, Target, send};
use crate::detached::detached;
use crate::http::door::json;
use crate::peers::{FORWARDED, Peers, is_short, whole};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use shellkeep_protocol::AgentEnded;
use shellkeep_runtime::{Engine, NodeEntry};
use std::error::Error;
use tokio::task::JoinSet;

/// Most bytes of a node's answer.
const MOST_READ: usize = 64 << 10;

/// Whether a request ends an agent, which may have sessions and services on every node.
pub(super) fn ends_agent(method: &Method, path: &str) -> bool {
    let agent = path.strip_prefix("/v1/agents/").and_then(|rest| rest.strip_suffix("/end"));
    method == Method::POST && agent.is_some_and(|agent| !agent.contains('/'))
}

/// Ends an agent on all nodes; here only if another node asks.
pub(super) async fn end_agent(nodes: Nodes<'_>, request: Request, next: Next) -> Response {
    let is_sent_on = request.headers().contains_key(FORWARDED);
    // What this node refuses is not sent to others.
    if is_sent_on || nodes.engine.node().check_host().is_err() || !is_short(request.body()) {
        return next.run(request).await;
    }
    let others = nodes.others().await;
    let (parts, body) = request.into_parts();
    let bytes = match whole(body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal.into_response(),
    };
    let copy = || Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let mut asked = JoinSet::new();
    for node in others {
        let (engine, peers, request) = (nodes.engine.clone(), nodes.peers.clone(), copy());
        asked.spawn(async move {
            let name = node.name.clone();
            let answer = ask(&engine, &peers, node, request).await;
            let answer =
                answer.inspect_err(|error| tracing::warn!(node = name, %error, "an agent was not ended there"));
            (name, answer.ok())
        });
    }
    let (own, others) = tokio::join!(next.run(copy()), detached(asked.join_all()));
    match others {
        Ok(others) if !others.is_empty() && own.status() == StatusCode::OK => added_up(own, others).await,
        Ok(_) => own,
        Err(refusal) => refusal.into_response(),
    }
}

/// Sends the request to a node, once: it may have begun with it even if it does not answer.
async fn ask(
    engine: &Engine,
    peers: &Peers,
    node: NodeEntry,
    request: Request,
) -> Result<AgentEnded, Box<dyn Error + Send + Sync>> {
    let answer = send(engine, peers, request, Target { node, session: None }).await;
    let answer = answer.map_err(|none| none.refusal.problem().detail.clone())?;
    let status = answer.status();
    let bytes = to_bytes(answer.into_body(), MOST_READ).await?;
    match status {
        StatusCode::OK => Ok(serde_json::from_slice(&bytes)?),
        _ => Err(format!("it answered {status}: {}", String::from_utf8_lossy(&bytes)).into()),
    }
}

/// This node's answer with what the others did.
async fn added_up(own: Response, others: Vec<(String, Option<AgentEnded>)>) -> Response {
    let (parts, body) = own.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let Ok(mut all) = serde_json::from_slice::<AgentEnded>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    for (name, ended) in others {
        match ended {
            Some(ended) => {
                all.sessions += ended.sessions;
                all.services += ended.services;
            }
            None => all.missing_nodes.push(name),
        }
    }
    all.missing_nodes.sort_unstable();
    json(StatusCode::OK, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_an_agent_is_for_all_nodes() {
        assert!(ends_agent(&Method::POST, "/v1/agents/ann/end"));
        assert!(ends_agent(&Method::POST, "/v1/agents/a%3Ab/end"));
        assert!(!ends_agent(&Method::GET, "/v1/agents/ann/end"));
        for path in ["/v1/agents/end", "/v1/agents/a/b/end", "/v1/agents/ann", "/v1/sessions/ann/end"] {
            assert!(!ends_agent(&Method::POST, path), "{path}");
        }
    }

    #[tokio::test]
    async fn what_the_nodes_did_is_added_up_and_the_silent_are_named() {
        let ended =
            |sessions, services| AgentEnded { agent: "ann".to_owned(), sessions, services, missing_nodes: Vec::new() };
        let own = json(StatusCode::OK, &ended(1, 2));
        let others = [("n4", None), ("n2", Some(ended(3, 4))), ("n3", None)];
        let all = added_up(own, others.map(|(name, part)| (name.to_owned(), part)).into()).await;
        let all: AgentEnded = serde_json::from_slice(&to_bytes(all.into_body(), MOST_READ).await.unwrap()).unwrap();
        let missing_nodes = vec!["n3".to_owned(), "n4".to_owned()];
        assert_eq!(all, AgentEnded { missing_nodes, ..ended(4, 6) });
    }
}
