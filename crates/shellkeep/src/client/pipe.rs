//! A connection that was upgraded to a plain pipe of bytes.

use super::hints::Asked;
use super::{Client, ClientError, Endpoint, broken, whole};
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustix::net::Shutdown;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Both directions of a pipe to the daemon, for blocking use: two copying threads are the fastest way to relay bytes.
pub struct Pipe {
    /// What the daemon sent together with its response to the upgrade.
    pub early: Vec<u8>,
    /// What the daemon sends.
    pub from: File,
    /// What the daemon gets.
    pub to: File,
}

impl Pipe {
    fn new(early: &Bytes, socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        let to = File::from(socket.try_clone()?);
        Ok(Self { early: early.to_vec(), from: File::from(socket), to })
    }
}

/// Closes the sending direction, and leaves the other one open.
pub fn finish(to: &File) -> io::Result<()> {
    Ok(rustix::net::shutdown(to, Shutdown::Write)?)
}

impl Client {
    /// Opens a pipe of the protocol `protocol` to the daemon that this client talks to.
    pub async fn pipe(&self, target: &str, protocol: &str) -> Result<Pipe, ClientError> {
        match &self.endpoint {
            Endpoint::Unix { path, .. } => {
                let upgraded = self.upgrade(UnixStream::connect(path).await.map_err(broken)?, target, protocol).await?;
                let parts = upgraded.downcast::<TokioIo<UnixStream>>().map_err(|_| broken("it was something else"))?;
                let socket = parts.io.into_inner().into_std().map_err(broken)?;
                Pipe::new(&parts.read_buf, socket.into()).map_err(broken)
            }
            Endpoint::Tcp { authority, .. } => {
                let stream = TcpStream::connect(authority).await.map_err(broken)?;
                stream.set_nodelay(true).map_err(broken)?;
                let upgraded = self.upgrade(stream, target, protocol).await?;
                let parts = upgraded.downcast::<TokioIo<TcpStream>>().map_err(|_| broken("it was something else"))?;
                let socket = parts.io.into_inner().into_std().map_err(broken)?;
                Pipe::new(&parts.read_buf, socket.into()).map_err(broken)
            }
        }
    }

    async fn upgrade<S>(&self, stream: S, target: &str, protocol: &str) -> Result<Upgraded, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection.with_upgrades());
        let (host, token) = match &self.endpoint {
            Endpoint::Unix { token, .. } => ("localhost", token),
            Endpoint::Tcp { authority, token } => (authority.as_str(), token),
        };
        let mut request = Request::builder().uri(target).header(HOST, host);
        request = request.header(CONNECTION, "upgrade").header(UPGRADE, protocol);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(broken)?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        if status == hyper::StatusCode::SWITCHING_PROTOCOLS {
            return hyper::upgrade::on(response).await.map_err(broken);
        }
        Err(match serde_json::from_slice(&whole(response).await?) {
            Ok(problem) => ClientError::Refused(Box::new(Asked::new(self.flags(), target).refused(problem, None))),
            Err(_) => {
                ClientError::Broken(format!("the daemon answered {status}; is it the same version as this client?"))
            }
        })
    }
}
