//! `/mcp`: MCP over streamable HTTP, authenticated like every other route. An MCP session belongs to the token that
//! created it: for other callers its id does not exist.

use super::bound::{Bound, Sessions};
use super::faults;
use super::handler::{Handler, Toolset};
use super::hints::refusal_in_words;
use super::hub::{Hub, engine_of};
use super::lines::COPIES;
use super::seat::{name_session, named_session, names_session, of_request, own_session};
use crate::body::{self, RUN_LIMIT};
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::Value;
use shellkeep_runtime::{Engine, OpError, Whereabouts};
use shellkeep_session::SessionId;
use std::sync::Arc;
use std::time::Duration;

/// How long an MCP session may be idle: long enough for a thinking model or a lunch break; after that, the client
/// initialises again. The shell sessions behind it do not expire.
const KEEP_ALIVE: Duration = Duration::from_secs(60 * 60);
/// The header with the id of an MCP session.
pub const SESSION_ID: &str = "mcp-session-id";

type Service = StreamableHttpService<Handler, LocalSessionManager>;

/// What its requests share.
#[derive(Clone)]
pub struct Streamable {
    service: Service,
    sessions: Sessions,
}

impl Streamable {
    /// For the clients of a daemon.
    pub fn new(hub: Hub) -> Self {
        Self { service: service(hub), sessions: Sessions::default() }
    }
}

/// Serves a request.
pub async fn serve(State(state): State<Streamable>, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let engine = engine_of(&parts)?;
    let Streamable { service, sessions } = state;
    let is_delete = parts.method == Method::DELETE;
    let known = session_id(&parts.headers);
    if let Some(id) = &known
        && (!sessions.is_of(id, &engine)
            || (!is_delete && has_moved(&engine, sessions.own(id), &parts.headers).await?))
    {
        return Ok(faults::unknown_session());
    }
    if let Some(own) = known.as_ref().and_then(|id| sessions.own(id)) {
        name_session(&mut parts.headers, &own);
    }
    let begins = known.is_none() && parts.method == Method::POST;
    let bound = if begins { Some(Bound::new(&engine)?) } else { None };
    if let Some(bound) = &bound {
        parts.extensions.insert(Arc::clone(bound));
    }
    let mut whole = if parts.method == Method::POST { Some(body::read(&parts, body, RUN_LIMIT).await?) } else { None };
    if let Some(whole) = &mut whole {
        whole.count_parsed(&parts, COPIES)?;
    }
    if begins
        && let (Err(wrong), Some(whole)) = (check_start(&engine, &parts), &whole)
        && let Some(id) = initialize_id(&whole.bytes)
    {
        return Ok(faults::refused(&id, &wrong));
    }
    let named = named_session(engine.scope(), &parts.headers);
    let body = whole.as_ref().map_or_else(Body::empty, |whole| Body::from(whole.bytes.clone()));
    let sent = whole.as_ref().filter(|_| faults::is_json(&parts.headers));
    let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    if let (Some(id), Some(bound)) = (session_id(response.headers()), &bound) {
        let client = whole.as_ref().map(|whole| client_of(&whole.bytes)).unwrap_or_default();
        sessions.bind(&id, bound, named.or_else(|| own_session(&client, Some(&id)).ok()));
    }
    if is_delete && response.status() == StatusCode::ACCEPTED {
        // It has ended, with an empty response; clients warn about `accepted`.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(faults::as_message(response, sent.map(|sent| &sent.bytes)).await)
}

/// What is wrong with the URL or the headers of a client that begins. They are those of all its requests, and each of them
/// would fail.
fn check_start(engine: &Engine, parts: &Parts) -> Result<(), String> {
    Toolset::in_query(parts.uri.query())?;
    match of_request(engine.clone(), &parts.headers, "") {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refusal_in_words(&refusal)),
    }
}

/// The id of the request with which an MCP session begins, if it is that.
fn initialize_id(message: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(message).ok()?;
    (message["method"] == "initialize").then(|| message["id"].take())
}

/// Whether an MCP session's own session is on another node, or this one is drained and begins it no more. Requests that name
/// a session were sent to its node before. The client initialises again, on a node that has room for it.
async fn has_moved(engine: &Engine, own: Option<SessionId>, headers: &HeaderMap) -> Result<bool, OpError> {
    let node = engine.node();
    let (Some(cluster), Some(own)) = (node.cluster(), own) else { return Ok(false) };
    if names_session(headers) || cluster.works_with(&own) {
        return Ok(false);
    }
    Ok(cluster.is_draining() || matches!(cluster.locate_or_place(&own).await?, Whereabouts::There(_)))
}

/// What a client calls itself in the message with which it begins. Nothing else of the message is kept.
fn client_of(message: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Message {
        params: Params,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Params {
        client_info: Client,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Client {
        name: String,
    }
    let message: Message = serde_json::from_slice(message).unwrap_or_default();
    message.params.client_info.name
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_ID).map(|id| id.to_str().unwrap_or_default().to_owned())
}

/// The SDK's server.
fn service(hub: Hub) -> Service {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(KEEP_ALIVE);
    let config = StreamableHttpServerConfig::default()
        // Authentication has checked both for every route; a second, different check here would only confuse.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(RUN_LIMIT)
        // Since 2026-07-28 a response without progress is plain JSON, which costs less.
        .with_json_response(true);
    StreamableHttpService::new(move || Ok(Handler::over_http(hub.clone())), Arc::new(sessions), config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_initialize_begins_a_session() {
        assert_eq!(initialize_id(br#"{"id": 7, "method": "initialize"}"#), Some(json!(7)));
        for other in [&br#"{"id": 7, "method": "tools/call"}"#[..], b"[]", b"", b"x"] {
            assert_eq!(initialize_id(other), None);
        }
    }

    #[test]
    fn a_client_says_its_name_when_it_begins() {
        let message =
            json!({"method": "initialize", "params": {"clientInfo": {"name": "Claude Code", "version": "2"}}});
        assert_eq!(client_of(message.to_string().as_bytes()), "Claude Code");
        for message in ["", "[]", r#"{"method": "ping"}"#] {
            assert_eq!(client_of(message.as_bytes()), "");
        }
    }
}
