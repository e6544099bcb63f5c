//! A run as server-sent events: `started`, then `stdout`, `stderr` as they arrive, `result` at the end, `error` on
//! failure. Regular comments keep proxies from closing a silent stream. A service's log ([`mod@log`]), a session's
//! recording ([`mod@events`]), an agent's work ([`mod@resume`]) and a pause of writes ([`mod@hold`]) are streamed the
//! same way.

mod events;
mod hold;
mod log;
mod resume;
mod write;

use crate::frames;
use crate::http::problem::problem;
use crate::refusal::Refusal;
use crate::translate;
use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use shellkeep_protocol::{OutputEvent, StartedEvent};
use shellkeep_runtime::{
    Attached, Engine, EventStream, Hold, Lent, LogStream, OpError, ResumeStream, RunChunk, RunStream, Share, tasks,
};
use shellkeep_session::SessionId;
use std::time::Duration;
use tokio::sync::mpsc;
use write::event;
pub(super) use write::whole;

/// The type of an event stream.
pub const CONTENT_TYPE: &str = "text/event-stream";
/// How often a silent stream sends a comment. Proxies close it after 30 to 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pieces waiting to be written. The next one is read only when this one has been sent, so that a client that does not
/// read costs little memory.
const BACKLOG: usize = 1;
/// A piece larger than this counts as its reader's memory until it is written.
const LARGE: usize = 256 << 10;

/// The right to one more stream.
pub struct StreamPermit {
    engine: Engine,
    _share: Share,
}

/// Takes the right to one more stream, before anything is started.
pub fn permit(engine: &Engine) -> Result<StreamPermit, OpError> {
    Ok(StreamPermit { engine: engine.clone(), _share: engine.lend(Lent::Followers, 1)? })
}

/// A run as a stream.
pub fn run(permit: StreamPermit, stream: RunStream, attached: Option<Attached>) -> Response {
    let run = Run { stream, encoder: Encoder::default(), is_told: false, _attached: attached };
    response(permit, Source::Run(run))
}

/// A log as a stream.
pub fn log(permit: StreamPermit, stream: LogStream, session: SessionId, service: String) -> Response {
    let (encoder, phase, engine) = (log::Encoder::default(), log::Phase::Following, permit.engine.clone());
    response(permit, Source::Log(log::Follow { stream, engine, session, service, encoder, phase }))
}

/// A recording as a stream.
pub fn events(permit: StreamPermit, most: Option<usize>, stream: EventStream) -> Response {
    response(permit, Source::Events(events::Follow { stream, over: false, left: most }))
}

/// The pause of the daemon's writes as a stream.
pub fn hold(permit: StreamPermit, hold: Hold) -> Response {
    response(permit, Source::Hold(hold::Held { hold, told: 0 }))
}

/// An agent's work on a message as a stream.
pub fn resume(permit: StreamPermit, stream: ResumeStream) -> Response {
    response(permit, Source::Resume(resume::Watch(stream)))
}

/// What a stream ends with if it failed.
pub fn error_event(refusal: &Refusal) -> Vec<u8> {
    let mut events = Vec::new();
    event(&mut events, "error", &problem(refusal));
    events
}

fn response(permit: StreamPermit, source: Source) -> Response {
    let (sender, mut receiver) = mpsc::channel(BACKLOG);
    tasks::spawn(pump(permit, source, sender));
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
    let next = |piece: Option<Bytes>| piece.map(|bytes| Ok(Frame::data(bytes)));
    (headers, frames::body(move |context| receiver.poll_recv(context).map(next))).into_response()
}

/// Moves events to the reader until either ends. The source does not end with its reader.
async fn pump(permit: StreamPermit, mut source: Source, sender: mpsc::Sender<Bytes>) {
    let mut alive = tokio::time::interval(KEEP_ALIVE);
    alive.reset();
    loop {
        // Nothing is read before there is room for it.
        let Ok(room) = sender.reserve().await else { return };
        let events = tokio::select! {
            biased;
            () = sender.closed() => return,
            events = source.next() => match events {
                Some(events) => events,
                None => return,
            },
            _ = alive.tick() => b": alive\n\n".to_vec(),
        };
        alive.reset();
        if events.is_empty() {
            continue;
        }
        match counted(&permit.engine, events) {
            Ok(piece) => room.send(piece),
            Err(error) => {
                room.send(error_event(&Refusal::from(error)).into());
                return;
            }
        }
    }
}

/// A piece as it is written. A large one is counted until then.
fn counted(engine: &Engine, events: Vec<u8>) -> Result<Bytes, OpError> {
    if events.len() <= LARGE {
        return Ok(events.into());
    }
    let share = engine.lend(Lent::BodyBytes, events.len() as u64)?;
    Ok(held(events, share))
}

/// Bytes that count as their reader's memory until written.
pub fn held(bytes: Vec<u8>, share: Share) -> Bytes {
    Bytes::from_owner(Counted { events: bytes, _share: share })
}

struct Counted {
    events: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.events
    }
}

/// Where the events of a stream come from. One type, so that what sends them is compiled once.
enum Source {
    Run(Run),
    Log(log::Follow),
    Events(events::Follow),
    Hold(hold::Held),
    Resume(resume::Watch),
}

impl Source {
    /// The next encoded events, possibly empty; `None` at the end. Cancel-safe.
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Run(run) => run.next().await,
            Self::Log(log) => log.next().await,
            Self::Events(events) => events.next().await,
            Self::Hold(hold) => hold.next().await,
            Self::Resume(work) => work.next().await,
        }
    }
}

/// A run that is watched.
struct Run {
    stream: RunStream,
    encoder: Encoder,
    /// Whether `started` was sent.
    is_told: bool,
    /// Dropped with the reader, which ends a command that was to end with its caller.
    _attached: Option<Attached>,
}

impl Run {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if !std::mem::replace(&mut self.is_told, true) {
            let started = StartedEvent { run_id: self.stream.run_id().to_string(), seq: self.stream.seq() };
            let mut events = Vec::new();
            event(&mut events, "started", &started);
            return Some(events);
        }
        let chunk = self.stream.next().await?;
        Some(self.encoder.encode(chunk))
    }
}

/// Turns chunks into events. A character split between two chunks waits for its other half, so that text stays valid.
#[derive(Default)]
struct Encoder {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Encoder {
    fn encode(&mut self, chunk: Result<RunChunk, OpError>) -> Vec<u8> {
        let mut events = Vec::new();
        match chunk {
            Ok(RunChunk::Stdout(bytes)) => output(&mut events, "stdout", whole(&mut self.stdout, bytes)),
            Ok(RunChunk::Stderr(bytes)) => output(&mut events, "stderr", whole(&mut self.stderr, bytes)),
            Ok(RunChunk::Result(view)) => {
                self.flush(&mut events);
                event(&mut events, "result", &translate::run_view(*view));
            }
            Err(error) => {
                self.flush(&mut events);
                event(&mut events, "error", &problem(&Refusal::from(error)));
            }
        }
        events
    }

    fn flush(&mut self, events: &mut Vec<u8>) {
        output(events, "stdout", std::mem::take(&mut self.stdout));
        output(events, "stderr", std::mem::take(&mut self.stderr));
    }
}

fn output(events: &mut Vec<u8>, name: &str, bytes: Vec<u8>) {
    if !bytes.is_empty() {
        event(events, name, &OutputEvent::new(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(encoder: &mut Encoder, bytes: &[u8]) -> String {
        String::from_utf8(encoder.encode(Ok(RunChunk::Stdout(bytes.to_vec())))).unwrap()
    }

    #[test]
    fn a_cut_character_waits_for_its_other_half() {
        let mut encoder = Encoder::default();
        assert_eq!(encoded(&mut encoder, b"a\xc3"), "event: stdout\ndata: {\"text\":\"a\"}\n\n");
        assert_eq!(encoded(&mut encoder, b"\xa9"), "event: stdout\ndata: {\"text\":\"é\"}\n\n");
        assert_eq!(encoded(&mut encoder, b"\xf0\x9f"), "");
        let mut rest = Vec::new();
        encoder.flush(&mut rest);
        assert!(String::from_utf8(rest).unwrap().contains("\"base64\":\"8J8=\""));
    }

    #[test]
    fn bytes_that_are_no_text_travel_as_base64() {
        let text = encoded(&mut Encoder::default(), b"\xff\n");
        assert!(text.contains("\"base64\":\"/wo=\""), "{text}");
    }
}
