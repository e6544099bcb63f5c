//! Carries messages between an MCP client and the daemon, and outlives the daemon. When the connection is lost, calls
//! in flight are answered with what became of them, and the client's next request opens a new connection, on which the
//! client's handshake is repeated. Not before, and not for a notification: a daemon that a person stopped is not started
//! again for nothing.

use super::envelope::{Envelope, Reader};
use super::words::Asked;
use crate::client::pipe::{self, Pipe};
use crate::failure::Failure;
use crate::terminal;
use serde_json::Value;
use shellkeep_protocol::SESSION_META;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Bytes moved at once: a page of output with room for JSON.
const CHUNK: usize = 64 << 10;

/// Longest message of a handshake that can be repeated; they have a few hundred bytes. Also how much of a message is kept
/// before a connection is opened for it.
const LONGEST_HANDSHAKE: usize = 64 << 10;

/// A connection that was lost.
#[derive(Debug, Clone)]
pub struct Disconnected {
    /// When.
    pub at: Instant,
    /// The session that the client had, if the daemon named it.
    pub session: Option<String>,
}

/// What both directions know.
struct State {
    link: Option<Link>,
    /// How many connections there were.
    connections: u64,
    lost_at: Instant,
    /// Requests without an answer, by their id as JSON.
    pending: BTreeMap<String, Asked>,
    /// Whether the client's `initialize` was answered.
    has_greeted: bool,
    session: Option<String>,
    has_left: bool,
}

/// A connection to the daemon.
#[derive(Clone)]
struct Link {
    number: u64,
    to: Arc<File>,
}

/// What both directions share: the state, and where the end is told.
#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    over: Sender<Result<ExitCode, Failure>>,
}

/// The direction from the client to the daemon.
struct Upstream<O> {
    shared: Shared,
    open: O,
    /// The client's `initialize`.
    hello: Option<Vec<u8>>,
    /// The client's `notifications/initialized`.
    ready: Option<Vec<u8>>,
    line: Option<Line>,
}

/// A message of the client that is on its way.
struct Line {
    /// Where it goes, or why it goes nowhere. Nothing if there was no connection when it began, and it may need none.
    link: Option<Result<Link, String>>,
    envelope: Reader,
    /// Its beginning.
    head: Vec<u8>,
}

/// Carries messages until the client leaves. `open` opens a new connection in place of a lost one.
pub fn run(
    first: Pipe,
    open: impl FnMut(Disconnected) -> Result<Pipe, Failure> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let (over, ended) = mpsc::channel();
    let state = State {
        link: None,
        connections: 0,
        lost_at: Instant::now(),
        pending: BTreeMap::new(),
        has_greeted: false,
        session: None,
        has_left: false,
    };
    let shared = Shared { state: Arc::new(Mutex::new(state)), over };
    shared.begin(first.to, reader(first.early, first.from));
    // Not joined: it may wait forever for the client to write.
    std::thread::spawn(move || Upstream { shared, open, hello: None, ready: None, line: None }.carry());
    ended.recv().unwrap_or(Ok(ExitCode::SUCCESS))
}

impl Line {
    /// Keeps a part of it if it belongs to its beginning.
    fn keep(&mut self, piece: &[u8]) {
        self.head.extend_from_slice(&piece[..piece.len().min(LONGEST_HANDSHAKE + 1 - self.head.len())]);
    }
}

fn reader(early: Vec<u8>, from: File) -> impl BufRead + Send + 'static {
    BufReader::with_capacity(CHUNK, Cursor::new(early).chain(from))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> Option<Link> {
        self.state().link.clone()
    }

    fn end(&self, how: Result<ExitCode, Failure>) {
        // The program is already ending if nobody listens.
        let _ = self.over.send(how);
    }

    /// Uses a new connection.
    fn begin(&self, to: File, from: impl BufRead + Send + 'static) -> Link {
        let mut state = self.state();
        state.connections += 1;
        let link = Link { number: state.connections, to: Arc::new(to) };
        state.link = Some(link.clone());
        let shared = self.clone();
        std::thread::spawn(move || shared.carry_down(from));
        link
    }

    /// Carries whole messages from the daemon to the client, until either is gone.
    fn carry_down(&self, mut from: impl BufRead) {
        let mut line = Vec::new();
        loop {
            line.clear();
            line.shrink_to(CHUNK);
            let read = from.read_until(b'\n', &mut line);
            if read.is_err() || !line.ends_with(b"\n") {
                return self.lose();
            }
            self.settle(&line);
            if let Err(error) = tell(&line) {
                return self.end(client_gone(&error));
            }
        }
    }

    /// Notes that a request was answered.
    fn settle(&self, line: &[u8]) {
        let Envelope { id: Some(id), method: None, .. } = envelope(line) else { return };
        let mut state = self.state();
        if state.pending.remove(&id).is_some_and(|asked| asked.is_hello())
            && let Ok(session) = greeting(line)
        {
            (state.has_greeted, state.session) = (true, session);
        }
    }

    /// The daemon has closed the connection.
    fn lose(&self) {
        let (pending, has_left) = {
            let mut state = self.state();
            (state.link, state.lost_at) = (None, Instant::now());
            (std::mem::take(&mut state.pending), state.has_left)
        };
        if has_left {
            return self.end(Ok(ExitCode::SUCCESS));
        }
        terminal::notice("lost the connection to the daemon; the client's next request connects again");
        for (id, asked) in pending {
            self.refuse(&id, &asked.lost());
        }
    }

    /// Answers a request in place of the daemon.
    fn refuse(&self, id: &str, words: &str) {
        if let Err(error) = tell(super::words::refusal(id, words).as_bytes()) {
            self.end(client_gone(&error));
        }
    }
}

impl<O: FnMut(Disconnected) -> Result<Pipe, Failure>> Upstream<O> {
    fn carry(mut self) {
        let mut buffer = vec![0; CHUNK];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer[..count].split_inclusive(|byte| *byte == b'\n').for_each(|piece| self.pass(piece)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if self.line.is_some() {
            // Its last message ends where its input does.
            self.pass(b"\n");
        }
        self.leave();
    }

    /// The client closes first; then the daemon sends what is left and closes.
    fn leave(&self) {
        let mut state = self.shared.state();
        state.has_left = true;
        match &state.link {
            // Fails only if the daemon is gone, which the other direction detects too.
            Some(link) => drop(pipe::finish(&link.to)),
            None => self.shared.end(Ok(ExitCode::SUCCESS)),
        }
    }

    /// Passes on a part of a message, which ends with it or not.
    fn pass(&mut self, piece: &[u8]) {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => Line { link: self.shared.link().map(Ok), envelope: Reader::default(), head: Vec::new() },
        };
        if line.link.is_none() && line.head.len() + piece.len() > LONGEST_HANDSHAKE {
            line.link = Some(self.connect(&line.head));
        }
        line.envelope.read(piece);
        if piece.ends_with(b"\n") {
            return self.end_line(line, piece);
        }
        if let Some(link) = &line.link {
            write_to(link, piece);
        }
        line.keep(piece);
        self.line = Some(line);
    }

    /// Passes on the last part of a message. Only a request opens a connection: nobody waits for an answer to anything else.
    fn end_line(&mut self, mut line: Line, piece: &[u8]) {
        let envelope = std::mem::take(&mut line.envelope).finish();
        let is_request = envelope.id.is_some() && envelope.method.is_some();
        let link = match line.link.take() {
            None if is_request => Some(self.connect(&line.head)),
            link => link,
        };
        line.keep(piece);
        self.remember(&envelope, line.head);
        let Some(link) = link else { return };
        // Noted before its end is written, so that the answer cannot come first.
        match self.note(envelope, &link) {
            Ok(()) => write_to(&link, piece),
            Err(Unsent { id, answer }) => self.shared.refuse(&id, &answer),
        }
    }

    /// The connection for a message of which this much was read.
    fn connect(&mut self, head: &[u8]) -> Result<Link, String> {
        let link = self.link();
        write_to(&link, head);
        link
    }

    /// The connection, or a new one.
    fn link(&mut self) -> Result<Link, String> {
        let lost = {
            let state = self.shared.state();
            match &state.link {
                Some(link) => return Ok(link.clone()),
                None => Disconnected { at: state.lost_at, session: state.session.clone() },
            }
        };
        let Pipe { early, from, to } = (self.open)(lost).map_err(|failure| failure.to_string())?;
        let mut from = reader(early, from);
        self.greet(&to, &mut from)?;
        Ok(self.shared.begin(to, from))
    }

    /// Repeats the client's handshake. The daemon's part of it was said to the client before.
    fn greet(&self, mut to: &File, from: &mut impl BufRead) -> Result<(), String> {
        let (Some(hello), true) = (&self.hello, self.shared.state().has_greeted) else { return Ok(()) };
        let broken = |error: io::Error| format!("lost the connection to the daemon: {error}");
        let id = envelope(hello).id;
        to.write_all(hello).map_err(broken)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            from.read_until(b'\n', &mut line).map_err(broken)?;
            if !line.ends_with(b"\n") {
                return Err("the daemon closed the connection".to_owned());
            }
            let Envelope { id: answered, method, .. } = envelope(&line);
            if method.is_none() && answered == id {
                break;
            }
        }
        greeting(&line)?;
        to.write_all(self.ready.as_deref().unwrap_or_default()).map_err(broken)
    }

    /// Keeps the messages of the handshake.
    fn remember(&mut self, envelope: &Envelope, line: Vec<u8>) {
        if line.len() > LONGEST_HANDSHAKE {
            return;
        }
        match envelope.method.as_deref() {
            Some("initialize") => self.hello = Some(line),
            Some("notifications/initialized") => self.ready = Some(line),
            _ => {}
        }
    }

    /// Notes a request that waits for its answer, unless it does not reach the daemon.
    fn note(&self, message: Envelope, link: &Result<Link, String>) -> Result<(), Unsent> {
        let mut state = self.shared.state();
        if let Some(cancelled) = &message.cancels {
            state.pending.remove(cancelled);
        }
        let Some((id, asked)) = Asked::of(message) else { return Ok(()) };
        match link {
            Err(reason) => Err(Unsent { id, answer: Asked::unsent(reason) }),
            Ok(link) if state.link.as_ref().is_none_or(|now| now.number != link.number) => {
                Err(Unsent { id, answer: Asked::cut() })
            }
            Ok(_) => {
                state.pending.insert(id, asked);
                Ok(())
            }
        }
    }
}

/// A request that did not reach the daemon.
struct Unsent {
    id: String,
    answer: String,
}

fn envelope(line: &[u8]) -> Envelope {
    let mut reader = Reader::default();
    reader.read(line);
    reader.finish()
}

/// The session in the answer to `initialize`, or why there is none.
fn greeting(line: &[u8]) -> Result<Option<String>, String> {
    let answer: Value =
        serde_json::from_slice(line).map_err(|error| format!("the daemon's answer is broken: {error}"))?;
    match &answer["error"]["message"] {
        Value::String(refused) => Err(format!("the daemon refused the handshake: {refused}")),
        _ => Ok(answer["result"]["_meta"][SESSION_META].as_str().map(str::to_owned)),
    }
}

/// Fails only if the daemon is gone, which the other direction detects too.
fn write_to(link: &Result<Link, String>, bytes: &[u8]) {
    if let Ok(link) = link {
        let _ = (&*link.to).write_all(bytes);
    }
}

fn tell(line: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line)?;
    stdout.flush()
}

/// How the program ends when the client cannot be written to.
fn client_gone(error: &io::Error) -> Result<ExitCode, Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::client(format!("cannot write to the client: {error}"))),
    }
}
