//! What the protocol asks of a server. One handler per client: on stdio for a connection, over HTTP for an MCP session
//! or, since 2026-07-28, for one request.

use super::calls::Calls;
use super::hints::refusal_in_words;
use super::seat::{self, Pipe, Seat};
use super::streamable::Bound;
use super::tools::{self, Toolset};
use super::{Hub, engine_of, resources};
use crate::refusal::Refusal;
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use shellkeep_runtime::{RunView, Share};
use std::sync::{Arc, OnceLock};

const INSTRUCTIONS: &str = "A durable bash session. State (working directory, variables, functions, options) carries \
over from call to call and survives crashes and restarts; you need not save or restore anything. Servers and watchers are \
started with start_service and run on by themselves.";

/// Methods the SDK knows. A request of one of these that it hands us as unknown had parameters it could not read.
const KNOWN_METHODS: &[&str] = &["tools/call", "resources/read", "initialize", "completion/complete", "prompts/get"];

/// The server for one client.
pub struct Handler {
    pub(super) hub: Hub,
    pub(super) calls: Calls,
    /// The connection, for a client on stdio. Over HTTP every request says again who it is.
    pipe: Option<Arc<Pipe>>,
    toolset: Toolset,
    place: OnceLock<Place>,
}

/// What a client has of the places there are. It is free again when nobody holds it.
pub(super) enum Place {
    /// A connection.
    Stdio(#[expect(dead_code, reason = "held, not read")] Share),
    /// An MCP session over HTTP.
    Http(#[expect(dead_code, reason = "held, not read")] Arc<Bound>),
}

impl Handler {
    /// For a client on stdio.
    pub fn on_stdio(hub: Hub, pipe: Arc<Pipe>, toolset: Toolset, place: Share) -> Self {
        let place = OnceLock::from(Place::Stdio(place));
        Self { hub, calls: Calls::default(), pipe: Some(pipe), toolset, place }
    }

    /// For a client over HTTP. Its place comes with its first request.
    pub fn over_http(hub: Hub) -> Self {
        Self { hub, calls: Calls::default(), pipe: None, toolset: Toolset::Default, place: OnceLock::new() }
    }

    /// The caller and its session.
    pub(super) fn seat(&self, context: &RequestContext<RoleServer>) -> Result<Seat, Refusal> {
        let client = seat::client_name(context);
        if let Some(pipe) = &self.pipe {
            return pipe.seat(&self.hub, &client);
        }
        let parts = context.extensions.get::<Parts>();
        let parts = parts.ok_or_else(|| Refusal::internal("an MCP request came without its HTTP request"))?;
        seat::of_request(engine_of(parts)?, &parts.headers, &client)
    }

    /// Whether anybody is left to hear the answer.
    pub(super) fn is_heard(&self, context: &RequestContext<RoleServer>) -> bool {
        !context.ct.is_cancelled() && self.pipe.as_ref().is_none_or(|pipe| !pipe.is_released())
    }

    /// Remembers that a run's notices were told. True if they had not been told before.
    pub(super) fn notices_told(&self, seat: &Seat, view: &RunView) -> bool {
        let agent = seat.engine.scope().agent();
        !view.notices.is_empty() && self.hub.told.first_time(agent, &seat.session, &view.run_id)
    }

    fn toolset(&self, context: &RequestContext<RoleServer>) -> Result<Toolset, ErrorData> {
        let query = context.extensions.get::<Parts>().and_then(|parts| parts.uri.query()).unwrap_or_default();
        match query.split('&').find_map(|pair| pair.strip_prefix("toolset=")) {
            Some(name) => name.parse().map_err(|error: &str| ErrorData::invalid_params(error, None)),
            None => Ok(self.toolset),
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let about = Implementation::new("shellkeep", env!("CARGO_PKG_VERSION"))
            .with_title("shellkeep")
            .with_description("Durable bash sessions for AI agents");
        InitializeResult::new(capabilities).with_server_info(about).with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        if let Some(bound) = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Arc<Bound>>()) {
            let _ = self.place.set(Place::Http(Arc::clone(bound)));
        }
        let mut info = self.negotiate_initialize(&request)?;
        if let Some(pipe) = &self.pipe
            && let Ok(seat) = pipe.seat(&self.hub, &request.client_info.name)
        {
            let session = &seat.session;
            info.instructions = Some(format!(
                "{INSTRUCTIONS} Your session is '{session}'; a person can look into it with `shellkeep run -s {session} \
                 -- 'pwd'`."
            ));
        }
        Ok(info)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.toolset(&context)?.definitions().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let all = [Toolset::Default, Toolset::Bash].into_iter().flat_map(Toolset::definitions);
        all.into_iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.toolset(&context)?.find(&request.name)?;
        let called = (tool.call)(self, request.arguments.unwrap_or_default(), &context).await;
        Ok(called.unwrap_or_else(|refusal| tools::refused(&refusal)).into())
    }

    async fn on_cancelled(&self, notification: CancelledNotificationParam, _context: NotificationContext<RoleServer>) {
        if let Some(id) = notification.request_id {
            self.calls.cancel(id);
        }
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.seat(&context).map_err(|refusal| protocol_error(&refusal))?).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let seat = self.seat(&context).map_err(|refusal| protocol_error(&refusal))?;
        resources::read(&seat.engine, &request.uri).await.map(Into::into)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if KNOWN_METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("the parameters of {method} are missing or wrong"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method '{method}'"), None))
    }
}

/// A refusal where there is no tool's result to put it into.
pub fn protocol_error(refusal: &Refusal) -> ErrorData {
    let words = refusal_in_words(refusal);
    match refusal.problem().status {
        404 => ErrorData::resource_not_found(words, None),
        400..500 => ErrorData::invalid_params(words, None),
        _ => ErrorData::internal_error(words, None),
    }
}
