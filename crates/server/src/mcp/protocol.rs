//! MCP's requests: what the SDK asks of a server, answered by the tools and resources.

use super::bound::Bound;
use super::handler::{Handler, Toolset};
use super::hints::protocol_error;
use super::{resources, tool, tools};
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use shellkeep_protocol::SESSION_META;
use std::sync::Arc;

const INSTRUCTIONS: &str = "A durable bash session. State (working directory, variables, functions, options) carries \
over from call to call and survives crashes and restarts; there is nothing to save or restore.";

/// What the classic tool does not offer.
const SERVICES: &str = " Start servers and watchers with start_service; they keep running.";

fn instructions(set: Toolset) -> String {
    let services = if set == Toolset::Bash { "" } else { SERVICES };
    format!("{INSTRUCTIONS}{services}")
}

/// Methods that the SDK knows. If it passes one of these on as unknown, it could not parse the parameters.
const KNOWN_METHODS: &[&str] = &["tools/call", "resources/read", "initialize", "completion/complete", "prompts/get"];

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let about = Implementation::new("shellkeep", env!("CARGO_PKG_VERSION"))
            .with_title("shellkeep")
            .with_description("Durable bash sessions for AI agents");
        InitializeResult::new(capabilities).with_server_info(about).with_instructions(instructions(self.toolset))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        if let Some(bound) = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Arc<Bound>>()) {
            self.hold(Arc::clone(bound));
        }
        let mut info = self.negotiate_initialize(&request)?;
        let mut instructions = instructions(self.toolset(&context)?);
        if let Some(pipe) = &self.pipe
            && let Ok(seat) = pipe.seat(&self.hub, &request.client_info.name)
        {
            let session = &seat.session;
            info.meta = Some(MetaObject([(SESSION_META.to_owned(), json!(session.as_str()))].into_iter().collect()));
            instructions += &format!(
                " Your session is '{session}'; a person sees what you did in it with `shellkeep log {session}`."
            );
            // Of a session that does not exist yet, the first command's result says it.
            if let Some(words) = seat.saved_files().await {
                instructions.push(' ');
                instructions.push_str(&words);
            }
        }
        info.instructions = Some(instructions);
        Ok(info)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let undo = self.offers_undo(&context);
        Ok(ListToolsResult::with_all_items(tools::definitions(self.toolset(&context)?, undo)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut all = [Toolset::Terminal, Toolset::Bash].into_iter().flat_map(|set| tools::offered(set, true));
        all.find(|(tool, _)| tool.name == name).map(|(tool, _)| tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = tools::find(self.toolset(&context)?, self.offers_undo(&context), &request.name)?;
        let called = (tool.call)(self, request.arguments.unwrap_or_default(), &context).await;
        Ok(called.unwrap_or_else(|refusal| tool::refused(&refusal)).into())
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
            return Err(ErrorData::invalid_params(format!("the parameters of {method} are missing or invalid"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method '{method}'"), None))
    }
}
