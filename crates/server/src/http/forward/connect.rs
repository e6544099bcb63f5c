//! A connection to another node.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Uri, header};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use shellkeep_runtime::ClusterNode;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long another node may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

/// Why a node could not be asked.
pub(super) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Connects to another node, and makes a request one for it.
pub(super) async fn connect(node: &ClusterNode, request: &mut Request) -> Result<SendRequest<Body>, Failed> {
    let url: Uri = node.url.parse()?;
    let authority = url.authority().ok_or("its URL has no host")?;
    let address = (authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80));
    let stream = tokio::time::timeout(CONNECT_WAIT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
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
    headers.remove(header::CONNECTION);
    headers.remove(header::ORIGIN);
    Ok(sender)
}
