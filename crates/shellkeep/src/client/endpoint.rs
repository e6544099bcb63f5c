//! Where a daemon listens, and connecting to it.

use crate::config::environment;
use crate::failure::Failure;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use shellkeep_runtime::identities::TOKEN_PREFIX;
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A Unix socket, and an agent's token if we have one; without one, any process that can open the socket is the host.
    Unix {
        /// The socket.
        path: PathBuf,
        /// The token.
        token: Option<String>,
    },
    /// An address, and the token it wants.
    Tcp {
        /// `host:port`
        authority: String,
        /// The token, if we have one.
        token: Option<String>,
    },
}

/// Sends requests over one connection.
pub type Connection = SendRequest<Full<Bytes>>;

impl Endpoint {
    /// Connects to a daemon that runs.
    pub async fn connect(&self) -> io::Result<Connection> {
        match self {
            Self::Unix { path, .. } => shake(UnixStream::connect(path).await?).await,
            Self::Tcp { authority, .. } => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                shake(stream).await
            }
        }
    }
}

async fn shake<S>(stream: S) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // It ends with its sender; an error shows up in the request that met it.
    tokio::spawn(connection);
    Ok(sender)
}

/// The agent's token of the environment, if it is one. Another one there is the host's, which the socket does not need.
pub fn agent_token() -> Option<String> {
    environment("SHELLKEEP_TOKEN").filter(|token| token.starts_with(TOKEN_PREFIX))
}

/// `flags` are those that led to the endpoint, to repeat them.
pub(super) fn unreachable(endpoint: &Endpoint, flags: &str, error: &io::Error) -> Failure {
    match endpoint {
        Endpoint::Unix { path, .. } => Failure::client(format!(
            "no daemon answers on {}: {error}; start one with `shellkeep serve{}`",
            path.display(),
            flags
        )),
        Endpoint::Tcp { authority, .. } => {
            Failure::client(format!("no daemon answers on http://{authority}: {error}; check the address"))
        }
    }
}
