//! `/mcp`: MCP over streamable HTTP, authenticated like every other route. An MCP session belongs to the token that
//! created it: for other callers its id does not exist.

use super::bound::{Bound, Sessions};
use super::faults;
use super::handler::Handler;
use super::hub::{Hub, engine_of};
use crate::body::{self, RUN_LIMIT};
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
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
    /// For the clients of a door.
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
    let bound = match session_id(&parts.headers) {
        Some(id) if !sessions.is_of(&id, &engine) => return Ok(faults::unknown_session()),
        Some(_) => None,
        None if parts.method == Method::POST => Some(Bound::new(&engine)?),
        None => None,
    };
    if let Some(bound) = &bound {
        parts.extensions.insert(Arc::clone(bound));
    }
    let whole = if parts.method == Method::POST { Some(body::read(&parts, body, RUN_LIMIT).await?) } else { None };
    let body = whole.as_ref().map_or_else(Body::empty, |whole| Body::from(whole.bytes.clone()));
    let sent = whole.as_ref().filter(|_| faults::is_json(&parts.headers));
    let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    if let (Some(id), Some(bound)) = (session_id(response.headers()), &bound) {
        sessions.bind(&id, bound);
    }
    if is_delete && response.status() == StatusCode::ACCEPTED {
        // It has ended, with an empty response; clients warn about `accepted`.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(faults::as_message(response, sent.map(|sent| &sent.bytes)).await)
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
