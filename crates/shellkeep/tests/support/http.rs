//! A small blocking HTTP/1.1 client, so that the end-to-end tests see the bytes of the wire and not what a library makes
//! of them. One request, one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Longest silence of the daemon before a test gives up: longer than any promise, shorter than anybody's patience.
const SILENCE: Duration = Duration::from_secs(100);

/// Where a daemon listens.
#[derive(Debug, Clone)]
pub enum Door {
    Socket(PathBuf),
    Tcp(SocketAddr),
}

/// A request before it is sent.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An answer whose body is still coming.
pub struct LiveResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: BufReader<Body>,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    pub event: String,
    pub data: String,
    pub id: Option<String>,
}

/// A body with its framing taken off.
pub struct Body {
    stream: BufReader<Box<dyn Read + Send>>,
    framing: Framing,
}

enum Framing {
    Length { left: u64 },
    Chunked { left: u64, started: bool },
    UntilClose,
    Done,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A JSON body, as text, so that tests can send what is not JSON.
    pub fn json(self, text: impl Into<Vec<u8>>) -> Self {
        let mut request = self.header("content-type", "application/json");
        request.body = text.into();
        request
    }

    /// Sends it and reads the whole answer.
    pub fn send(&self, door: &Door) -> io::Result<Response> {
        let live = self.open(door)?;
        let mut body = Vec::new();
        let mut reader = live.body;
        reader.read_to_end(&mut body)?;
        Ok(Response { status: live.status, headers: live.headers, body })
    }

    /// Sends it and reads the head of the answer only.
    pub fn open(&self, door: &Door) -> io::Result<LiveResponse> {
        let (mut writer, reader) = connect(door)?;
        // A daemon that refuses a body may close before it has read all of it; its answer is still there to be read.
        let sent =
            writer.write_all(&self.head()).and_then(|()| writer.write_all(&self.body)).and_then(|()| writer.flush());
        let mut stream = BufReader::new(reader);
        match read_head(&mut stream) {
            Ok((status, headers)) => {
                let framing = framing(status, &headers);
                Ok(LiveResponse { status, headers, body: BufReader::new(Body { stream, framing }) })
            }
            Err(error) => Err(sent.err().unwrap_or(error)),
        }
    }

    /// Sends it and reads nothing of the answer. Dropping what this returns is hanging up.
    pub fn open_and_leave(&self, door: &Door) -> io::Result<impl Sized + use<>> {
        let (mut writer, reader) = connect(door)?;
        writer.write_all(&self.head())?;
        writer.write_all(&self.body)?;
        writer.flush()?;
        Ok((writer, reader))
    }

    fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        head.into_bytes()
    }
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("the answer ({}) is not JSON: {error}: {}", self.status, self.text());
        })
    }

    /// The status and the code of a problem.
    pub fn refused(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What [`Response::refused`] says of a problem with this status and code.
pub fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

impl LiveResponse {
    /// The next server-sent event; `None` at the end of the stream. Comments (keep-alive) are passed over.
    pub fn next_event(&mut self) -> Option<ServerEvent> {
        let (mut event, mut data, mut seen) = (String::from("message"), Vec::<String>::new(), false);
        let mut id = None;
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).expect("an event stream is readable to its end") == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                if seen {
                    return Some(ServerEvent { event, data: data.join("\n"), id });
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => id = Some(value.to_owned()),
                "event" => (event, seen) = (value.to_owned(), true),
                "data" => {
                    data.push(value.to_owned());
                    seen = true;
                }
                _ => {}
            }
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = match &mut self.framing {
            Framing::Done => return Ok(0),
            Framing::UntilClose => u64::MAX,
            Framing::Length { left } => *left,
            Framing::Chunked { left, started } => {
                if *left == 0 {
                    *left = next_chunk(&mut self.stream, *started)?;
                    *started = true;
                }
                *left
            }
        };
        if limit == 0 {
            self.framing = Framing::Done;
            return Ok(0);
        }
        let wanted = buffer.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buffer[..wanted])?;
        match &mut self.framing {
            Framing::Length { left } | Framing::Chunked { left, .. } if count == 0 && *left > 0 => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the daemon closed in the middle of a body"));
            }
            Framing::Length { left } | Framing::Chunked { left, .. } => *left -= count as u64,
            Framing::UntilClose | Framing::Done => {}
        }
        Ok(count)
    }
}

fn connect(door: &Door) -> io::Result<(Box<dyn Write>, Box<dyn Read + Send>)> {
    match door {
        Door::Socket(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SILENCE))?;
            Ok((Box::new(stream.try_clone()?), Box::new(stream)))
        }
        Door::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream.try_clone()?), Box::new(stream)))
        }
    }
}

fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad(&line))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(bad("the head of the answer ended early"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn framing(status: u16, headers: &[(String, String)]) -> Framing {
    let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    if status == 204 || status == 304 {
        return Framing::Done;
    }
    if find("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked { left: 0, started: false };
    }
    match find("content-length").and_then(|value| value.parse().ok()) {
        Some(left) => Framing::Length { left },
        None => Framing::UntilClose,
    }
}

/// The size of the next chunk; 0 is the end, with its trailer read.
fn next_chunk(stream: &mut impl BufRead, started: bool) -> io::Result<u64> {
    let mut line = String::new();
    if started {
        stream.read_line(&mut line)?;
        line.clear();
    }
    stream.read_line(&mut line)?;
    let digits = line.trim().split(';').next().unwrap_or_default();
    let size = u64::from_str_radix(digits, 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("bad chunk size {line:?}")))?;
    if size == 0 {
        while stream.read_line(&mut line)? > 2 {
            line.clear();
        }
    }
    Ok(size)
}
