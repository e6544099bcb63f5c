//! `run_command`: a command in the session's shell.

use super::execute::execute;
use super::schema;
use super::text::{MODEL_OUTPUT, Style};
use super::tool::{Entry, arguments};
use crate::translate;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use shellkeep_protocol::RunRequest;
use shellkeep_runtime::RunCommand;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define,
    call: |handler, given, context| {
        Box::pin(async move {
            let command = translate::run(arguments::<Arguments>(given)?.into())?;
            let command = RunCommand { tool_name: Some(NAME.to_owned()), ..command };
            execute(handler, context, command, Style::Full).await
        })
    },
};

/// Its name.
const NAME: &str = "run_command";

const DESCRIPTION: &str = "Run bash in your session; returns output and exit code. The shell persists: cd, variables, functions \
and a venv carry over, even after `exit` or a crash.
- stdin is empty: use flags such as -y, or blocking=false and send_input.
- At the timeout the command is killed; the session keeps its state.
- blocking=false returns an id at once, for read_output, send_input and signal; the session is busy until the command ends.
- Servers and watchers: start_service.
- Long output is cut; read or search the rest with read_output.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// Bash, one or more lines.
    command: String,
    /// Wait for the end (default true).
    blocking: Option<bool>,
    /// Seconds. Default 30; 86400 with blocking=false.
    timeout: Option<f64>,
    /// For this command only.
    cwd: Option<String>,
    /// Idempotency key: repeating it returns the first result.
    request_id: Option<String>,
}

impl From<Arguments> for RunRequest {
    fn from(given: Arguments) -> Self {
        Self {
            command: given.command,
            timeout: given.timeout,
            blocking: given.blocking,
            cwd: given.cwd,
            request_id: given.request_id,
            max_output: Some(MODEL_OUTPUT),
            ..Self::default()
        }
    }
}

fn define() -> Tool {
    Tool::new(NAME, DESCRIPTION, schema::of_arguments::<Arguments>())
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(true))
}
