//! `GET /v1/live`: what happens in the daemon, as it happens, on one WebSocket per browser tab. The first frame
//! authenticates a caller who is not known yet. A topic sends a snapshot, then updates, as far as the client has credit;
//! one that falls behind gets a new snapshot and never a queue.

mod credit;
mod topic;

use super::responses::Common;
use crate::auth::{Lobby, Scoped};
use crate::connections::Way;
use crate::http::problem::problem;
use crate::refusal::Refusal;
use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::Response;
use credit::Credit;
use serde::Deserialize;
use serde_json::{Value, json};
use shellkeep_runtime::{Engine, Guest, Revocation, Scope, tasks};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use topic::{Piece, Topic};

/// How long a client may take to authenticate, or to send its first order if it is known.
const FIRST_FRAME: Duration = Duration::from_secs(5);
/// Largest frame of a client: a token or the name of a topic.
const MAX_FRAME: usize = 16 << 10;
/// Most topics of one client. A page follows two or three.
const MAX_TOPICS: usize = 32;
/// Frames that wait to be written. A topic reads on only when its frame was taken.
const BACKLOG: usize = 4;
/// How often a silent connection is pinged. Proxies close it after 30 to 60 seconds.
const PING: Duration = Duration::from_secs(20);
/// Why a connection was closed: the token is missing, wrong, revoked or expired.
const UNAUTHORIZED: u16 = 4401;
/// Why a connection was closed: the client sent something else than a frame of this protocol.
const BAD_FRAME: u16 = 4400;

/// What a client sends, once it is authenticated.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Order {
    /// Follow a topic. The client chooses the number.
    Open { open: u32, topic: String },
    /// The client has read this many bytes of a topic.
    Credit { credit: u32, bytes: usize },
    /// Stop following a topic.
    Close { close: u32 },
}

/// The first frame.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    auth: String,
}

/// Follows sessions, runs, services and the node on a WebSocket.
///
/// The first frame is `{"auth": TOKEN}`, within 5 seconds; the answer is `{"ready": {…}}`. Over the Unix socket, and with
/// `Authorization: Bearer TOKEN` in the request, the first frame may be any other: you are known, and `ready` comes
/// before its answer, or after 5 seconds without a frame. `{"open": N, "topic": TOPIC}` follows a topic: `sessions`,
/// `node`, `session/ID`, `run/ID/RUN`, `screen/ID/RUN`, `service/ID/NAME`. The answers are `{"id": N, "snapshot": {…}}`,
/// then `{"id": N, "update": {…}}`, or `{"id": N, "error": PROBLEM}`. `{"credit": N, "bytes": B}` says that the client
/// has read B bytes; a topic sends at most 256 KiB more than that. `{"close": N}` ends a topic. Close codes: 4400 for a
/// wrong frame, 4401 for a wrong, revoked or expired token.
#[utoipa::path(
    get, path = "/v1/live", tag = "console", operation_id = "live", security(()),
    responses(
        (status = 101, description = "The connection is a WebSocket"),
        (status = 426, description = "`upgrade_required`: the request is not for a WebSocket",
            body = shellkeep_protocol::Problem, content_type = "application/problem+json"),
        Common
    )
)]
pub(crate) async fn live(
    lobby: Lobby,
    known: Option<Extension<Scoped>>,
    revocation: Option<Extension<Revocation>>,
    way: Option<Extension<Way>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let Ok(upgrade) = upgrade else {
        let detail = "this route is a WebSocket; for one session use `Accept: text/event-stream` at …/events";
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail));
    };
    let way = way.map(|Extension(way)| way);
    // The host has no token that could be revoked.
    let revocation = revocation.map_or_else(Revocation::never, |Extension(revocation)| revocation);
    let known = known.map(|Extension(Scoped(engine))| Guest { engine, revocation });
    let upgrade = upgrade.max_message_size(MAX_FRAME).max_frame_size(MAX_FRAME);
    Ok(upgrade.on_upgrade(|socket| serve(socket, lobby, known, way)))
}

async fn serve(mut socket: WebSocket, lobby: Lobby, known: Option<Guest>, way: Option<Way>) {
    let Some((Guest { engine, revocation }, order)) = admitted(&mut socket, &lobby, known).await else {
        return close(socket, UNAUTHORIZED, "send {\"auth\": TOKEN} with a valid token first").await;
    };
    if let Some(Err(error)) = way.map(|way| way.prove(&engine)) {
        return close(socket, UNAUTHORIZED, &error.to_string()).await;
    }
    let role = match engine.scope() {
        Scope::Host | Scope::Console { .. } => "act",
        Scope::Agent { .. } | Scope::Session { .. } => "agent",
        Scope::Auditor { .. } | Scope::Metrics { .. } => "watch",
    };
    if send(&mut socket, &json!({"ready": {"role": role}})).await.is_err() {
        return;
    }
    let mut client = Client::new(engine);
    if let Some(order) = order {
        let answer = match client.obey(&order).await {
            Ok(answer) => answer,
            Err(reason) => return close(socket, BAD_FRAME, &reason).await,
        };
        if let Some(answer) = answer
            && socket.send(Message::Text(answer.into())).await.is_err()
        {
            return;
        }
    }
    let ended = tokio::select! {
        ended = client.converse(&mut socket) => ended,
        () = revocation.happened() => Some((UNAUTHORIZED, "the token was revoked or has expired".to_owned())),
    };
    if let Some((code, reason)) = ended {
        close(socket, code, &reason).await;
    }
}

/// Who a client is, and its first order if it began with that, because it was known when it came.
async fn admitted(socket: &mut WebSocket, lobby: &Lobby, known: Option<Guest>) -> Option<(Guest, Option<Utf8Bytes>)> {
    let text = match tokio::time::timeout(FIRST_FRAME, socket.recv()).await {
        Ok(Some(Ok(Message::Text(text)))) => text,
        Ok(_) => return None,
        // It may wait for `ready`.
        Err(_) => return Some((known?, None)),
    };
    let Ok(First { auth }) = serde_json::from_str(&text) else { return Some((known?, Some(text))) };
    // A token in a frame counts more than where the client comes from: so it was when there was nothing else.
    let guest = lobby.authenticate(auth.as_bytes())?;
    (!matches!(guest.engine.scope(), Scope::Metrics { .. })).then_some((guest, None))
}

/// A client and what it follows.
struct Client {
    engine: Engine,
    followed: HashMap<u32, Followed>,
    sender: mpsc::Sender<String>,
    frames: mpsc::Receiver<String>,
}

/// A topic that is followed, until this is dropped.
struct Followed {
    credit: Arc<Credit>,
    task: JoinHandle<()>,
}

impl Followed {
    /// Ends it, and returns when its task and all that it holds is gone. `abort` alone only asks for that: a client that
    /// opened one number again and again had thousands of tasks that were still to end.
    async fn end(mut self) {
        self.task.abort();
        // Fails because it was aborted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    fn new(engine: Engine) -> Self {
        let (sender, frames) = mpsc::channel(BACKLOG);
        Self { engine, followed: HashMap::new(), sender, frames }
    }

    /// Until the client leaves (`None`), or is sent away for a reason.
    async fn converse(&mut self, socket: &mut WebSocket) -> Option<(u16, String)> {
        let mut ping = tokio::time::interval(PING);
        loop {
            tokio::select! {
                frame = self.frames.recv() => socket.send(Message::Text(frame?.into())).await.ok()?,
                _ = ping.tick() => socket.send(Message::Ping(Vec::new().into())).await.ok()?,
                message = socket.recv() => match message?.ok()? {
                    Message::Text(text) => {
                        match self.obey(&text).await {
                            // Written here and not through `sender`, which only this loop empties.
                            Ok(Some(answer)) => socket.send(Message::Text(answer.into())).await.ok()?,
                            Ok(None) => {}
                            Err(reason) => return Some((BAD_FRAME, reason)),
                        }
                        // Frames that have arrived already are read without a pause, and other clients have their turn.
                        tokio::task::yield_now().await;
                    }
                    Message::Binary(_) => return Some((BAD_FRAME, "send text frames".to_owned())),
                    Message::Close(_) => return None,
                    Message::Ping(_) | Message::Pong(_) => {}
                },
            }
        }
    }

    /// Does what a frame says. Returns the answer to it, if there is one at once, or why the client is sent away.
    async fn obey(&mut self, text: &str) -> Result<Option<String>, String> {
        match serde_json::from_str(text) {
            Ok(Order::Open { open, topic }) => self.open(open, &topic).await,
            Ok(Order::Credit { credit, bytes }) => {
                if let Some(followed) = self.followed.get(&credit) {
                    followed.credit.add(bytes);
                }
                Ok(None)
            }
            Ok(Order::Close { close }) => {
                self.end(close).await;
                Ok(None)
            }
            Err(_) => {
                Err("a frame is {\"open\": N, \"topic\": …}, {\"credit\": N, \"bytes\": …} or {\"close\": N}"
                    .to_owned())
            }
        }
    }

    async fn open(&mut self, id: u32, name: &str) -> Result<Option<String>, String> {
        if self.followed.len() >= MAX_TOPICS {
            return Err(format!("at most {MAX_TOPICS} topics at a time; close some"));
        }
        // A topic that was opened with the same number ends.
        self.end(id).await;
        let topic = match Topic::parse(name, &self.engine) {
            Ok(topic) => topic,
            Err(refusal) => return Ok(Some(failed(id, &refusal))),
        };
        let credit = Arc::new(Credit::default());
        let task = tasks::spawn(pump(id, topic, Arc::clone(&credit), self.sender.clone()));
        self.followed.insert(id, Followed { credit, task });
        Ok(None)
    }

    /// Ends the topic with this number, if there is one.
    async fn end(&mut self, id: u32) {
        if let Some(followed) = self.followed.remove(&id) {
            followed.end().await;
        }
    }
}

/// The frame that says why a topic is not followed, or no more.
fn failed(id: u32, refusal: &Refusal) -> String {
    json!({"id": id, "error": problem(refusal)}).to_string()
}

/// Sends what happens in a topic: a snapshot at first and whenever the client was behind, updates otherwise.
async fn pump(id: u32, mut topic: Topic, credit: Arc<Credit>, sender: mpsc::Sender<String>) {
    let mut is_current = false;
    loop {
        is_current &= !credit.wait().await;
        let piece = if is_current { topic.next().await } else { topic.snapshot().await };
        let frame = match piece {
            Ok(Piece::Snapshot(value)) => json!({"id": id, "snapshot": value}).to_string(),
            Ok(Piece::Picture(picture)) => format!("{{\"id\":{id},\"snapshot\":{picture}}}"),
            Ok(Piece::Update(value)) => json!({"id": id, "update": value}).to_string(),
            Ok(Piece::Behind) => {
                is_current = false;
                continue;
            }
            Ok(Piece::End) => return,
            Err(error) => return drop(sender.send(failed(id, &Refusal::from(error))).await),
        };
        is_current = true;
        credit.take(frame.len());
        if sender.send(frame).await.is_err() {
            return;
        }
    }
}

async fn send(socket: &mut WebSocket, value: &Value) -> Result<(), axum::Error> {
    socket.send(Message::Text(value.to_string().into())).await
}

async fn close(mut socket: WebSocket, code: u16, reason: &str) {
    // The client may be gone.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
