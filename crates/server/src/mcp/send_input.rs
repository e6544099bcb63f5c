//! `send_input`: writes to the standard input of a running command.

use super::handler::Handler;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::{InputAccepted, InputRequest};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("send_input", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { send(handler, arguments(given)?, context).await }),
};

const DESCRIPTION: &str = "Write to the stdin of a command started with blocking=false. End each line with \\n, then call \
read_output with wait.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Its id, such as r12.
    id: String,
    /// Sent exactly as given.
    text: String,
    /// Close stdin afterwards.
    eof: Option<bool>,
}

async fn send(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let run_id = seat.target(&given.id).await?.run(|id| {
        let detail = format!(
            "{id} is a service, and services read no input. Start an interactive program with run_command(blocking=false)"
        );
        Refusal::new(StatusCode::CONFLICT, "no_input", detail)
    })?;
    let eof = given.eof.unwrap_or(false);
    let input = translate::input(InputRequest { text: Some(given.text), eof, ..InputRequest::default() })?;
    let bytes = seat.type_into(&run_id, input).await?;
    let accepted = InputAccepted { run_id: run_id.to_string(), bytes };
    let ended = if eof { " and closed its stdin" } else { "" };
    let text = format!(
        "Sent {} bytes to {run_id}{ended}. Read its output with read_output(id=\"{run_id}\", wait=10).",
        accepted.bytes
    );
    answer(text, &accepted)
}
