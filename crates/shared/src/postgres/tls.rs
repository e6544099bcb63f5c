//! TLS to PostgreSQL, by rustls: what a URL asks for, and the stream.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

/// What of a server's certificate is checked: the values of `sslmode` that PostgreSQL's own clients have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// Nothing: nobody can listen, but another server can answer.
    Nothing,
    /// That somebody whom this node trusts has signed it.
    Signer,
    /// That, and that it is for the host of the URL.
    Host,
}

/// What a URL says about TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) mode: SslMode,
    checked: Checked,
    /// The file with the certificates that are trusted instead of the system's.
    trusted: Option<String>,
}

/// Takes what is about TLS out of a URL. Without it there is none.
pub(super) fn take_from(url: &str) -> Result<(String, Asked), String> {
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
        return Err("sslrootcert is not used without sslmode=verify-ca or verify-full".to_owned());
    }
    let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((format!("{place}{query}"), asked))
}

/// Makes connections with TLS.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    pub(super) fn new(asked: &Asked) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match asked.checked {
            Checked::Nothing => Arc::new(Unchecked(Arc::clone(&provider))),
            checked => {
                let roots = Arc::new(roots(asked.trusted.as_deref())?);
                let full = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                let full = full.map_err(|error| error.to_string())?;
                if checked == Checked::Host { full } else { Arc::new(SignerOnly(full)) }
            }
        };
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.dangerous().with_custom_certificate_verifier(verifier);
        Ok(Self(TlsConnector::from(Arc::new(config.with_no_client_auth()))))
    }
}

/// The certificates that are trusted: those in a file, or the system's, which `SSL_CERT_FILE` replaces.
fn roots(file: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = match file {
        Some(file) => {
            let wrong = |error: rustls::pki_types::pem::Error| format!("sslrootcert '{file}': {error}");
            let read = CertificateDer::pem_file_iter(file).map_err(wrong)?;
            read.collect::<Result<Vec<_>, _>>().map_err(wrong)?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(format!("there is no certificate in {}", file.unwrap_or("the system's store")));
    }
    Ok(roots)
}

/// Checks who signed a certificate, and not for which host it is.
#[derive(Debug)]
struct SignerOnly(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for SignerOnly {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Takes every certificate of which the server has the key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection that is about to be made.
pub(super) struct Connecting {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection with TLS.
pub(super) struct Stream<S>(client::TlsStream<S>);

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
        for wrong in ["?sslmode=on", "?sslmode=require&sslrootcert=/ca.pem", "?sslrootcert=/ca.pem"] {
            take_from(&format!("postgres://u@h/d{wrong}")).unwrap_err();
        }
    }
}
