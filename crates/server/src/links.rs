//! Connections to the other nodes. One that has given its whole answer is kept for a while: a new one for each request costs more
//! than most requests.

use crate::sync::lock;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, Uri, Version, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use shellkeep_runtime::{LEASE, NodeEntry};
use socket2::{SockRef, TcpKeepalive};
use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tower_service::Service;

/// How long another node may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// How long a connection is kept without a request. Well below the time after which the other node closes it, also one that had
/// no request yet: a request that meets its end counts as lost.
const IDLE: Duration = Duration::from_secs(5);
/// How long the other machine may take to confirm what it was sent. Without a limit, a request on a connection that the network
/// has forgotten waits for a quarter of an hour.
const UNCONFIRMED: Duration = LEASE;
/// After this time without a byte, the other machine is asked whether it still has the connection.
const QUIET: Duration = LEASE;
/// How often it is asked then.
const ASK_AGAIN: Duration = Duration::from_secs(1);
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

impl Failed {
    /// Whether nothing came from the node's machine: neither an answer, nor that it refuses or has closed the connection.
    pub(crate) fn is_silence(&self) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&*self.source);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                let kind = error.kind();
                return matches!(
                    kind,
                    ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
                );
            }
            cause = error.source();
        }
        false
    }
}

/// Connections to the other nodes.
pub(crate) struct Links {
    client: Client<Dial, Body>,
    /// When each node last answered.
    heard: Mutex<HashMap<String, Instant>>,
}

impl Links {
    pub(crate) fn new() -> Self {
        let mut links = Client::builder(TokioExecutor::new());
        links.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(MOST_IDLE);
        Self { client: links.build(Dial), heard: Mutex::default() }
    }

    /// When a node last answered a request of this one.
    pub(crate) fn heard(&self, node: &str) -> Option<Instant> {
        lock(&self.heard).get(node).copied()
    }

    /// Sends a request to a node. A connection that ended before anything was sent is replaced.
    pub(crate) async fn send(&self, node: &NodeEntry, mut request: Request) -> Result<Response<Incoming>, Failed> {
        address(&mut request, &node.url).map_err(|source| Failed { source, may_be_sent: false })?;
        let answered = self.client.request(request).await;
        let answer = answered.map_err(|error| Failed { may_be_sent: !error.is_connect(), source: error.into() })?;
        let mut heard = lock(&self.heard);
        match heard.get_mut(&node.name) {
            Some(at) => *at = Instant::now(),
            None => drop(heard.insert(node.name.clone(), Instant::now())),
        }
        Ok(answer)
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
            let connected = tokio::time::timeout(CONNECT_WAIT, connected).await;
            let stream = connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
            stream.set_nodelay(true)?;
            let options = SockRef::from(&stream);
            options.set_tcp_keepalive(&TcpKeepalive::new().with_time(QUIET).with_interval(ASK_AGAIN))?;
            options.set_tcp_user_timeout(Some(UNCONFIRMED))?;
            Ok(TokioIo::new(stream))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_ends_when_the_network_has_forgotten_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = Dial.call(url).await.unwrap().into_inner();
        let options = SockRef::from(&stream);
        assert!(options.keepalive().unwrap());
        assert_eq!(options.tcp_keepalive_time().unwrap(), QUIET);
        assert_eq!(options.tcp_user_timeout().unwrap(), Some(UNCONFIRMED));
    }

    #[tokio::test]
    async fn a_refusal_is_not_silence() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let node = NodeEntry { url, ..NodeEntry::default() };
        let failed = Links::new().send(&node, Request::new(Body::empty())).await.unwrap_err();
        assert!(!failed.is_silence() && !failed.may_be_sent, "{failed}");
        let late = io::Error::from(ErrorKind::TimedOut);
        assert!(Failed { source: late.into(), may_be_sent: true }.is_silence());
    }
}
