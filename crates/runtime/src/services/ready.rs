//! Whether a service is what its maker calls ready. A log tells by itself when to look again; a port and a URL do not, so
//! they are looked at again and again, less and less often.

use regex::bytes::Regex;
use shellkeep_process::ports;
use shellkeep_process::proc::Stat;
use shellkeep_process::service::log::{LogWatch, ServiceLog};
use shellkeep_session::service::Ready;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
        let wrong = || format!("'{text}' is not on this machine; write it as http://127.0.0.1:PORT/PATH");
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("'{text}' has a space or a control character; write it as %20 or the like"));
        }
        let host =
            LOCAL.into_iter().find(|host| authority.strip_prefix(host).is_some_and(is_port)).ok_or_else(wrong)?;
        let port = authority[host.len()..].strip_prefix(':').unwrap_or("80");
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { authority: format!("{host}:{port}"), path: format!("{slash}{path}") })
    }

    async fn answers(&self) -> bool {
        let asking = async {
            let mut stream = TcpStream::connect(&self.authority).await.ok()?;
            let Self { authority, path } = self;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.ok()?;
            let mut line = [0; STATUS_LINE.len()];
            stream.read_exact(&mut line).await.ok()?;
            status(&line)
        };
        matches!(tokio::time::timeout(HTTP_TIMEOUT, asking).await, Ok(Some(100..400)))
    }
}

/// The names of this machine that a URL may have.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// As much of an answer as tells its status.
const STATUS_LINE: &[u8] = b"HTTP/1.1 200";

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
}

fn status(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("HTTP/1.")?.split_once(' ')?.1.parse().ok()
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
        let bare = Url::parse("http://localhost").unwrap();
        assert_eq!((bare.authority.as_str(), bare.path.as_str()), ("localhost:80", "/"));
        assert_eq!(Url::parse("http://[::1]:9?x#y").unwrap().path, "/?x");
        for bad in [
            "https://127.0.0.1/",
            "http://example.com/",
            "http://127.0.0.1.example.com/",
            "http://127.0.0.1@example.com/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/a\r\nX: y",
            "nonsense",
            "",
            "/x",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_status_is_read_from_the_first_bytes() {
        assert_eq!(status(b"HTTP/1.1 204"), Some(204));
        assert_eq!(status(b"HTTP/1.0 503"), Some(503));
        for bad in [&b"HTTP/2 200 x"[..], b"SSH-2.0-Open", b"HTTP/1.1 abc", b"\xff\xff"] {
            assert_eq!(status(bad), None);
        }
    }
}
