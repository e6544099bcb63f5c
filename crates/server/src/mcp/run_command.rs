//! `run_command`: a command in the session's shell.

use super::execute::execute;
use super::schema;
use super::text::{MODEL_OUTPUT, Style};
use super::tool::{Entry, arguments};
use crate::translate;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use shellkeep_protocol::{RunRequest, RunResponse};
use shellkeep_runtime::RunCommand;
use utoipa::ToSchema;

/// The tool.
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

/// What agents call it.
const NAME: &str = "run_command";

const DESCRIPTION: &str = "Run a bash command in your session and get its output and exit code.

The session is one shell that persists: working directory, exported and plain variables, functions, aliases, options and \
an activated venv carry over from call to call, also after `exit`, a crash or days of silence. So `cd` once and stay \
there. If something could not be kept (a background job, an open file), a [notice] at the top of the result says so.

- Pipes, loops, heredocs and several lines are fine; it is plain bash.
- stdin is empty unless you redirect it (`<file`, a heredoc) or use blocking=false and send_input. Use flags such as -y \
for programs that ask.
- The default timeout is 30 seconds. On timeout the command is killed; the session keeps its state. For builds and tests \
set a longer timeout, up to 86400.
- Servers, watchers, databases and anything else that should keep running: use start_service, which gives them a log, waits until \
they are ready, and keeps them running when everything else ends. A command that ends in `&` is fine too, for a short job.
- For a long or interactive command use blocking=false: it returns an id at once; follow it with \
read_output(id) and type into it with send_input(id). The session is busy until it ends.
- A command that fails is a normal result with its exit code. Output beyond 30,000 bytes is shown as head and tail; read \
or search the rest with read_output(id, offset or grep) instead of running the command again.";

/// What it takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The bash command, as you would type it. May be several lines.
    #[schema(example = "cd src && make test")]
    command: String,
    /// true (the default): wait for the end. false: return at once with an id for read_output and send_input.
    #[schema(default = true)]
    blocking: Option<bool>,
    /// Seconds before the command is killed. Also applies with blocking=false.
    #[schema(default = 30, exclusive_minimum = 0, maximum = 86400)]
    timeout: Option<f64>,
    /// Directory for this command only. Omit it to use the session's working directory.
    cwd: Option<String>,
    /// A key of your choice (letters, digits, . _ : -). The same key again returns the first call's result and runs
    /// nothing, so a call whose answer was lost can be repeated safely.
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
        .with_title("Run a command")
        .with_raw_output_schema(schema::of::<RunResponse>())
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true))
}
