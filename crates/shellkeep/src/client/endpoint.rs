//! Where a daemon listens, and connecting to it.

use crate::config::environment;
use crate::failure::Failure;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use shellkeep_runtime::identities::TOKEN_PREFIX;
use shellkeep_server::BindError;
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A Unix socket, and an agent's token if we have one; without one, any process that can open the socket is the host.
    Unix { path: PathBuf, token: Option<String> },
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

/// Why a daemon cannot be reached, and what helps. `flags` are those that led to the endpoint, to repeat them.
pub(super) fn unreachable(endpoint: &Endpoint, flags: &str, error: &io::Error) -> Failure {
    Failure::client(match endpoint {
        Endpoint::Unix { path, .. } => no_socket(path, flags, error),
        Endpoint::Tcp { authority, .. } => {
            let reason = format!("no daemon answers on http://{authority}: {error}");
            match error.kind() {
                io::ErrorKind::ConnectionRefused => format!("{reason}; start it on that machine, or check the address"),
                _ => format!("{reason}; check the address"),
            }
        }
    })
}

fn no_socket(path: &Path, flags: &str, error: &io::Error) -> String {
    let place = path.display();
    let file = path.ancestors().skip(1).find(|above| above.exists() && !above.is_dir());
    match (error.kind(), file) {
        // The only thing that can be wrong with the path before the system is asked.
        (io::ErrorKind::InvalidInput, _) => BindError::SocketPathTooLong { path: path.to_owned() }.to_string(),
        (_, Some(file)) => {
            format!(
                "{} is not a directory, so no daemon can be there; choose another with --data or --socket",
                file.display()
            )
        }
        (io::ErrorKind::PermissionDenied, _) => format!(
            "you may not use the daemon on {place}: {error}; run this as its user, use its TCP address and a token (--url, \
             SHELLKEEP_TOKEN), or choose a data directory of your own with --data"
        ),
        (io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused, None) => {
            format!("no daemon answers on {place}: {error}; start one with `shellkeep serve{flags}`")
        }
        _ => format!("no daemon answers on {place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them ended in the advice to start a daemon, with flags that `serve` does not have or in vain.
    #[test]
    fn the_advice_fits_what_is_wrong() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let told = |path: PathBuf, kind: io::ErrorKind| {
            unreachable(&Endpoint::Unix { path, token: None }, " --data d", &kind.into()).to_string()
        };
        let long = home.path().join("x".repeat(200));
        for (path, kind, advice) in [
            (home.path().join("s"), io::ErrorKind::NotFound, "start one with `shellkeep serve --data d`"),
            (home.path().join("s"), io::ErrorKind::PermissionDenied, "run this as its user"),
            (long, io::ErrorKind::InvalidInput, "too long for the system; choose a --socket of at most"),
            (file.join("s"), io::ErrorKind::NotADirectory, "is not a directory, so no daemon can be there"),
        ] {
            let told = told(path, kind);
            assert!(told.contains(advice), "{kind}: {told}");
            assert_eq!(told.contains("`shellkeep serve"), kind == io::ErrorKind::NotFound, "{told}");
        }
        let remote = Endpoint::Tcp { authority: "far:1".to_owned(), token: None };
        let told = unreachable(&remote, " --url http://far:1", &io::ErrorKind::ConnectionRefused.into()).to_string();
        assert!(told.ends_with("start it on that machine, or check the address"), "{told}");
    }
}
