//! `signal`: interrupts a running command, or sends it another signal.

use super::handler::Handler;
use super::seat::no_run;
use super::text;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("signal", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { send(handler, arguments(given)?, context).await }),
};

/// The default signal: Ctrl-C.
const DEFAULT: &str = "INT";
/// How long a call waits to see whether the command ends. Most do immediately.
const END_WAIT: Duration = Duration::from_secs(1);

const DESCRIPTION: &str = "Interrupt a command started with blocking=false; the session keeps its state.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Its id, such as r12.
    id: String,
    /// INT (default, as Ctrl-C), TERM, KILL, …
    signal: Option<String>,
}

async fn send(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let target = seat.target(&given.id).await?;
    let run_id = target
        .run(|id| Refusal::invalid(format!("{id} is a service; stop it with stop_service(service_id=\"{id}\")")))?;
    let name = given.signal.as_deref().unwrap_or(DEFAULT);
    seat.engine.runs().signal(&seat.session, &run_id, name, None).await.map_err(|error| no_run(error, &run_id))?;
    let run = seat.engine.runs().view(&seat.session, &run_id, END_WAIT, 0).await?.run;
    let mut words = format!("Sent {name} to {run_id}.");
    text::paragraph(&mut words, &text::standing(&run));
    let status = shellkeep_protocol::RunStatus::from(run.status);
    let data = json!({"run_id": run_id.as_str(), "signal": name, "status": status, "exit_code": run.exit_code});
    answer(words, &data)
}
