//! Whether a service is what its maker calls ready. A log tells by itself when to look again; a port and a URL do not, so
//! they are looked at again and again, less and less often.

use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use regex::bytes::Regex;
use shellkeep_process::ports;
use shellkeep_process::proc::Stat;
use shellkeep_process::service::log::{LogWatch, ServiceLog};
use shellkeep_session::service::Ready;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The first wait between two looks at a port or URL, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How long a URL has to answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of log searched at a time; a line longer than this is searched in pieces.
const BLOCK: usize = 256 << 10;

/// Waits for a service to become ready.
pub(super) struct Probe {
    kind: Kind,
    next: Instant,
    wait: Duration,
    has_looked: bool,
}

enum Kind {
    Port(u16),
    Log { pattern: Regex, log: ServiceLog, watch: Option<LogWatch>, offset: u64 },
    Http { url: Url, answered: bool },
}

/// A URL on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    authority: String,
    path: String,
}

impl Url {
    /// Checks a caller's text: another machine must not be asked in the daemon's name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let uri: hyper::Uri = text.parse().map_err(|_| format!("'{text}' is no URL"))?;
        let host = uri.host().unwrap_or_default();
        if uri.scheme_str() != Some("http") || !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            return Err(format!("'{text}' is not on this machine; write it as http://127.0.0.1:PORT/PATH"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { authority: format!("{host}:{}", uri.port_u16().unwrap_or(80)), path })
    }

    async fn answers(&self) -> bool {
        let asking = async {
            let stream = TcpStream::connect(&self.authority).await.ok()?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
            let request = Request::get(&self.path).header(HOST, &self.authority).body(Empty::<Bytes>::new()).ok()?;
            tokio::select! {
                answer = sender.send_request(request) => Some(answer.ok()?.status().as_u16() < 400),
                _ = connection => None,
            }
        };
        matches!(tokio::time::timeout(HTTP_TIMEOUT, asking).await, Ok(Some(true)))
    }
}

/// The regular expression of a caller.
pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("'{text}' is no regular expression: {error}"))
}

impl Probe {
    /// What to look at. `offset` is where the log of this start begins. `None` if it was checked at the edge and is
    /// wrong nevertheless.
    pub(super) fn new(ready: &Ready, directory: &Path, offset: u64) -> Option<Self> {
        let kind = match ready {
            Ready::Port(port) => Kind::Port(*port),
            Ready::Log(text) => {
                let watch = LogWatch::new(directory).ok();
                Kind::Log { pattern: pattern(text).ok()?, log: ServiceLog::at(directory), watch, offset }
            }
            Ready::Http(text) => Kind::Http { url: Url::parse(text).ok()?, answered: false },
        };
        Some(Self { kind, next: Instant::now(), wait: WAITS.0, has_looked: false })
    }

    /// Waits until it is worth looking. May be dropped and called again.
    pub(super) async fn due(&mut self) {
        match &mut self.kind {
            Kind::Log { watch: Some(watch), .. } if self.has_looked => watch.changed().await,
            Kind::Http { url, answered } => {
                tokio::time::sleep_until(self.next).await;
                *answered = url.answers().await;
            }
            _ => tokio::time::sleep_until(self.next).await,
        }
    }

    /// Looks.
    pub(super) fn look(&mut self, members: &[Stat]) -> bool {
        let found = match &mut self.kind {
            Kind::Port(port) => {
                let pids: Vec<u32> = members.iter().map(|stat| stat.pid).collect();
                ports::listening(&pids).contains(port)
            }
            Kind::Log { pattern, log, offset, .. } => search(log, pattern, offset),
            Kind::Http { answered, .. } => *answered,
        };
        self.has_looked = true;
        self.next = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(WAITS.1);
        found
    }
}

/// Searches what was written since `offset`, line by line; an unfinished line is searched too, and again when it grew.
fn search(log: &ServiceLog, pattern: &Regex, offset: &mut u64) -> bool {
    loop {
        let Ok((start, bytes)) = log.read(*offset, BLOCK) else { return false };
        if bytes.is_empty() {
            return false;
        }
        if bytes.split(|&byte| byte == b'\n').any(|line| pattern.is_match(line)) {
            return true;
        }
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
        let is_block = bytes.len() == BLOCK;
        *offset = start + whole.unwrap_or(if is_block { bytes.len() } else { 0 }) as u64;
        if !is_block {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked() {
        let url = Url::parse("http://127.0.0.1:8080/health?x=1").unwrap();
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("127.0.0.1:8080", "/health?x=1"));
        assert_eq!(Url::parse("http://localhost").unwrap().authority, "localhost:80");
        for bad in ["https://127.0.0.1/", "http://example.com/", "http://127.0.0.1.example.com/", "nonsense", "", "/x"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
