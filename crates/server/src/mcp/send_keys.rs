//! `send_keys`: types at the terminal of a command, and shows what it draws then.

use super::handler::Handler;
use super::read_screen::{self, QUIET};
use super::target::Target;
use super::text;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::json;
use shellkeep_protocol::{InputRequest, RunStatus};
use shellkeep_runtime::{OpError, RunError};
use std::time::Duration;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("send_keys", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { send(handler, arguments(given)?, context).await }),
};

/// Seconds to wait for a screen that does not change any longer. Some never stop changing.
const SETTLES_IN: f64 = 2.0;

const DESCRIPTION: &str = "Type at the terminal of a command started with tty=true, then show its screen.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Its id, such as r12.
    id: String,
    /// Each is a key (Enter, Esc, Tab, Up, PageDown, F1, C-c, M-x) or text.
    keys: Vec<String>,
}

async fn send(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let run_id = Target::run_with_terminal(&given.id)?;
    let query = translate::screen_query(Some(QUIET), Some(SETTLES_IN), None)?;
    let keys = translate::input(InputRequest { keys: Some(given.keys), ..InputRequest::default() })?;
    seat.type_into(&run_id, keys).await?;
    match seat.screen(&run_id, query).await {
        // The keys ended it.
        Err(OpError::Run(RunError::Ended { .. })) => {}
        shown => return read_screen::show(&seat, shown?).await,
    }
    let run = seat.engine.runs().view(&seat.session, &run_id, Duration::ZERO, 0).await?.run;
    let data = json!({"run_id": run_id.as_str(), "status": RunStatus::from(run.status), "exit_code": run.exit_code});
    answer(text::standing(&run), &data)
}
