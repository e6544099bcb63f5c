//! `list_services`: running and recently ended services.

use super::handler::Handler;
use super::seat::Seat;
use super::service_text;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_runtime::{OpError, ServiceView, SessionError};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("list_services", DESCRIPTION, Effect::Reads),
    call: |handler, given, context| {
        Box::pin(async move {
            let Arguments {} = arguments(given)?;
            list(handler, context).await
        })
    },
};

const DESCRIPTION: &str = "List your services, running and recently ended: id, name, status, pid, ports, exit code.";

/// Its arguments: none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

async fn list(handler: &Handler, context: &RequestContext<RoleServer>) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let own = match seat.engine.services().list(&seat.session).await {
        // The first command creates the session.
        Err(OpError::Session(SessionError::NotFound { .. })) => Vec::new(),
        found => found?,
    };
    let elsewhere = elsewhere(&seat, &own).await?;
    let text = service_text::list(&own, &elsewhere);
    answer(text, &translate::service_list(own.into_iter().chain(elsewhere).collect()))
}

/// An agent's services in its other sessions, which count towards its quota like those in this one. The host's would be
/// everyone's, which a model should not see.
async fn elsewhere(seat: &Seat, own: &[ServiceView]) -> Result<Vec<ServiceView>, Refusal> {
    if seat.engine.scope().agent().is_none() {
        return Ok(Vec::new());
    }
    let mut all = seat.engine.services().all(None).await?;
    // Compared with the full id, because the seat may have the short name. If this session has no services, none of
    // these can be its own.
    all.retain(|view| !own.iter().any(|known| known.session_id == view.session_id));
    Ok(all)
}
