//! Requests about something that another node has: they are sent there, and the answer is streamed back. A redirect would not
//! do: clients drop their token on the way to another port, and those of a socket cannot follow at all.

mod deleted;
mod everywhere;
mod gather;
mod mcp;
mod reach;
mod relay;
mod sending;
mod silence;

pub use reach::watch_neighbours;

use super::problem::Code;
use crate::auth::Scoped;
use crate::peers::{FORWARDED, Peers, is_short, whole};
use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use deleted::Kept;
use gather::{List, gather};
use percent_encoding::percent_decode_str;
use sending::{NoAnswer, Nodes, Target};
use shellkeep_runtime::{ClusterOps, NodeEntry, OpError, Whereabouts};
use shellkeep_session::SessionId;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Says that a node does not have what another sent it a request about.
const NOT_HERE: HeaderName = HeaderName::from_static("shellkeep-not-here");

/// The pauses, in ms, before a request looks again for its session, which was not where it was sent: it is on its way from a
/// node to another, or two nodes want it and one of them gets it.
const LOOKS_AGAIN: [u64; 6] = [0, 50, 100, 200, 400, 800];

/// How often a request waits until its session has left a node that is drained: others may wake it there meanwhile.
const LEAVES_AGAIN: usize = 5;

/// How long it waits for that at most, in all. A request with a shorter timeout waits no longer than its timeout.
const LEAVES_WITHIN: Duration = Duration::from_secs(60);

/// What a request is about, if another node may have it.
#[derive(Debug, PartialEq)]
enum About {
    Session(SessionId),
    /// A session that is to be created.
    NewSession,
    /// A node itself.
    Node(String),
}

impl About {
    fn of(method: &Method, path: &str) -> Option<Self> {
        if method == Method::POST && path == "/v1/sessions" {
            return Some(Self::NewSession);
        }
        if let Some(node) = path.strip_prefix("/v1/nodes/").and_then(|rest| rest.strip_suffix("/drain")) {
            return decoded(node).map(|node| Self::Node(node.into_owned()));
        }
        // No route has this method, and a request with it names a host and no path, so another node would not find it as it was signed.
        let rest = path.strip_prefix("/v1/sessions/").filter(|_| method != Method::CONNECT)?;
        SessionId::parse(&decoded(rest.split('/').next()?)?).ok().map(Self::Session)
    }

    async fn locate(&self, cluster: &ClusterOps<'_>) -> Result<Whereabouts, OpError> {
        match self {
            Self::Session(id) => cluster.locate(id).await,
            Self::NewSession => cluster.place().await,
            Self::Node(name) if *name == cluster.own().name => Ok(Whereabouts::Here),
            Self::Node(name) => cluster.node(name).await.map(Whereabouts::There),
        }
    }
}

/// A name in a path, as the routes read it: clients may encode any character, and many encode a colon. The request is sent on
/// with the path as it came.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(segment).decode_utf8().ok()
}

/// Serves a request here, or sends it to the node that has what it is about.
pub(crate) async fn pass_on(State(peers): State<Peers>, request: Request, next: Next) -> Response {
    let Some(Scoped(engine)) = request.extensions().get::<Scoped>().cloned() else { return next.run(request).await };
    let node = engine.node();
    let Some(cluster) = node.cluster() else { return next.run(request).await };
    let nodes = Nodes { engine: &engine, cluster: &cluster, peers: &peers };
    if request.uri().path() == mcp::PATH {
        return pass_on_mcp(nodes, request, next).await;
    }
    // A process of a session is on the node that has it. Others have at most an old copy.
    let is_in_session = engine.scope().only_session().is_some();
    if let Some(list) = List::of(request.method(), request.uri().path())
        && (list == List::Audit || !is_in_session)
    {
        return gather(nodes, list, request, next).await;
    }
    if everywhere::ends_agent(request.method(), request.uri().path()) {
        return everywhere::end_agent(nodes, request, next).await;
    }
    let Some(about) = About::of(request.method(), request.uri().path()) else { return next.run(request).await };
    let is_sent_on = request.headers().contains_key(FORWARDED);
    if let About::Session(id) = &about
        && !is_sent_on
        && cluster.lacks_deleted(id)
    {
        return pass_on_deleted(nodes, request, next).await;
    }
    let request = match &about {
        About::Session(id) if !is_sent_on && !cluster.works_with(id) => match ask_same(nodes, request, id).await {
            Ok(response) => return response,
            Err(request) => request,
        },
        _ => request,
    };
    let forwarding = Forwarding { nodes, about: &about };
    match about.locate(&cluster).await {
        Ok(Whereabouts::Here) if cluster.is_draining() => forwarding.serve_or_send(request, next).await,
        Ok(Whereabouts::Here) => next.run(request).await,
        // Two nodes that disagree would send it to and fro. The one that sent it looks again.
        Ok(Whereabouts::There(node)) if is_sent_on => not_here(forwarding.target(node).moving().into_response()),
        Ok(Whereabouts::There(node)) => forwarding.send(request, node, next).await,
        Err(error) => {
            let response = Refusal::from(error).into_response();
            if is_sent_on { not_here(response) } else { response }
        }
    }
}

/// How a request gets to what it is about.
struct Forwarding<'a> {
    nodes: Nodes<'a>,
    about: &'a About,
}

impl Forwarding<'_> {
    fn target(&self, node: NodeEntry) -> Target {
        let session = if let About::Session(id) = self.about { Some(id.clone()) } else { None };
        Target { node, session }
    }

    /// Sends a request to a node; if that one has let go of the session meanwhile, to the one that has it now.
    async fn send(&self, request: Request, node: NodeEntry, next: Next) -> Response {
        let (request, again) = match twice(request).await {
            Ok(both) => both,
            Err(refusal) => return refusal.into_response(),
        };
        let mut response = match self.nodes.send(request, self.target(node)).await {
            Ok(response) => response,
            Err(NoAnswer { refusal, .. }) => return refusal.into_response(),
        };
        for pause in LOOKS_AGAIN {
            if response.headers_mut().remove(NOT_HERE).is_none() {
                return response;
            }
            // Nothing was begun there, so it can be sent once more.
            let Some(again) = &again else { return response };
            if let About::Session(id) = self.about
                && self.nodes.cluster.is_draining()
            {
                self.nodes.cluster.until_left(id, left(again.until)).await;
            }
            tokio::time::sleep(Duration::from_millis(pause).min(left(again.until))).await;
            response = match self.about.locate(self.nodes.cluster).await {
                Ok(Whereabouts::Here) => return next.run(again.request()).await,
                Ok(Whereabouts::There(node)) => match self.nodes.send(again.request(), self.target(node)).await {
                    Ok(response) => response,
                    Err(NoAnswer { refusal, .. }) => return refusal.into_response(),
                },
                Err(error) => return Refusal::from(error).into_response(),
            };
        }
        response.headers_mut().remove(NOT_HERE);
        response
    }

    /// Serves a request here, on a node that is drained. What it does not begin any more goes to the next node as soon as the
    /// session has left.
    async fn serve_or_send(&self, request: Request, next: Next) -> Response {
        let is_sent_on = request.headers().contains_key(FORWARDED);
        let is_run = is_run(request.method(), request.uri().path());
        let (request, again) = match twice(request).await {
            Ok(both) => both,
            Err(refusal) => return refusal.into_response(),
        };
        let response = next.clone().run(request).await;
        let About::Session(id) = self.about else { return response };
        if !has_begun_nothing(&response, is_run) {
            return response;
        }
        let Some(again) = again else { return response };
        for _ in 0..LEAVES_AGAIN {
            if !self.nodes.cluster.until_left(id, left(again.until)).await {
                break;
            }
            if is_sent_on {
                // The node that sent it looks again.
                return not_here(response);
            }
            match self.about.locate(self.nodes.cluster).await {
                Ok(Whereabouts::There(node)) => return self.send(again.request(), node, next).await,
                // Another request has woken the session here once more, in vain.
                Ok(Whereabouts::Here) => {}
                Err(error) => return Refusal::from(error).into_response(),
            }
        }
        response
    }
}

/// Whether a request asks for a command.
fn is_run(method: &Method, path: &str) -> bool {
    let in_session = path.strip_prefix("/v1/sessions/").and_then(|rest| rest.split_once('/'));
    method == Method::POST && in_session.is_some_and(|(_, what)| what == "run")
}

/// Whether a node that is drained has left it to another node to do what was asked for. A command that came too late may find
/// that one working with the session, or this node about to stop.
fn has_begun_nothing(response: &Response, is_run: bool) -> bool {
    let code = response.extensions().get::<Code>().map(|code| code.0.as_str());
    match code {
        Some("node_draining") => true,
        Some("owner_unreachable" | "shutting_down") => is_run,
        _ => false,
    }
}

/// A request whose body is at hand, to be sent once more.
struct Again {
    parts: Parts,
    body: Bytes,
    /// How long it waits until its session has left a node that is drained.
    until: Instant,
}

impl Again {
    fn request(&self) -> Request {
        Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))
    }
}

/// How long is left until then.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// How long a request with this body waits until its session has left: for the seconds of its `timeout` if it has one.
fn patience(body: &[u8]) -> Duration {
    #[derive(serde::Deserialize)]
    struct Timed {
        timeout: f64,
    }
    let asked: Option<Timed> = serde_json::from_slice(body).ok();
    let asked = asked.and_then(|Timed { timeout }| Duration::try_from_secs_f64(timeout).ok());
    asked.map_or(LEAVES_WITHIN, |asked| asked.min(LEAVES_WITHIN))
}

/// A request, and the same once more unless its body is long.
async fn twice(request: Request) -> Result<(Request, Option<Again>), Refusal> {
    if !is_short(request.body()) {
        return Ok((request, None));
    }
    let (parts, body) = request.into_parts();
    let body = whole(body).await?;
    let until = Instant::now() + patience(&body);
    let again = Again { parts, body, until };
    Ok((again.request(), Some(again)))
}

/// Sends a request about a session to the node that answered for it lately. Gives it back if there is none, or if that node
/// cannot be reached or does not have the session.
async fn ask_same(nodes: Nodes<'_>, request: Request, id: &SessionId) -> Result<Response, Request> {
    let Some(node) = nodes.peers.located().node(nodes.engine.scope(), id) else { return Err(request) };
    if !is_short(request.body()) {
        return Err(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = match whole(body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return Ok(refusal.into_response()),
    };
    let request = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let again = || Request::from_parts(parts, Body::from(bytes));
    let target = Target { node, session: Some(id.clone()) };
    match nodes.send(request, target).await {
        Ok(response) if response.headers().contains_key(NOT_HERE) => Err(again()),
        Ok(response) => Ok(response),
        Err(NoAnswer { is_unsent: true, .. }) => Err(again()),
        Err(NoAnswer { refusal, .. }) => Ok(refusal.into_response()),
    }
}

/// Sends a request about a deleted session to the node that keeps its recording.
async fn pass_on_deleted(nodes: Nodes<'_>, request: Request, next: Next) -> Response {
    match deleted::find(nodes.peers, nodes.engine.scope(), nodes.others().await, request.uri()).await {
        Kept::At(node) => send_once(nodes, request, Target { node, session: None }).await,
        Kept::Unknown { silent } => deleted::or_silent(next.run(request).await, &silent),
    }
}

/// The same for MCP over HTTP.
async fn pass_on_mcp(nodes: Nodes<'_>, mut request: Request, next: Next) -> Response {
    match mcp::locate(nodes.cluster, nodes.engine.scope(), request.headers()).await {
        Ok(mcp::Spot::Here) => {
            mcp::take_node(request.headers_mut());
            let mut response = next.run(request).await;
            mcp::put_node(&mut response, &nodes.cluster.own().name);
            response
        }
        Ok(mcp::Spot::There(node)) => send_once(nodes, request, Target { node, session: None }).await,
        Ok(mcp::Spot::Unknown) => mcp::unknown(),
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// Sends a request that is about no session of a node to another node, unless it comes from one: two nodes that disagree would send it to and fro.
async fn send_once(nodes: Nodes<'_>, request: Request, target: Target) -> Response {
    if request.headers().contains_key(FORWARDED) {
        return not_here(target.moving().into_response());
    }
    match nodes.send(request, target).await {
        Ok(mut response) => {
            response.headers_mut().remove(NOT_HERE);
            response
        }
        Err(NoAnswer { refusal, .. }) => refusal.into_response(),
    }
}

/// Marks an answer of a node that has begun nothing.
fn not_here(mut response: Response) -> Response {
    response.headers_mut().insert(NOT_HERE, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_a_drain_as_long_as_its_timeout_says() {
        let waits = |body: &str| patience(body.as_bytes());
        assert_eq!(waits(r#"{"command": "true", "timeout": 1.5}"#), Duration::from_millis(1500));
        assert_eq!(waits(r#"{"timeout": 2}"#), Duration::from_secs(2));
        for body in ["", "no JSON", "{}", r#"{"timeout": null}"#, r#"{"timeout": -1}"#, r#"{"timeout": 86400}"#] {
            assert_eq!(waits(body), LEAVES_WITHIN, "{body}");
        }
    }

    #[test]
    fn a_command_that_a_node_refuses_because_it_leaves_goes_to_the_next_one() {
        let left = |code: &'static str, is_run: bool| {
            let response = Refusal::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, code, "").into_response();
            has_begun_nothing(&response, is_run)
        };
        for (code, of_run, of_others) in [
            ("node_draining", true, true),
            ("owner_unreachable", true, false),
            ("shutting_down", true, false),
            ("owner_lost", false, false),
        ] {
            assert_eq!((left(code, true), left(code, false)), (of_run, of_others), "{code}");
        }
    }

    #[test]
    fn only_a_command_counts_as_one() {
        for (method, path, expected) in [
            (Method::POST, "/v1/sessions/demo/run", true),
            (Method::POST, "/v1/sessions/demo/services/run", false),
            (Method::PUT, "/v1/sessions/demo/kv/run", false),
            (Method::DELETE, "/v1/sessions/run", false),
        ] {
            assert_eq!(is_run(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_request_says_what_it_is_about() {
        let of = |method: Method, path: &str| About::of(&method, path);
        let session = |name: &str| Some(About::Session(SessionId::parse(name).unwrap()));
        assert_eq!(of(Method::POST, "/v1/sessions/demo/run"), session("demo"));
        assert_eq!(of(Method::GET, "/v1/sessions/a:b"), session("a:b"));
        assert_eq!(of(Method::POST, "/v1/sessions"), Some(About::NewSession));
        assert_eq!(of(Method::GET, "/v1/sessions/a%3Ab%2e/runs/r1%2F"), session("a:b."));
        for path in ["/v1/nodes/n1/drain", "/v1/nodes/n%31/drain"] {
            assert_eq!(of(Method::POST, path), Some(About::Node("n1".to_owned())));
        }
        assert_eq!(of(Method::CONNECT, "/v1/sessions/demo/run"), None);
        for path in ["/v1/sessions", "/v1/sessions/", "/v1/sessions/.x/run", "/v1/services", "/mcp", "/v1/nodes/n1"] {
            assert_eq!(of(Method::GET, path), None, "{path}");
        }
        for path in ["/v1/sessions/a%2Fb", "/v1/sessions/a%FF", "/v1/sessions/a%3"] {
            assert_eq!(of(Method::GET, path), None, "{path}");
        }
    }
}
