//! Anchors: signed heads written periodically to a place that cannot be changed with access to the data directory
//! alone. One thread delivers them; recordings never wait for it, and a failed delivery is retried with the next one.

use crate::lock::hold;
use shellkeep_record::SignedHead;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timeout for each step of an HTTP request. Stopping the daemon waits for it once.
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of a response is read: its first line has the status.
const ANSWER_BYTES: usize = 64;

/// How many sessions' heads may wait. An unreachable place must not fill the memory; others follow with the session's
/// next head.
const MOST_WAITING: usize = 100_000;

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// Where signed heads go, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorOptions {
    pub place: AnchorPlace,
    /// How often, if there is anything new.
    pub interval: Duration,
}

/// Where signed heads go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnchorPlace {
    /// A line for each head is appended to a file.
    File(PathBuf),
    /// They are posted as JSON. Host with port, and path.
    Http {
        /// `host` or `host:port`.
        host: String,
        path: String,
    },
    /// The daemon's log.
    Log,
}

impl AnchorPlace {
    /// Reads `log`, `http://HOST[:PORT]/PATH`, or the path of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "log" {
            return Ok(Self::Log);
        }
        if let Some(rest) = text.strip_prefix("http://") {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
            if host.is_empty() || host.contains('@') || !is_plain(host) || !is_plain(path) {
                return Err(format!("'{text}' is not a URL of the form http://HOST[:PORT]/PATH"));
            }
            let path = if path.is_empty() { "/" } else { path };
            return Ok(Self::Http { host: host.to_owned(), path: path.to_owned() });
        }
        match text {
            "" => Err("it must not be empty; use a path, http://HOST/PATH or log".to_owned()),
            text if text.contains("://") => {
                Err(format!("'{text}' is not supported: use http://, with a relay on this machine if necessary"))
            }
            path => Ok(Self::File(PathBuf::from(path))),
        }
    }
}

#[derive(Default)]
struct Waiting {
    heads: BTreeMap<String, SignedHead>,
    is_closing: bool,
}

type Shared = Arc<(Mutex<Waiting>, Condvar)>;

/// The thread that delivers heads.
pub(crate) struct Anchor {
    shared: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Anchor {
    /// Starts it.
    pub(crate) fn start(options: &AnchorOptions) -> io::Result<Self> {
        let shared = Shared::default();
        let (theirs, options) = (Arc::clone(&shared), options.clone());
        let thread = std::thread::Builder::new().name("anchor".to_owned()).spawn(move || run(&theirs, &options))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes over heads; the newest of a session is enough.
    pub(crate) fn take(&self, heads: Vec<SignedHead>) {
        let mut waiting = hold(&self.shared.0);
        for head in heads {
            if waiting.heads.len() < MOST_WAITING || waiting.heads.contains_key(&head.session_id) {
                waiting.heads.insert(head.session_id.clone(), head);
            }
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        hold(&self.shared.0).is_closing = true;
        self.shared.1.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that anchors heads panicked");
        }
    }
}

fn run((waiting, closed): &(Mutex<Waiting>, Condvar), options: &AnchorOptions) {
    let mut due = Instant::now() + options.interval;
    loop {
        let mut held = hold(waiting);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if held.is_closing || left.is_zero() {
                break;
            }
            held = closed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_closing = held.is_closing;
        let heads = std::mem::take(&mut held.heads);
        drop(held);
        due = Instant::now() + options.interval;
        if let Err(error) = deliver(&options.place, &heads) {
            metrics::counter!("shellkeep_record_anchor_failures_total").increment(1);
            tracing::warn!(%error, heads = heads.len(), "cannot anchor heads; they are sent with the next ones");
            let mut held = hold(waiting);
            for (session_id, head) in heads {
                held.heads.entry(session_id).or_insert(head);
            }
        } else if !heads.is_empty() {
            metrics::counter!("shellkeep_record_anchored_total").increment(heads.len() as u64);
        }
        if is_closing {
            return;
        }
    }
}

fn deliver(place: &AnchorPlace, heads: &BTreeMap<String, SignedHead>) -> io::Result<()> {
    if heads.is_empty() {
        return Ok(());
    }
    match place {
        AnchorPlace::Log => {
            for head in heads.values() {
                let json = serde_json::to_string(head)?;
                tracing::info!(target: "shellkeep_anchor", head = %json, "anchored");
            }
            Ok(())
        }
        AnchorPlace::File(path) => append(path, heads),
        AnchorPlace::Http { host, path } => post(host, path, heads),
    }
}

fn append(path: &Path, heads: &BTreeMap<String, SignedHead>) -> io::Result<()> {
    let mut bytes = Vec::new();
    for head in heads.values() {
        serde_json::to_writer(&mut bytes, head)?;
        bytes.push(b'\n');
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(&bytes)?;
    file.sync_data()
}

/// One request in plain HTTP/1.1, to this machine or through a relay. The signatures authenticate it.
fn post(host: &str, path: &str, heads: &BTreeMap<String, SignedHead>) -> io::Result<()> {
    let body = serde_json::to_vec(&serde_json::json!({ "heads": heads.values().collect::<Vec<_>>() }))?;
    let address = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        host.to_owned()
    } else {
        format!("{host}:{HTTP_PORT}")
    };
    let address =
        address.to_socket_addrs()?.next().ok_or_else(|| io::Error::other(format!("{host} has no address")))?;
    let mut stream = TcpStream::connect_timeout(&address, HTTP_TIMEOUT)?;
    stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
    stream.set_write_timeout(Some(HTTP_TIMEOUT))?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES as u64).read_to_end(&mut answer)?;
    let status = String::from_utf8_lossy(&answer);
    let status = status.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the hook answered '{status}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_log_a_url_or_a_path() {
        let http = |host: &str, path: &str| AnchorPlace::Http { host: host.to_owned(), path: path.to_owned() };
        assert_eq!(AnchorPlace::parse("log"), Ok(AnchorPlace::Log));
        assert_eq!(AnchorPlace::parse("http://127.0.0.1:9/x?y"), Ok(http("127.0.0.1:9", "/x?y")));
        assert_eq!(AnchorPlace::parse("http://h"), Ok(http("h", "/")));
        assert_eq!(AnchorPlace::parse("/a/b"), Ok(AnchorPlace::File("/a/b".into())));
        for wrong in ["", "https://h/x", "http:///x", "http://a b/", "http://u@h/"] {
            assert!(AnchorPlace::parse(wrong).is_err(), "{wrong}");
        }
    }
}
