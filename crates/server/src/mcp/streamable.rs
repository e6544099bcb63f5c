//! `/mcp`: MCP over streamable HTTP, behind the same gate as every other route. An MCP session belongs to the token that
//! made it: to anybody else its id is one that does not exist.

use super::handler::Handler;
use super::{Hub, engine_of};
use crate::http::body;
use crate::http::{Door, RUN_LIMIT};
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use shellkeep_runtime::{Engine, Lent, Scope, Share};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// How long an MCP session may be silent. A model that thinks or a person at lunch should find it; one that is gone for
/// longer initialises again. The shell sessions behind it have no such end.
const KEEP_ALIVE: Duration = Duration::from_secs(60 * 60);
/// The header with the id of an MCP session.
const SESSION_ID: &str = "mcp-session-id";
/// What the SDK says of an id that it does not know. It is said of another's id too, so that they cannot be told apart.
const UNKNOWN: (StatusCode, &str) = (StatusCode::NOT_FOUND, "Not Found: Session not found");

type Service = StreamableHttpService<Handler, LocalSessionManager>;

/// The MCP sessions of a door, and whose they are.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Inner>);

#[derive(Default)]
struct Inner {
    service: OnceLock<Service>,
    bound: Mutex<HashMap<String, Weak<Bound>>>,
}

/// An MCP session's place, and who made it. It lives as long as the session.
pub(super) struct Bound {
    by: Scope,
    _share: Share,
}

impl Sessions {
    /// Whether the caller made this session.
    fn is_of(&self, id: &str, engine: &Engine) -> bool {
        let bound = self.0.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let made_by = bound.get(id).and_then(Weak::upgrade);
        made_by.is_some_and(|made_by| made_by.by == *engine.scope())
    }

    fn bind(&self, id: &str, to: &Arc<Bound>) {
        let mut bound = self.0.bound.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten when there might be as many of them as of the others.
        if bound.len() == bound.capacity() {
            bound.retain(|_, made_by| made_by.strong_count() > 0);
        }
        bound.insert(id.to_owned(), Arc::downgrade(to));
    }
}

/// Serves a request.
pub async fn serve(State(door): State<Door>, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    let engine = engine_of(&parts)?;
    let sessions = door.mcp.http.clone();
    let is_delete = parts.method == Method::DELETE;
    let bound = match session_id(&parts.headers) {
        Some(id) if !sessions.is_of(&id, &engine) => return Ok(UNKNOWN.into_response()),
        Some(_) => None,
        None if parts.method == Method::POST => {
            let share = engine.lend(Lent::McpClients, 1)?;
            Some(Arc::new(Bound { by: engine.scope().clone(), _share: share }))
        }
        None => None,
    };
    if let Some(bound) = &bound {
        parts.extensions.insert(Arc::clone(bound));
    }
    let whole = if parts.method == Method::POST { Some(body::read(&parts, body, RUN_LIMIT).await?) } else { None };
    let body = whole.as_ref().map_or_else(Body::empty, |whole| Body::from(whole.bytes.clone()));
    let service = sessions.0.service.get_or_init(|| service(door.mcp.clone()));
    let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    if let (Some(id), Some(bound)) = (session_id(response.headers()), &bound) {
        sessions.bind(&id, bound);
    }
    if is_delete && response.status() == StatusCode::ACCEPTED {
        // It has ended and there is nothing to say; clients take `accepted` for a half success and warn of it.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_ID).map(|id| id.to_str().unwrap_or_default().to_owned())
}

/// The SDK's server.
fn service(hub: Hub) -> Service {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(KEEP_ALIVE);
    let config = StreamableHttpServerConfig::default()
        // The gate has checked both for every route, by one rule; a second, different one here could only confuse.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(RUN_LIMIT)
        // Since 2026-07-28 an answer without progress is plain JSON, and costs less.
        .with_json_response(true);
    StreamableHttpService::new(move || Ok(Handler::over_http(hub.clone())), Arc::new(sessions), config)
}
