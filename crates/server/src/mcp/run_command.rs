//! `run_command`: a command in the session's shell.

use super::execute::execute;
use super::handler::Handler;
use super::schema;
use super::text::{MODEL_OUTPUT, Style};
use super::tool::{Entry, arguments, offered_arguments};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::RunRequest;
use shellkeep_runtime::{DEFAULT_TIMEOUT, RunCommand};
use std::sync::Arc;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined(schema::without(schema::of_arguments::<Arguments>(), TTY)),
    call: |handler, given, context| {
        Box::pin(async move {
            let given: Arguments = offered_arguments(given, TTY)?;
            if given.tty.is_some() {
                return Err(Refusal::invalid(NO_TERMINAL_TOOLS));
            }
            call(handler, given, context).await
        })
    },
};

/// The same with the argument `tty`, for those who can read a screen.
pub const WITH_TERMINAL: Entry = Entry {
    define: || defined(schema::of_arguments::<Arguments>()),
    call: |handler, given, context| Box::pin(async move { call(handler, arguments(given)?, context).await }),
};

const NO_TERMINAL_TOOLS: &str = "tty: you have no tools for a terminal. Use flags that avoid prompts and editors, or \
    blocking=false with send_input; if it needs a terminal, ask the host for the toolset `terminal`";

/// The argument that needs tools for a terminal.
const TTY: &str = "tty";
/// Its name.
const NAME: &str = "run_command";

const DESCRIPTION: &str =
    "Run bash in your session; returns output and exit code. The shell persists: cd, variables, functions \
and a venv carry over, even after `exit` or a crash.
- stdin is empty: use flags such as -y, or blocking=false and send_input.
- At the timeout the command is killed; the session keeps its state.
- blocking=false returns an id at once, for read_output, send_input and signal; the session is busy until it ends.
- Servers and watchers: start_service.
- Long output is cut; read or search the rest with read_output.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// Bash, one or more lines.
    command: String,
    /// Wait for the end (default true).
    blocking: Option<bool>,
    /// Give it a terminal, for read_screen and send_keys. Implies blocking=false.
    tty: Option<bool>,
    /// Seconds. Default 30; 86400 with blocking=false.
    timeout: Option<f64>,
    /// For this command only.
    cwd: Option<String>,
    /// Idempotency key: a repeat returns the first result.
    request_id: Option<String>,
}

impl From<Arguments> for RunRequest {
    fn from(given: Arguments) -> Self {
        Self {
            command: given.command,
            timeout: given.timeout,
            blocking: given.blocking.or(given.tty.map(|tty| !tty)),
            tty: given.tty,
            cwd: given.cwd,
            request_id: given.request_id,
            max_output: Some(MODEL_OUTPUT),
            ..Self::default()
        }
    }
}

async fn call(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let command = translate::run(given.into())?;
    // A model that does not wait for the end does not wait for a day to learn that its session is busy.
    let patience = (!command.blocking).then(|| command.timeout.min(DEFAULT_TIMEOUT));
    let command = RunCommand { tool_name: Some(NAME.to_owned()), patience, ..command };
    let style = if command.terminal.is_some() { Style::Terminal } else { Style::Full };
    execute(handler, context, command, style).await
}

fn defined(schema: Arc<JsonObject>) -> Tool {
    Tool::new(NAME, DESCRIPTION, schema).with_annotations(ToolAnnotations::new().read_only(false).destructive(true))
}
