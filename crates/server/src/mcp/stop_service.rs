//! `stop_service`: stops a service and everything it started.

use super::handler::Handler;
use super::service_text;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::detached::detached;
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_runtime::{OpError, STOP_GRACE, ServiceError, SessionError};
use shellkeep_session::{RunId, SessionId};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("stop_service", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { stop(handler, arguments(given)?, context).await }),
};

const DESCRIPTION: &str = "Stop a service and everything it started, killing what still runs after 5 s. Its log stays.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Id or name.
    service_id: String,
    /// Its session, if list_services shows one.
    session: Option<String>,
}

async fn stop(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let session = match &given.session {
        Some(session) => SessionId::parse(session).map_err(|error| Refusal::bad_id("session", &error))?,
        None => seat.session.clone(),
    };
    let (missing, service) = (given.service_id.clone(), given.service_id);
    let stopped = detached(async move { seat.engine.services().stop(&session, &service, STOP_GRACE).await }).await?;
    let is_run = RunId::parse(&missing).is_ok_and(|run_id| run_id.seq().is_some());
    let view = stopped.map_err(|error| match error {
        // A service may be named like a run, so this is known only afterwards.
        OpError::Service(ServiceError::NotFound { .. }) if is_run => {
            Refusal::invalid(format!("{missing} is a command; interrupt it with signal(id=\"{missing}\")"))
        }
        // The first command creates the caller's session, and the ids that this tool accepts.
        OpError::Session(SessionError::NotFound { session_id }) if given.session.is_none() => {
            OpError::Service(ServiceError::NotFound { session_id, service_id: missing }).into()
        }
        other => other.into(),
    })?;
    answer(service_text::service(&view, None), &translate::service(view))
}
