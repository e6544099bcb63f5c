//! One keep-alive connection to the daemon's socket, blocking and as plain as it can be: what a careful client costs,
//! not what a client library costs.

use crate::fallible::Fallible;
use crate::lanes::Lane;
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most answers here fit; a larger one takes more reads.
const READ_BYTES: usize = 64 << 10;
/// The gauge of what is not recorded yet.
const BEHIND: &str = "shellkeep_record_behind_bytes ";
/// The same for a history database.
const HISTORY_BEHIND: &str = "shellkeep_history_behind_bytes ";
/// How often it is looked at: more seldom than the store gathers what it writes.
const LOOK: Duration = Duration::from_millis(200);
/// What every result of a command that went well contains.
const WENT_WELL: &[u8] = b"\"exit_code\":0,";

/// A connection.
pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Where the body starts and where it ends, once the head is there.
    body: Option<(usize, usize)>,
}

impl Client {
    /// Connects.
    pub fn connect(socket: &Path) -> Fallible<Self> {
        let stream = UnixStream::connect(socket)?;
        // Nothing measured here takes this long; without it a bug would hang the benchmark.
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, buffer: vec![0; READ_BYTES], filled: 0, body: None })
    }

    /// Sends a request and waits for its answer's body.
    pub fn call(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.send(request)?;
        while !self.receive()? {}
        let (start, end) = self.body.unwrap_or_default();
        Ok(&self.buffer[start..end])
    }

    /// Makes a session and gives its id.
    pub fn create(&mut self) -> Fallible<String> {
        self.make(&serde_json::json!({}))
    }

    /// Makes a session of an agent and gives its id.
    pub fn create_for(&mut self, agent: &str) -> Fallible<String> {
        self.make(&serde_json::json!({ "agent": agent }))
    }

    fn make(&mut self, session: &serde_json::Value) -> Fallible<String> {
        let body = self.call(&post("/v1/sessions", &session.to_string()))?;
        let answer: serde_json::Value = serde_json::from_slice(body)?;
        let id = answer.get("session_id").and_then(serde_json::Value::as_str);
        id.map(str::to_owned).ok_or_else(|| format!("no session was made: {answer}").into())
    }

    /// Runs a command `count` times.
    pub fn times(&mut self, id: &str, command: &str, count: usize) -> Fallible<Vec<Duration>> {
        let request = run_request(id, command);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let body = self.call(&request)?;
            times.push(start.elapsed());
            check(body)?;
        }
        Ok(times)
    }

    /// Waits until everything is recorded, which goes on beside the commands otherwise. The gauge is moved when the
    /// recorder stops for a moment, so it must say so twice.
    pub fn settle(&mut self) -> Fallible<()> {
        self.settle_by(BEHIND)
    }

    /// Waits until a history database has everything too.
    pub fn settle_history(&mut self) -> Fallible<()> {
        self.settle()?;
        self.settle_by(HISTORY_BEHIND)
    }

    fn settle_by(&mut self, metric: &str) -> Fallible<()> {
        let mut said = 0;
        while said < 2 {
            let body = self.call(&get("/metrics"))?;
            let behind = std::str::from_utf8(body)?.lines().find_map(|line| line.strip_prefix(metric));
            let is_done = behind.is_none_or(|bytes| bytes.trim().parse() == Ok(0.0));
            said = if is_done { said + 1 } else { 0 };
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Reads what is there and checks the answer once it is whole.
    fn hear(&mut self, check: Check) -> io::Result<bool> {
        let whole = self.receive()?;
        if whole {
            let (start, end) = self.body.unwrap_or_default();
            check(&self.buffer[start..end])?;
        }
        Ok(whole)
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        (self.filled, self.body) = (0, None);
        self.stream.write_all(request)
    }

    /// Reads once; whether the answer is whole.
    fn receive(&mut self) -> io::Result<bool> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.filled * 2, 0);
        }
        let count = self.stream.read(&mut self.buffer[self.filled..])?;
        if count == 0 {
            return Err(io::Error::other("the daemon closed the connection"));
        }
        self.filled += count;
        if self.body.is_none() {
            self.body = find_body(&self.buffer[..self.filled])?;
        }
        Ok(self.body.is_some_and(|(_, end)| self.filled >= end))
    }
}

/// Whether a result says that the command went well.
pub fn check(body: &[u8]) -> io::Result<()> {
    if body.windows(WENT_WELL.len()).any(|part| part == WENT_WELL) {
        return Ok(());
    }
    let head = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
    Err(io::Error::other(format!("the command did not go well: {head}")))
}

/// A request that runs a command in a session.
pub fn run_request(id: &str, command: &str) -> Vec<u8> {
    post(&format!("/v1/sessions/{id}/run"), &serde_json::json!({ "command": command }).to_string())
}

/// A request that reads something.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// A request with a body in JSON.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    (head + body).into_bytes()
}

/// Where the body is, once the whole head is there.
fn find_body(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 2") {
        return Err(io::Error::other(format!("the daemon refused: {}", String::from_utf8_lossy(bytes))));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let length = length.ok_or_else(|| io::Error::other("an answer without a length"))?;
    Ok(Some((end + 4, end + 4 + length)))
}

/// A connection that runs the same command over and over.
pub struct HttpLane {
    client: Client,
    request: Vec<u8>,
}

impl HttpLane {
    /// A connection of its own for a session.
    pub fn connect(socket: &Path, id: &str) -> Fallible<Self> {
        Ok(Self { client: Client::connect(socket)?, request: run_request(id, "true") })
    }
}

impl Lane for HttpLane {
    fn watch(&self) -> BorrowedFd<'_> {
        self.client.stream.as_fd()
    }

    fn ask(&mut self) -> io::Result<bool> {
        self.client.send(&self.request).map(|()| true)
    }

    fn hear(&mut self) -> io::Result<bool> {
        self.client.hear(check)
    }
}

/// A connection that asks one thing after the other, until there is nothing more to ask.
pub struct Errands<F> {
    client: Client,
    next: F,
    check: Check,
}

/// Whether an answer is the one that was hoped for.
pub type Check = fn(&[u8]) -> io::Result<()>;

impl<F: FnMut() -> Option<Vec<u8>>> Errands<F> {
    /// A connection for the requests that `next` gives.
    pub fn connect(socket: &Path, check: Check, next: F) -> Fallible<Self> {
        Ok(Self { client: Client::connect(socket)?, next, check })
    }
}

impl<F: FnMut() -> Option<Vec<u8>> + Send> Lane for Errands<F> {
    fn watch(&self) -> BorrowedFd<'_> {
        self.client.stream.as_fd()
    }

    fn ask(&mut self) -> io::Result<bool> {
        match (self.next)() {
            Some(request) => self.client.send(&request).map(|()| true),
            None => Ok(false),
        }
    }

    fn hear(&mut self) -> io::Result<bool> {
        self.client.hear(self.check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_length_is_there() {
        assert_eq!(find_body(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap(), None);
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(find_body(whole).unwrap(), Some((whole.len() - 2, whole.len())));
        assert!(find_body(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
