//! One client: on stdio for a connection, over HTTP for an MCP session or, since 2026-07-28, for one request.

use super::bound::Bound;
use super::calls::Calls;
use super::hub::{Hub, engine_of};
use super::seat::{self, Pipe, Seat};
use crate::refusal::Refusal;
use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use shellkeep_runtime::{OpError, RunView, Share, Stream};
use shellkeep_session::{RunId, RunStatus};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Which tools a client is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Toolset {
    /// The tools of a durable shell.
    #[default]
    Default,
    /// Those, and the tools for programs on a terminal.
    Terminal,
    /// The one classic tool.
    Bash,
}

impl FromStr for Toolset {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" => Ok(Self::Default),
            "terminal" => Ok(Self::Terminal),
            "bash" => Ok(Self::Bash),
            _ => Err("a toolset is `default`, `terminal` or `bash`"),
        }
    }
}

impl Toolset {
    /// The one that the query of a URL names, if it names one.
    pub fn in_query(query: Option<&str>) -> Result<Option<Self>, &'static str> {
        let mut pairs = query.unwrap_or_default().split('&');
        pairs.find_map(|pair| pair.strip_prefix("toolset=")).map(str::parse).transpose()
    }
}

/// The server for one client.
pub struct Handler {
    pub(super) hub: Hub,
    pub(super) calls: Calls,
    /// The connection, for a client on stdio. Over HTTP every request is authenticated again.
    pub(super) pipe: Option<Arc<Pipe>>,
    pub(super) toolset: Toolset,
    place: OnceLock<ClientSlot>,
}

/// A client's share of the limit on clients; released when dropped.
enum ClientSlot {
    /// A connection.
    Stdio(#[expect(dead_code, reason = "held, not read")] Share),
    /// An MCP session over HTTP.
    Http(#[expect(dead_code, reason = "held, not read")] Arc<Bound>),
}

impl Handler {
    /// For a client on stdio.
    pub fn on_stdio(hub: Hub, pipe: Arc<Pipe>, toolset: Toolset, place: Share) -> Self {
        let place = OnceLock::from(ClientSlot::Stdio(place));
        Self { hub, calls: Calls::default(), pipe: Some(pipe), toolset, place }
    }

    /// For a client over HTTP. Its share of the limit is taken by its first request.
    pub fn over_http(hub: Hub) -> Self {
        Self { hub, calls: Calls::default(), pipe: None, toolset: Toolset::Default, place: OnceLock::new() }
    }

    /// Counts an MCP session for as long as this client lives.
    pub(super) fn hold(&self, bound: Arc<Bound>) {
        let _ = self.place.set(ClientSlot::Http(bound));
    }

    /// The caller and its session.
    pub(super) fn seat(&self, context: &RequestContext<RoleServer>) -> Result<Seat, Refusal> {
        let client = seat::client_name(context);
        if let Some(pipe) = &self.pipe {
            return pipe.seat(&self.hub, &client);
        }
        let parts = context.extensions.get::<Parts>();
        let parts = parts.ok_or_else(|| Refusal::internal("an MCP request has no HTTP request"))?;
        seat::of_request(engine_of(parts)?, &parts.headers, &client)
    }

    /// Whether the client still waits for the response.
    pub(super) fn is_heard(&self, context: &RequestContext<RoleServer>) -> bool {
        !context.ct.is_cancelled() && self.pipe.as_ref().is_none_or(|pipe| !pipe.is_released())
    }

    /// Waits for output of a run that the model has not seen, or after `offset` of one stream, or for its end.
    pub(super) async fn more_output(
        &self,
        seat: &Seat,
        run_id: &RunId,
        read: Option<(Stream, u64)>,
        wait: Duration,
    ) -> Result<(), OpError> {
        let agent = seat.engine.scope().agent();
        let mut seen = self.hub.seen.of(agent, &seat.session, run_id);
        match read {
            Some((Stream::Stdout, offset)) => seen[0] = offset,
            Some((Stream::Stderr, offset)) => seen[1] = offset,
            None => {}
        }
        seat.engine.runs().more_output(&seat.session, run_id, seen, wait).await
    }

    /// Remembers how much of a run's output was shown.
    pub(super) fn output_shown(&self, seat: &Seat, view: &RunView) {
        if view.status == RunStatus::Running {
            let bytes = [view.stdout.total, view.stderr.total];
            self.hub.seen.note(seat.engine.scope().agent(), &seat.session, &view.run_id, bytes);
        }
    }

    /// Remembers that a run's notices were shown. True if they had not been shown before.
    pub(super) fn notices_told(&self, seat: &Seat, view: &RunView) -> bool {
        let agent = seat.engine.scope().agent();
        !view.notices.is_empty() && self.hub.told.first_time(agent, &seat.session, &view.run_id)
    }

    /// Whether the tools for checkpoints are offered.
    pub(super) fn offers_undo(&self, context: &RequestContext<RoleServer>) -> bool {
        self.seat(context).is_ok_and(|seat| seat.engine.offers_undo())
    }

    /// The tools that a request may call: those of its URL, or else those of the connection.
    pub(super) fn toolset(&self, context: &RequestContext<RoleServer>) -> Result<Toolset, ErrorData> {
        let query = context.extensions.get::<Parts>().and_then(|parts| parts.uri.query());
        let asked = Toolset::in_query(query).map_err(|error| ErrorData::invalid_params(error, None))?;
        Ok(asked.unwrap_or(self.toolset))
    }
}
