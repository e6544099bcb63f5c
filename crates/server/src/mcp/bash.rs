//! `bash`: the classic tool, over the same sessions. Its callers know `command` and `restart`, get text back, and wait up
//! to 120 seconds.

use super::execute::execute;
use super::handler::Handler;
use super::schema;
use super::text::{MODEL_OUTPUT, Style};
use super::tool::{Entry, arguments};
use crate::refusal::Refusal;
use crate::translate;
use axum::http::StatusCode;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::RunRequest;
use shellkeep_runtime::{OpError, RunCommand, SessionError};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define,
    call: |handler, given, context| Box::pin(async move { call(handler, arguments(given)?, context).await }),
};

/// Its name.
const NAME: &str = "bash";

/// The timeout of the classic tool.
const TIMEOUT_SECONDS: f64 = 120.0;

const DESCRIPTION: &str = "Run commands in a bash shell.

The shell persists between calls: working directory, variables, functions and background jobs stay. The result is the \
command's output followed by its error output, and its exit code where that is not 0. Commands are killed after \
120 seconds; the shell stays usable. Do not start programs that wait for input. Output beyond 30,000 bytes is \
shown as head and tail: redirect large outputs to a file and look at parts of it.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The bash command to run. Required unless the tool is being restarted.
    command: Option<String>,
    /// true restarts the shell with a clean state, if the host allows it.
    restart: Option<bool>,
}

async fn call(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    if given.restart == Some(true) {
        return restart(handler, context).await;
    }
    let Some(command) = given.command else {
        return Err(Refusal::invalid("command: missing; pass the command to run"));
    };
    let request =
        RunRequest { command, timeout: Some(TIMEOUT_SECONDS), max_output: Some(MODEL_OUTPUT), ..RunRequest::default() };
    let command = RunCommand { tool_name: Some(NAME.to_owned()), ..translate::run(request)? };
    execute(handler, context, command, Style::Classic).await
}

async fn restart(handler: &Handler, context: &RequestContext<RoleServer>) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    if !seat.engine.may_restart() {
        let detail = "permission denied: the host does not allow restarts (agent_may_restart is off). A restart is not \
            needed: a hung command is killed at its timeout, and the shell keeps its state. To reset the state, use \
            `cd` and `unset`";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", detail));
    }
    match seat.engine.restart(&seat.session).await {
        // A session that was never used is already clean.
        Ok(_) | Err(OpError::Session(SessionError::NotFound { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(CallToolResult::success(vec![ContentBlock::text("tool has been restarted.")]))
}

/// Without an output schema: a restart returns no command result, and a schema would require one.
fn define() -> Tool {
    Tool::new(NAME, DESCRIPTION, schema::of_arguments::<Arguments>())
        .with_title("Bash")
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true))
}
