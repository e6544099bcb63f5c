//! `GET /v1/mcp/stdio`: the daemon's end of `shellkeep mcp`. The connection is upgraded and carries one JSON message
//! per line from then on; the program at the other end carries messages, and comes back when the connection is lost.

use super::handler::{Handler, Toolset};
use super::hub::{Hub, engine_of};
use super::lines::Lines;
use super::seat::{Hello, Pipe};
use crate::params::Params;
use crate::refusal::Refusal;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use shellkeep_protocol::STDIO_PROTOCOL;
use shellkeep_runtime::{Lent, Revocation, tasks};
use shellkeep_session::SessionId;

/// What the client says about itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdioParams {
    /// The session, if the client named one.
    session: Option<String>,
    /// Which tools it wants.
    toolset: Option<String>,
    /// The project's directory.
    cwd: Option<String>,
    /// The workspace of a new session.
    workspace: Option<String>,
    /// The session that the client had, if it comes back.
    again: Option<String>,
}

/// Upgrades the connection.
pub async fn upgrade(
    State(hub): State<Hub>,
    Params(params): Params<StdioParams>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let wanted = request.headers().get(header::UPGRADE).is_some_and(|value| value == STDIO_PROTOCOL);
    if !wanted {
        let detail = format!(
            "this route carries MCP for `shellkeep mcp` and needs `Upgrade: {STDIO_PROTOCOL}`; for MCP over HTTP use /mcp"
        );
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail));
    }
    let named = |name: &'static str, given: Option<&str>| {
        given.map(SessionId::parse).transpose().map_err(|error| Refusal::bad_id(name, &error))
    };
    let session = named("session", params.session.as_deref())?;
    let again = named("again", params.again.as_deref())?;
    let toolset = params.toolset.as_deref().map(str::parse::<Toolset>).transpose();
    let toolset = toolset.map_err(|error| Refusal::invalid(format!("toolset: {error}")))?.unwrap_or_default();
    let upgrading = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let directory = params.cwd.filter(|cwd| cwd.starts_with('/') && !cwd.contains('\0'));
    let engine = engine_of(&parts)?;
    let place = engine.lend(Lent::McpClients, 1)?;
    // Every request is authenticated, but this connection is one request for hours.
    let revoked = parts.extensions.get::<Revocation>().cloned();
    let pipe = Pipe::new(engine, Hello { session, again, directory, workspace: params.workspace });
    let handler = Handler::on_stdio(hub, pipe.clone(), toolset, place);
    tasks::spawn(async move {
        match upgrading.await {
            Ok(stream) => serve(handler, Lines::new(TokioIo::new(stream), pipe), revoked).await,
            Err(error) => tracing::debug!(%error, "an MCP client disconnected before the handshake"),
        }
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, STDIO_PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

type Client = Lines<TokioIo<hyper::upgrade::Upgraded>>;

/// Serves a client until it leaves or its token is revoked.
async fn serve(handler: Handler, lines: Client, revoked: Option<Revocation>) {
    let serving = async {
        match rmcp::serve_server(handler, lines).await {
            Ok(running) => drop(running.waiting().await),
            // Clients that disconnect before the handshake, and those that do not speak MCP.
            Err(error) => tracing::debug!(%error, "the handshake with an MCP client failed"),
        }
    };
    match revoked {
        // Dropping closes the connection; what the agent started keeps running, as over HTTP.
        Some(revoked) => tokio::select! {
            () = serving => {}
            () = revoked.happened() => {}
        },
        None => serving.await,
    }
}
