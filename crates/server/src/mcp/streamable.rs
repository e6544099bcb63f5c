//! `/mcp`: MCP over streamable HTTP, behind the same gate as every other route.

use super::Hub;
use super::handler::Handler;
use crate::http::RUN_LIMIT;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long an MCP session may be silent. A model that thinks or a person at lunch should find it; one that is gone for
/// longer initialises again. The shell sessions behind it have no such end.
const KEEP_ALIVE: Duration = Duration::from_secs(60 * 60);

/// The service behind the route.
pub fn service(hub: Hub) -> StreamableHttpService<Handler, LocalSessionManager> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(KEEP_ALIVE);
    let config = StreamableHttpServerConfig::default()
        // The gate has checked both for every route, by one rule; a second, different one here could only confuse.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(RUN_LIMIT)
        // Since 2026-07-28 an answer without progress is plain JSON, and costs less.
        .with_json_response(true);
    let handler = move || {
        let place = hub.place().ok_or_else(|| {
            io::Error::other("this daemon serves as many MCP clients as it can; close one that is not used")
        })?;
        Ok(Handler::over_http(hub.clone(), place))
    };
    StreamableHttpService::new(handler, Arc::new(sessions), config)
}
