//! Whether a service is ready. A log notifies of new output; a port and a URL do not, so they are polled with growing
//! intervals. Searching a log takes a thread in its agent's turn, followed by a pause; a URL is requested only if the
//! service itself listens on its port.

use crate::ops::OpError;
use crate::tasks;
use crate::work::Work;
use shellkeep_process::ports;
use shellkeep_process::proc::Stat;
use shellkeep_process::service::log::{LogWatch, ServiceLog};
use shellkeep_record::{Budget, Pattern};
use shellkeep_session::service::Ready;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The first and the longest interval between two checks of a port or URL.
const WAITS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How long a URL has to answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of log searched at a time; a line longer than this is searched in pieces.
const BLOCK: usize = 256 << 10;

/// How long a log is searched at a time, and how many times as long the pause afterwards is: a slow pattern delays its
/// own service and costs others little.
const SEARCH: (Duration, u32) = (Duration::from_millis(500), 3);

/// Waits for a service to become ready.
pub(super) struct Probe {
    kind: Kind,
    next: Instant,
    wait: Duration,
    has_looked: bool,
    /// A check in progress.
    look: Option<JoinHandle<Looked>>,
    found: bool,
}

enum Kind {
    Port(u16),
    Log(Box<LogProbe>),
    Http(Url),
}

struct LogProbe {
    work: Arc<Work>,
    agent: Option<Arc<str>>,
    pattern: Pattern,
    log: ServiceLog,
    watch: Option<LogWatch>,
    offset: u64,
    /// Whether there may be more to search than was searched.
    is_behind: bool,
}

/// The result of a check.
struct Looked {
    found: bool,
    /// How far a log was searched.
    searched: Option<Searched>,
    /// How long it took.
    took: Duration,
}

/// How far a log was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Searched {
    offset: u64,
    /// Whether that was all of it.
    is_all: bool,
}

/// A URL on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    authority: String,
    port: u16,
    path: String,
}

impl Url {
    /// Parses a caller's URL: the daemon must not send requests to other machines.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not on this machine; write it as http://127.0.0.1:PORT/PATH");
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| format!("'{text}' does not begin with http://; write it as http://127.0.0.1:PORT/PATH"))?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("'{text}' contains a space or a control character; percent-encode it, as in %20"));
        }
        let host =
            LOCAL.into_iter().find(|host| authority.strip_prefix(host).is_some_and(is_port)).ok_or_else(wrong)?;
        let port = authority[host.len()..].strip_prefix(':').unwrap_or("80").parse::<u16>().map_err(|_| wrong())?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { authority: format!("{host}:{port}"), port, path: format!("{slash}{path}") })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    async fn answers(&self) -> bool {
        let asking = async {
            let mut stream = TcpStream::connect(&self.authority).await.ok()?;
            let Self { authority, path, .. } = self;
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
/// The part of a response with its status.
const STATUS_LINE: &[u8] = b"HTTP/1.1 200";

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
}

fn status(line: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(line).ok()?;
    text.strip_prefix("HTTP/1.")?.split_once(' ')?.1.parse().ok()
}

/// The regular expression of a caller.
pub(crate) fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::standing(text).map_err(|error| format!("the pattern for the log is {error}"))
}

impl Probe {
    /// What to look at. `offset` is where the log of this start begins. `None` if the condition is invalid although it
    /// was checked before.
    pub(super) fn new(
        work: &Arc<Work>,
        agent: Option<Arc<str>>,
        ready: &Ready,
        directory: &Path,
        offset: u64,
    ) -> Option<Self> {
        let kind = match ready {
            Ready::Port(port) => Kind::Port(*port),
            Ready::Log(text) => Kind::Log(Box::new(LogProbe {
                work: Arc::clone(work),
                agent,
                pattern: pattern(text).ok()?,
                log: ServiceLog::at(directory),
                watch: LogWatch::new(directory).ok(),
                offset,
                is_behind: false,
            })),
            Ready::Http(text) => Kind::Http(Url::parse(text).ok()?),
        };
        Some(Self { kind, next: Instant::now(), wait: WAITS.0, has_looked: false, look: None, found: false })
    }

    /// Waits until the next check is due, or until a check has ended. Cancel-safe.
    pub(super) async fn due(&mut self) {
        if let Some(look) = &mut self.look {
            let looked = look.await;
            self.look = None;
            self.take(looked.unwrap_or(Looked { found: false, searched: None, took: Duration::ZERO }));
            return;
        }
        tokio::time::sleep_until(self.next).await;
        if let Kind::Log(log) = &mut self.kind
            && let Some(watch) = &mut log.watch
            && self.has_looked
            && !self.found
            && !log.is_behind
        {
            watch.changed().await;
        }
    }

    fn take(&mut self, looked: Looked) {
        self.found = looked.found;
        if let (Kind::Log(log), Some(Searched { offset, is_all })) = (&mut self.kind, looked.searched) {
            (log.offset, log.is_behind) = (offset, !is_all);
            let pause = if log.watch.is_none() { WAITS.1 } else { looked.took * SEARCH.1 };
            self.next = Instant::now() + pause;
        }
    }

    /// Checks, or starts a longer check; true when the service is ready.
    pub(super) fn look(&mut self, members: &[Stat]) -> bool {
        if self.found || self.look.is_some() {
            return self.found;
        }
        let listens = |port: u16| {
            let pids: Vec<u32> = members.iter().map(|stat| stat.pid).collect();
            ports::listening(&pids).contains(&port)
        };
        self.has_looked = true;
        match &mut self.kind {
            Kind::Port(port) => self.found = listens(*port),
            Kind::Log(log) => {
                self.look = Some(tasks::spawn(log.search()));
                // New output triggers the next check.
                self.next = Instant::now();
                return false;
            }
            // Not if another program listens there: the daemon must not send requests to it.
            Kind::Http(url) if listens(url.port) => {
                let url = url.clone();
                self.look = Some(tasks::spawn(async move {
                    Looked { found: url.answers().await, searched: None, took: Duration::ZERO }
                }));
            }
            Kind::Http(_) => {}
        }
        self.next = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(WAITS.1);
        self.found
    }

    /// Whether it was ready before it ended: its log may have the line although nobody has looked since.
    pub(super) async fn was_ready(&mut self) -> bool {
        if let Some(look) = &mut self.look {
            let looked = look.await;
            self.look = None;
            looked.into_iter().for_each(|looked| self.take(looked));
        }
        match &self.kind {
            Kind::Log(log) if !self.found => log.search().await.found,
            _ => self.found,
        }
    }

    /// It is ready, but that could not be recorded now: it is due again after the longest interval.
    pub(super) fn look_later(&mut self) {
        self.next = Instant::now() + WAITS.1;
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(look) = &self.look {
            look.abort();
        }
    }
}

impl LogProbe {
    /// Searches what was written since the last check, in a thread and in the agent's turn.
    fn search(&self) -> impl Future<Output = Looked> + Send + 'static {
        let (work, agent) = (Arc::clone(&self.work), self.agent.clone());
        let (log, pattern, offset) = (self.log.clone(), self.pattern.clone(), self.offset);
        async move {
            let searching = move |budget: &Budget| {
                let began = std::time::Instant::now();
                let (found, searched) = search(&log, &pattern, offset, budget);
                Looked { found, searched: Some(searched), took: began.elapsed() }
            };
            let looked: Result<Looked, OpError> = work.short(agent.as_deref(), Some(SEARCH.0), searching).await;
            // Too many searches of this agent are waiting: try later.
            let searched = Some(Searched { offset, is_all: false });
            looked.unwrap_or(Looked { found: false, searched, took: SEARCH.0 })
        }
    }
}

/// Searches what was written since `offset`, line by line; an incomplete line is searched too, and again when it grew.
/// Returns whether it was found.
fn search(log: &ServiceLog, pattern: &Pattern, mut offset: u64, budget: &Budget) -> (bool, Searched) {
    let all = |offset: u64| Searched { offset, is_all: true };
    loop {
        let Ok((start, bytes)) = log.read(offset, BLOCK) else { return (false, all(offset)) };
        if bytes.is_empty() {
            return (false, all(offset));
        }
        offset = start;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let ends = line.last() == Some(&b'\n');
            match pattern.is_in(line.strip_suffix(b"\n").unwrap_or(line), budget) {
                Ok(true) => return (true, all(offset)),
                Ok(false) if !ends && bytes.len() < BLOCK => return (false, all(offset)),
                // An unfinished line at the end of a block is read again with its rest, unless it is all there is.
                Ok(false) if !ends && line.len() < bytes.len() => break,
                _ => offset += line.len() as u64,
            }
            if budget.is_spent() {
                return (false, Searched { offset, is_all: false });
            }
        }
        if bytes.len() < BLOCK {
            return (false, all(offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked() {
        let url = Url::parse("http://127.0.0.1:8080/health?x=1").unwrap();
        assert_eq!((url.authority.as_str(), url.port, url.path.as_str()), ("127.0.0.1:8080", 8080, "/health?x=1"));
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
