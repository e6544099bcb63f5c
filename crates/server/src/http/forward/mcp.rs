//! MCP over HTTP among nodes. An MCP session is on the node that began it, and its id begins with that node's name, so that
//! every node knows where a request belongs. A new one begins on the node that has its caller's session. If that session has
//! moved since, the MCP session is unknown, and the client initialises again, as the protocol says.

use crate::mcp::{SESSION_ID, named_session, names_session, unknown_session};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use shellkeep_runtime::{ClusterOps, NodeEntry, OpError, Scope, Whereabouts};

/// The path of MCP over HTTP.
pub(super) const PATH: &str = "/mcp";

/// What becomes of a request.
pub(super) enum Spot {
    /// It is served here.
    Here,
    /// It is sent to another node.
    There(NodeEntry),
    /// Its MCP session is no more.
    Unknown,
}

/// Finds the node for a request.
pub(super) async fn locate(cluster: &ClusterOps<'_>, scope: &Scope, headers: &HeaderMap) -> Result<Spot, OpError> {
    // Where the MCP session is known, it is known which session requests mean that name none.
    let is_known_there = node_of(headers).is_some() && !names_session(headers);
    let session = match named_session(scope, headers).filter(|_| !is_known_there) {
        Some(id) => Some(cluster.locate_or_place(&id).await?),
        None => None,
    };
    match (node_of(headers), session) {
        (Some(node), session) if node == cluster.own().name => match session {
            Some(Whereabouts::There(_)) => Ok(Spot::Unknown),
            // One that requests do not name is looked for where the MCP session is known.
            Some(Whereabouts::Here) | None => Ok(Spot::Here),
        },
        (Some(node), _) => Ok(cluster.find(node).await?.map_or(Spot::Unknown, Spot::There)),
        (None, Some(Whereabouts::There(node))) => Ok(Spot::There(node)),
        (None, Some(Whereabouts::Here)) => Ok(Spot::Here),
        (None, None) => match cluster.place().await? {
            Whereabouts::Here => Ok(Spot::Here),
            Whereabouts::There(node) => Ok(Spot::There(node)),
        },
    }
}

/// The node in an MCP session's id.
fn node_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()?.rsplit_once('.').map(|(node, _)| node)
}

/// Takes the node's name from the id, which the server of MCP does not know.
pub(super) fn take_node(headers: &mut HeaderMap) {
    let own = headers.get(SESSION_ID).and_then(|id| id.to_str().ok()?.rsplit_once('.')).map(|(_, own)| own.to_owned());
    if let Some(own) = own.and_then(|own| HeaderValue::from_str(&own).ok()) {
        headers.insert(SESSION_ID, own);
    }
}

/// Puts the node's name into the id.
pub(super) fn put_node(response: &mut Response, node: &str) {
    let id = response.headers().get(SESSION_ID).and_then(|id| Some(format!("{node}.{}", id.to_str().ok()?)));
    if let Some(id) = id.and_then(|id| HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
}

/// The answer for an MCP session that is no more.
pub(super) fn unknown() -> Response {
    unknown_session()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn an_id_names_its_node() {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(SESSION_ID, HeaderValue::from_static("uuid"));
        put_node(&mut response, "n1.example");
        let mut headers = response.headers().clone();
        assert_eq!(node_of(&headers), Some("n1.example"));
        take_node(&mut headers);
        assert_eq!(headers[SESSION_ID], "uuid");
        assert_eq!(node_of(&headers), None);
        take_node(&mut headers);
        assert_eq!(headers[SESSION_ID], "uuid");
    }
}
