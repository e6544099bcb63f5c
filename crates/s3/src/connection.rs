//! A connection to the store, with TLS or without.

use crate::body::Part;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use shellkeep_tls::trust::{Checked, client_config};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::Url;

/// How long the store may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Connects to one store.
pub(crate) struct Connector {
    host: String,
    port: u16,
    /// None for `http://`.
    tls: Option<TlsConnector>,
}

impl Connector {
    /// For the store at this URL. The certificate must be for its host, and signed by one that the system trusts.
    pub(crate) fn to(url: &Url) -> Result<Self, String> {
        let host = url.host_str().ok_or("its URL has no host")?.trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().ok_or("its URL has no port")?;
        let tls = match url.scheme() {
            "https" => Some(TlsConnector::from(Arc::new(client_config(Checked::Host, None)?))),
            _ => None,
        };
        Ok(Self { host, port, tls })
    }

    pub(crate) async fn connect(&self) -> io::Result<SendRequest<Part>> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s");
        tokio::time::timeout(CONNECT_WAIT, self.open()).await.map_err(late)?
    }

    async fn open(&self) -> io::Result<SendRequest<Part>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => begin(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                begin(tls.connect(name, stream).await?).await
            }
        }
    }
}

async fn begin(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> io::Result<SendRequest<Part>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the store of objects ended");
        }
    });
    Ok(sender)
}
