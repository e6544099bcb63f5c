//! TLS to PostgreSQL, by rustls: what a URL asks for, and the stream.

use crate::trust::{Checked, client_config};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

/// What a URL says about TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Whether there is TLS at all.
    pub mode: SslMode,
    checked: Checked,
    /// The file with the certificates that are trusted instead of the system's.
    trusted: Option<String>,
}

/// Takes what is about TLS out of a URL. Without it there is none.
pub fn take_from(url: &str) -> Result<(String, Asked), String> {
    let mut asked = Asked { mode: SslMode::Disable, checked: Checked::Nothing, trusted: None };
    let Some((place, query)) = url.split_once('?') else { return Ok((url.to_owned(), asked)) };
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", mode)) => {
                (asked.mode, asked.checked) = match mode {
                    "disable" => (SslMode::Disable, Checked::Nothing),
                    "prefer" => (SslMode::Prefer, Checked::Nothing),
                    "require" => (SslMode::Require, Checked::Nothing),
                    "verify-ca" => (SslMode::Require, Checked::Signer),
                    "verify-full" => (SslMode::Require, Checked::Host),
                    _ => {
                        let all = "disable, prefer, require, verify-ca or verify-full";
                        return Err(format!("sslmode is '{mode}' and may be {all}"));
                    }
                };
            }
            Some(("sslrootcert", file)) => asked.trusted = Some(file.to_owned()),
            _ => others.push(pair),
        }
    }
    if asked.trusted.is_some() && asked.checked == Checked::Nothing {
        // With a root certificate, libpq's `require` is `verify-ca`.
        if asked.mode != SslMode::Require {
            return Err("sslrootcert is not used without sslmode=require, verify-ca or verify-full".to_owned());
        }
        asked.checked = Checked::Signer;
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((format!("{place}{query}"), asked))
}

/// Makes connections with TLS.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl Tls {
    /// As a URL asks for it.
    pub fn new(asked: &Asked) -> Result<Self, String> {
        client_config(asked.checked, asked.trusted.as_deref()).map(|config| Self(TlsConnector::from(Arc::new(config))))
    }
}

/// A connection that is about to be made.
pub struct Connecting {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection with TLS.
pub struct Stream<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Connecting;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connecting, InvalidDnsNameError> {
        Ok(Connecting { connector: self.0.clone(), name: ServerName::try_from(host.to_owned())? })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connecting {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let Self { connector, name } = self;
        Box::pin(async move { connector.connect(name, stream).await.map(Stream) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_tls_is_taken_out_of_a_url() {
        let taken = |query: &str| take_from(&format!("postgres://u@h/d{query}")).unwrap();
        assert_eq!(taken("").1.mode, SslMode::Disable);
        let (url, asked) = taken("?sslmode=verify-full&connect_timeout=3&sslrootcert=/ca.pem");
        assert_eq!(url, "postgres://u@h/d?connect_timeout=3");
        let trusted = Some("/ca.pem".to_owned());
        assert_eq!(asked, Asked { mode: SslMode::Require, checked: Checked::Host, trusted });
        assert_eq!(taken("?sslmode=verify-ca").1.checked, Checked::Signer);
        let (url, asked) = taken("?sslmode=require");
        assert_eq!((url.as_str(), asked.mode, asked.checked), ("postgres://u@h/d", SslMode::Require, Checked::Nothing));
        assert_eq!(taken("?sslmode=require&sslrootcert=/ca.pem").1.checked, Checked::Signer, "as to libpq");
        for wrong in ["?sslmode=on", "?sslmode=allow", "?sslmode=prefer&sslrootcert=/ca.pem", "?sslrootcert=/ca.pem"] {
            take_from(&format!("postgres://u@h/d{wrong}")).unwrap_err();
        }
    }
}
