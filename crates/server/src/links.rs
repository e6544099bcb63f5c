//! Connections to the other nodes. One that has given its whole answer is kept for a while: a new one for each request costs more
//! than most requests.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, Uri, Version, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use shellkeep_runtime::ClusterNode;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

/// How long another node may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// How long a connection is kept without a request. Well below the time after which the other node closes it, also one that had
/// no request yet: a request that meets its end counts as lost.
const IDLE: Duration = Duration::from_secs(5);
/// Connections kept for each node.
const MOST_IDLE: usize = 16;

/// Why a node did not answer.
#[derive(Debug)]
pub(crate) struct Failed {
    source: Box<dyn Error + Send + Sync>,
    /// Whether the request may have been sent, so that the node may have begun with it.
    pub(crate) may_be_sent: bool,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for Failed {}

/// Connections to the other nodes.
#[derive(Clone)]
pub(crate) struct Links(Client<Dial, Body>);

impl Links {
    pub(crate) fn new() -> Self {
        let mut links = Client::builder(TokioExecutor::new());
        links.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(MOST_IDLE);
        Self(links.build(Dial))
    }

    /// Sends a request to a node. A connection that ended before anything was sent is replaced.
    pub(crate) async fn send(&self, node: &ClusterNode, mut request: Request) -> Result<Response<Incoming>, Failed> {
        address(&mut request, &node.url).map_err(|source| Failed { source, may_be_sent: false })?;
        let answered = self.0.request(request).await;
        answered.map_err(|error| Failed { may_be_sent: !error.is_connect(), source: error.into() })
    }
}

/// Makes a request one for the node with this URL.
fn address(request: &mut Request, url: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let url: Uri = url.parse()?;
    let authority = url.authority().ok_or("its URL has no host")?.as_str();
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::builder().scheme("http").authority(authority).path_and_query(path).build()?;
    // The end of an answer to an older version is the end of the connection, which a node that dies looks like.
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_str(authority)?);
    headers.remove(header::CONNECTION);
    headers.remove(header::ORIGIN);
    Ok(())
}

/// Connects to a node, the resolution of its name included, in [`CONNECT_WAIT`].
#[derive(Clone, Copy)]
struct Dial;

impl Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        Box::pin(async move {
            let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
            let connected = TcpStream::connect((host, url.port_u16().unwrap_or(80)));
            let stream = tokio::time::timeout(CONNECT_WAIT, connected).await??;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
