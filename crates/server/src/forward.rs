//! Requests about a session that another node has: they are sent there, and the answer is streamed back. A redirect would not
//! do: clients drop their token on the way to another port, and those of a socket cannot follow at all.

use crate::auth::Scoped;
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use shellkeep_runtime::{ClusterError, ClusterNode, ClusterOps, OpError, Scope, Whereabouts};
use shellkeep_session::SessionId;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Names the node that sent a request on. Such a request is not sent on again: two nodes that disagree would send it to and
/// fro.
const FORWARDED: HeaderName = HeaderName::from_static("shellkeep-forwarded");

/// Names the node that answered.
const NODE: HeaderName = HeaderName::from_static("shellkeep-node");

/// How long another node may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// How often a node that does not answer is looked for among those that are alive.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What this node shows to others when the host asks without a token. The nodes of a cluster have the same host token.
#[derive(Clone)]
pub struct HostToken(Arc<str>);

impl HostToken {
    /// From the secret.
    pub fn new(secret: &str) -> Self {
        Self(secret.into())
    }

    fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl std::fmt::Debug for HostToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostToken(…)")
    }
}

/// Serves a request here, or sends it to the node that has its session.
pub(crate) async fn pass_on(State(token): State<HostToken>, request: Request, next: Next) -> Response {
    let Some(Scoped(engine)) = request.extensions().get::<Scoped>().cloned() else { return next.run(request).await };
    let node = engine.node();
    let (Some(cluster), Some(id)) = (node.cluster(), session_of(request.uri().path())) else {
        return next.run(request).await;
    };
    match cluster.locate(&id).await {
        Ok(Whereabouts::Here) => next.run(request).await,
        Ok(Whereabouts::There(there)) => {
            let unreachable = || unreachable(&id, &there);
            if request.headers().contains_key(FORWARDED) {
                return unreachable().into_response();
            }
            let token = matches!(engine.scope(), Scope::Host).then_some(token);
            let sent = tokio::select! {
                sent = send(&there, request, token) => sent,
                () = gone(&cluster, &id, &there) => Err("it no longer says that it is alive".into()),
            };
            match sent {
                Ok(response) => response,
                Err(error) => {
                    tracing::warn!(node = there.name, %error, "a request could not be sent to another node");
                    unreachable().into_response()
                }
            }
        }
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// Returns when a node no longer has a session: it may have stopped with the request before it.
async fn gone(cluster: &ClusterOps<'_>, id: &SessionId, node: &ClusterNode) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match cluster.locate(id).await {
            Ok(Whereabouts::There(there)) if there.name == node.name => {}
            _ => return,
        }
    }
}

fn unreachable(id: &SessionId, node: &ClusterNode) -> Refusal {
    let error = ClusterError::OwnerUnreachable { session_id: id.to_string(), node: node.name.clone() };
    OpError::from(error).into()
}

/// The session that a path is about.
fn session_of(path: &str) -> Option<SessionId> {
    let rest = path.strip_prefix("/v1/sessions/")?;
    SessionId::parse(rest.split('/').next()?).ok()
}

/// Sends a request to another node. The answer is not gathered: its bytes come as the node sends them.
async fn send(
    node: &ClusterNode,
    mut request: Request,
    token: Option<HostToken>,
) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let url: Uri = node.url.parse()?;
    let authority = url.authority().ok_or("its URL has no host")?;
    let address = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80));
    let stream = tokio::time::timeout(CONNECT_WAIT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or with the client that no longer reads it.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to another node ended");
        }
    });
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = path.parse()?;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
    headers.remove(header::CONNECTION);
    headers.remove(header::ORIGIN);
    if let Some(value) = token.as_ref().and_then(HostToken::header) {
        headers.insert(header::AUTHORIZATION, value);
    }
    let mut response = sender.send_request(request).await?.map(Body::new);
    response.headers_mut().remove(header::CONNECTION);
    response.headers_mut().insert(NODE, HeaderValue::from_str(&node.name)?);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_session() {
        let of = |path: &str| session_of(path).map(|id| id.to_string());
        assert_eq!(of("/v1/sessions/demo/run").as_deref(), Some("demo"));
        assert_eq!(of("/v1/sessions/a:b").as_deref(), Some("a:b"));
        for path in ["/v1/sessions", "/v1/sessions/", "/v1/sessions/.x/run", "/v1/services", "/mcp"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
