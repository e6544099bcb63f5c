//! What can be followed: all sessions, the node, a session, a run, the screen of a run, the log of a service.

use crate::http::sse::whole;
use crate::refusal::Refusal;
use crate::translate;
use serde_json::{Value, json};
use shellkeep_protocol::{EventSummary, ScreenFormat};
use shellkeep_runtime::{
    Engine, EventQuery, EventStream, FleetChange, FleetStream, Lent, LogStream, OpError, RunChunk, RunStream,
    ScreenQuery, ScreenView, ScreenWait, Share, Summary, Tail,
};
use shellkeep_session::{RunId, SessionId};
use std::time::Duration;

/// Bytes of an output or a log in a snapshot: what a person looks at.
const SNAPSHOT: usize = 64 << 10;
/// Most events that a session's topic reads at a time.
const EVENTS: usize = 200;
/// How long changes of the node gather: its figures are for people.
const NODE_GATHER: Duration = Duration::from_millis(500);
/// How long changes of a screen gather at least: a person sees no more pictures in a second.
const FRAME: Duration = Duration::from_millis(16);
/// The longest wait for a change of a screen; the next one follows.
const SCREEN_WAIT: Duration = Duration::from_secs(60);

/// What a topic has to say.
pub(super) enum Piece {
    Snapshot(Value),
    /// A snapshot that is written as JSON.
    Picture(String),
    Update(Value),
    /// More has happened than it can list; a snapshot comes next.
    Behind,
    /// Nothing more will happen.
    End,
}

/// Something that is followed.
pub(super) struct Topic {
    engine: Engine,
    what: What,
    _share: Share,
}

enum What {
    Sessions {
        stream: FleetStream,
    },
    Node {
        stream: FleetStream,
    },
    Session {
        id: SessionId,
        stream: Option<EventStream>,
    },
    Run {
        id: SessionId,
        run: RunId,
        stream: Option<RunStream>,
        held: Vec<u8>,
    },
    /// `seen` is the version that was sent last; none once the run has ended.
    Screen {
        id: SessionId,
        run: RunId,
        seen: Option<u64>,
    },
    Service {
        id: SessionId,
        /// Its id or name.
        service: String,
        stream: Option<LogStream>,
        held: Vec<u8>,
    },
}

impl Topic {
    /// The topic with this name.
    pub(super) fn parse(name: &str, engine: &Engine) -> Result<Self, Refusal> {
        let session = |id: &str| SessionId::parse(id).map_err(|error| Refusal::bad_id("topic", &error));
        let run_id = |run: &str| RunId::parse(run).map_err(|error| Refusal::bad_id("topic", &error));
        let parts: Vec<&str> = name.split('/').collect();
        let what = match parts.as_slice() {
            ["sessions"] => What::Sessions { stream: engine.node().follow_sessions() },
            ["node"] => What::Node { stream: engine.node().follow_sessions() },
            ["session", id] => What::Session { id: session(id)?, stream: None },
            ["run", id, run] => What::Run { id: session(id)?, run: run_id(run)?, stream: None, held: Vec::new() },
            ["screen", id, run] => What::Screen { id: session(id)?, run: run_id(run)?, seen: None },
            // A name may be any text, a whole command too.
            ["service", id, name @ ..] if !name.is_empty() => {
                What::Service { id: session(id)?, service: name.join("/"), stream: None, held: Vec::new() }
            }
            _ => {
                return Err(Refusal::invalid(
                    "topic: there are sessions, node, session/ID, run/ID/RUN, screen/ID/RUN and service/ID/NAME",
                ));
            }
        };
        Ok(Self { engine: engine.clone(), what, _share: engine.lend(Lent::Followers, 1)? })
    }

    /// The state now. Updates continue from it.
    pub(super) async fn snapshot(&mut self) -> Result<Piece, OpError> {
        let Self { engine, what, .. } = self;
        let value: Result<Value, OpError> = match what {
            What::Sessions { stream } => {
                *stream = engine.node().follow_sessions();
                Ok(json!({"node": fleet(engine).await}))
            }
            What::Node { stream } => {
                *stream = engine.node().follow_sessions();
                node(engine).await
            }
            What::Session { id, stream } => {
                let view = engine.get(id).await?;
                let query = EventQuery { after: view.seq, limit: EVENTS, redact: true, ..EventQuery::default() };
                *stream = Some(engine.records().follow_events(id, query).await?);
                Ok(json!({"seq": view.seq, "session": translate::session(view)}))
            }
            What::Run { id, run, stream, held } => {
                let mut watched = engine.runs().watch(id, run, SNAPSHOT).await?;
                held.clear();
                let text = watched.catch_up().map_or_else(String::new, |view| {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    text(&view.stdout.bytes) + &text(&view.stderr.bytes)
                });
                *stream = Some(watched);
                Ok(json!({"text": text}))
            }
            What::Screen { id, run, seen } => {
                let query = ScreenQuery { wait: ScreenWait::Nothing, timeout: Duration::ZERO };
                let picture = picture(engine, id, run, query).await?;
                *seen = picture.version;
                return Ok(Piece::Picture(picture.json));
            }
            What::Service { id, service, stream, held } => {
                let mut followed =
                    engine.services().follow_log(id, service, 0, Some(Tail::Bytes(SNAPSHOT as u64))).await?;
                held.clear();
                let view = translate::service(engine.services().get(id, service, Duration::ZERO).await?);
                // A log that is empty so far has nothing to wait for here.
                let text = match view.log_bytes {
                    0 => String::new(),
                    _ => match followed.next().await {
                        Some(page) => text(held, page?.bytes),
                        None => String::new(),
                    },
                };
                *stream = Some(followed);
                Ok(json!({"service": view, "text": text}))
            }
        };
        value.map(Piece::Snapshot)
    }

    /// What happens next.
    pub(super) async fn next(&mut self) -> Result<Piece, OpError> {
        let Self { engine, what, .. } = self;
        match what {
            What::Sessions { stream } => match stream.next().await? {
                FleetChange::Many => Ok(Piece::Behind),
                FleetChange::Some { sessions, gone } => {
                    let sessions: Vec<_> = sessions.into_iter().map(translate::session).collect();
                    Ok(Piece::Update(json!({"sessions": sessions, "gone": gone, "node": fleet(engine).await})))
                }
            },
            What::Node { stream } => {
                // What changed does not matter, only that something did.
                stream.next().await?;
                tokio::time::sleep(NODE_GATHER).await;
                Ok(Piece::Behind)
            }
            What::Session { id, stream } => match stream {
                None => Ok(Piece::Behind),
                Some(stream) => events(engine, id, stream).await,
            },
            What::Run { stream, held, .. } => match stream {
                None => Ok(Piece::Behind),
                Some(stream) => output(stream, held).await,
            },
            What::Screen { id, run, seen } => screen(engine, id, run, seen).await,
            What::Service { id, service, stream, held } => match stream {
                None => Ok(Piece::End),
                Some(followed) => match followed.next().await {
                    Some(page) => Ok(Piece::Update(json!({"text": text(held, page?.bytes)}))),
                    None => {
                        *stream = None;
                        let view = engine.services().get(id, service, Duration::ZERO).await?;
                        Ok(Piece::Update(json!({"ended": true, "service": translate::service(view)})))
                    }
                },
            },
        }
    }
}

async fn events(engine: &Engine, id: &SessionId, stream: &mut EventStream) -> Result<Piece, OpError> {
    let lines = stream.next().await?;
    let seq = lines.last().map_or(0, |line| line.seq);
    let events: Vec<EventSummary> = lines.iter().map(|line| Summary::of(line).into()).collect();
    let session = translate::session(engine.get(id).await?);
    Ok(Piece::Update(json!({"events": events, "seq": seq, "session": session})))
}

async fn output(stream: &mut RunStream, held: &mut Vec<u8>) -> Result<Piece, OpError> {
    match stream.next().await {
        None => Ok(Piece::End),
        Some(Ok(RunChunk::Stdout(bytes) | RunChunk::Stderr(bytes))) => {
            Ok(Piece::Update(json!({"text": text(held, bytes)})))
        }
        Some(Ok(RunChunk::Result(_))) => Ok(Piece::Update(json!({"ended": true}))),
        Some(Err(error)) => Err(error),
    }
}

/// The next picture of a screen, whole: what was drawn in between is not worth sending.
async fn screen(engine: &Engine, id: &SessionId, run: &RunId, seen: &mut Option<u64>) -> Result<Piece, OpError> {
    if seen.is_none() {
        return Ok(Piece::End);
    }
    tokio::time::sleep(FRAME).await;
    loop {
        let query = ScreenQuery { wait: ScreenWait::Change { since: *seen }, timeout: SCREEN_WAIT };
        let picture = picture(engine, id, run, query).await?;
        if !picture.timed_out {
            *seen = picture.version;
            return Ok(Piece::Picture(picture.json));
        }
    }
}

/// What a screen shows.
struct Drawn {
    json: String,
    /// None once the run has ended.
    version: Option<u64>,
    timed_out: bool,
}

/// Also written as JSON where it is drawn: for a large screen that takes as long.
async fn picture(engine: &Engine, id: &SessionId, run: &RunId, query: ScreenQuery) -> Result<Drawn, OpError> {
    let write = |view: ScreenView| {
        let (version, timed_out) = (view.running.then_some(view.version), view.timed_out);
        Drawn { json: json!(translate::screen(view, ScreenFormat::Cells)).to_string(), version, timed_out }
    };
    engine.runs().screen_as(id, run, query, write).await
}

/// Bytes as text. A character that is not complete waits for its other half.
fn text(held: &mut Vec<u8>, bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&whole(held, bytes)).into_owned()
}

/// How many sessions there are and which commands run, if the caller may see them all.
async fn fleet(engine: &Engine) -> Value {
    match engine.node().view().await.map(translate::node) {
        Ok(node) => {
            json!({"sessions": node.sessions, "live_shells": node.live_shells, "services": node.services,
                "running": node.running, "commands": node.commands})
        }
        Err(_) => Value::Null,
    }
}

async fn node(engine: &Engine) -> Result<Value, OpError> {
    Ok(json!(translate::node(engine.node().view().await?)))
}
