//! Whether a service is ready. A log notifies of new output; a port and a URL do not, so they are polled with growing
//! intervals. Searching a log and looking at processes take a thread in their agent's turn, followed by a pause; a URL is
//! requested only where nobody but the service itself gets the connection.

use super::forward::Door;
use crate::ops::OpError;
use crate::tasks;
use crate::work::Work;
use shellkeep_process::ports::{self, Network};
use shellkeep_process::service::log::{LogWatch, ServiceLog};
use shellkeep_record::{Budget, Pattern};
use shellkeep_session::service::Ready;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
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
/// own service and costs others little. The pause after a look at processes is the same.
const SEARCH: (Duration, u32) = (Duration::from_millis(500), 3);

/// Waits for a service to become ready.
pub(super) struct Probe {
    of: Probed,
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

/// The service that is to become ready.
#[derive(Clone)]
pub(super) struct Probed {
    pub(super) work: Arc<Work>,
    pub(super) agent: Option<Arc<str>>,
    pub(super) directory: PathBuf,
    pub(super) members: Members,
    /// The way into its room, if it has a network of its own.
    pub(super) door: Option<Arc<Door>>,
}

/// Lists the processes of a service, which may take long.
pub(super) type Members = Arc<dyn Fn() -> Vec<u32> + Send + Sync>;

struct LogProbe {
    pattern: Pattern,
    log: ServiceLog,
    watch: LogWatch,
    offset: u64,
    /// Whether there may be more to search than was searched.
    is_behind: bool,
}

/// The result of a check.
struct Looked {
    found: bool,
    /// How far a log was searched.
    searched: Option<Searched>,
    /// How long it kept a thread.
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

    /// Where it may be answered.
    fn addresses(&self) -> Vec<SocketAddr> {
        let all = [(LOCAL[1], IpAddr::V4(Ipv4Addr::LOCALHOST)), (LOCAL[2], IpAddr::V6(Ipv6Addr::LOCALHOST))];
        let is_meant = |host: &str| self.authority.starts_with(host) || self.authority.starts_with(LOCAL[0]);
        let meant = all.into_iter().filter(|(host, _)| is_meant(host));
        meant.map(|(_, ip)| SocketAddr::new(ip, self.port)).collect()
    }

    async fn answers(&self, connecting: impl Future<Output = io::Result<TcpStream>>) -> bool {
        let asking = async {
            let mut stream = connecting.await.ok()?;
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
    pub(super) fn new(of: Probed, ready: &Ready, offset: u64) -> Option<Self> {
        let kind = match ready {
            Ready::Port(port) => Kind::Port(*port),
            Ready::Log(text) => Kind::Log(Box::new(LogProbe {
                pattern: pattern(text).ok()?,
                log: ServiceLog::at(&of.directory),
                watch: LogWatch::new(&of.directory),
                offset,
                is_behind: false,
            })),
            Ready::Http(text) => Kind::Http(Url::parse(text).ok()?),
        };
        Some(Self { of, kind, next: Instant::now(), wait: WAITS.0, has_looked: false, look: None, found: false })
    }

    /// Waits until the next check is due, or until one has found what it looked for. Cancel-safe.
    pub(super) async fn due(&mut self) {
        if let Some(look) = &mut self.look {
            let looked = look.await;
            self.look = None;
            self.take(looked.unwrap_or(Looked { found: false, searched: None, took: Duration::ZERO }));
            if self.found {
                return;
            }
        }
        tokio::time::sleep_until(self.next).await;
        if let Kind::Log(log) = &mut self.kind
            && self.has_looked
            && !self.found
            && !log.is_behind
        {
            log.watch.changed().await;
        }
    }

    fn take(&mut self, looked: Looked) {
        self.found = looked.found;
        if let (Kind::Log(log), Some(Searched { offset, is_all })) = (&mut self.kind, looked.searched) {
            (log.offset, log.is_behind) = (offset, !is_all);
        }
        self.next = self.next.max(Instant::now() + looked.took * SEARCH.1);
    }

    /// Starts a check, unless one is in progress; true when the service is ready.
    pub(super) fn look(&mut self) -> bool {
        if self.found || self.look.is_some() {
            return self.found;
        }
        self.has_looked = true;
        self.next = Instant::now();
        self.look = Some(match &self.kind {
            // New output triggers the next check.
            Kind::Log(log) => tasks::spawn(self.of.search(log)),
            Kind::Port(port) => tasks::spawn(self.of.clone().listens(*port)),
            Kind::Http(url) => tasks::spawn(self.of.clone().answers(url.clone())),
        });
        if !matches!(self.kind, Kind::Log(_)) {
            self.next += self.wait;
            self.wait = (self.wait * 2).min(WAITS.1);
        }
        false
    }

    /// Whether it was ready before it ended: its log may have the line although nobody has looked since.
    pub(super) async fn was_ready(&mut self) -> bool {
        if let Some(look) = &mut self.look {
            let looked = look.await;
            self.look = None;
            looked.into_iter().for_each(|looked| self.take(looked));
        }
        match &self.kind {
            Kind::Log(log) if !self.found => self.of.search(log).await.found,
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

impl Probed {
    /// Searches what was written since the last check, in a thread and in the agent's turn.
    fn search(&self, log: &LogProbe) -> impl Future<Output = Looked> + Send + 'static {
        let (work, agent) = (Arc::clone(&self.work), self.agent.clone());
        let (log, pattern, offset) = (log.log.clone(), log.pattern.clone(), log.offset);
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

    async fn listens(self, port: u16) -> Looked {
        let (found, took) = self.look(move |pids| ports::listens(pids, port)).await;
        Looked { found: found == Some(true), searched: None, took }
    }

    /// Whether a URL answers. It is asked only where nobody but the service gets the connection: the daemon must not send
    /// requests of a session to other programs, which may take them for the host's. In a room with a network of its own that
    /// is where its port is forwarded to, whatever the URL calls this machine.
    async fn answers(self, url: Url) -> Looked {
        let (network, addresses) = match &self.door {
            Some(door) => (Network::Theirs, vec![door.address()]),
            None => (Network::Ours, url.addresses()),
        };
        let (found, took) = self.look(move |pids| ports::answered(pids, network, &addresses)).await;
        let found = match (found.flatten(), &self.door) {
            (None, _) => false,
            (Some(_), Some(door)) => url.answers(door.connect()).await,
            (Some(address), None) => url.answers(TcpStream::connect(address)).await,
        };
        Looked { found, searched: None, took }
    }

    /// Looks at the service's processes in a thread and in the agent's turn: they may have very many descriptors. Gives also how
    /// long that took.
    async fn look<T: Send + 'static>(&self, find: impl FnOnce(&[u32]) -> T + Send + 'static) -> (Option<T>, Duration) {
        let members = Arc::clone(&self.members);
        let looking = move || {
            let began = std::time::Instant::now();
            let found = find(&members());
            (found, began.elapsed())
        };
        match self.work.look(self.agent.as_deref(), looking).await {
            Ok((found, took)) => (Some(found), took),
            Err(_) => (None, SEARCH.0),
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
        let [four, six] = ["127.0.0.1:80", "[::1]:80"].map(|address| address.parse::<SocketAddr>().unwrap());
        assert_eq!(bare.addresses(), [four, six]);
        assert_eq!(Url::parse("http://127.0.0.1").unwrap().addresses(), [four]);
        assert_eq!(Url::parse("http://[::1]/x").unwrap().addresses(), [six]);
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

    /// The descriptors of a service's processes were looked at on a thread that all sessions share: with very many of them, the
    /// whole daemon stood still for seconds.
    #[tokio::test]
    async fn a_look_at_processes_holds_nobody_up() {
        let (let_go, waits) = std::sync::mpsc::channel::<()>();
        let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let waits = std::sync::Mutex::new(waits);
        let members: Members = Arc::new(move || {
            let _ = begins.send(());
            let _ = waits.lock().unwrap().recv();
            Vec::new()
        });
        let work = Arc::new(Work::new(Arc::default()));
        let of = Probed { work, agent: None, directory: PathBuf::new(), members, door: None };
        let mut probe = Probe::new(of, &Ready::Port(1), 0).unwrap();
        assert!(!probe.look());
        // The only thread of this runtime goes on while the look does not.
        begun.recv().await.unwrap();
        assert!(!probe.look() && begun.try_recv().is_err(), "one at a time");
        let_go.send(()).unwrap();
        probe.due().await;
        assert!(!probe.look());
        begun.recv().await.unwrap();
        drop(let_go);
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
