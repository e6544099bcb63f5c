//! `read_output`: what a run printed, while it runs and afterwards.

use super::handler::Handler;
use super::schema;
use super::text::{self, MODEL_OUTPUT, Style, paragraph};
use super::tools::{Entry, answer, arguments};
use crate::http::problem::Refusal;
use crate::http::translate;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::{Deserialize, Serialize};
use shellkeep_protocol::{OutputParams, OutputResponse, RunStatus as WireStatus, StreamName};
use shellkeep_runtime::{OpError, OutputPage, RunView};
use shellkeep_session::{RunId, RunStatus};
use std::time::Duration;
use utoipa::ToSchema;

/// The tool.
pub const TOOL: Entry = Entry {
    define,
    call: |handler, given, context| Box::pin(async move { read(handler, arguments(given)?, context).await }),
};

const DESCRIPTION: &str = "Read what a command printed: to follow one that was started with blocking=false, or to see \
the part of a long output that run_command left out. Nothing is run again.

Returns up to 30,000 bytes of one stream, whether the command still runs, and its exit code once it has ended. Read on \
from where you stopped with offset; jump to the end with tail; find lines with grep. Output is kept after the command \
has ended.";

/// What it takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The id that run_command returned (`run_id`), such as r12.
    id: String,
    /// Which stream: stdout (the default) or stderr.
    stream: Option<StreamName>,
    /// First byte to return; go on with the `next_offset` of the last answer.
    #[schema(default = 0)]
    offset: Option<u64>,
    /// Only the last so many bytes, up to 30000 (with grep: search only these).
    tail: Option<u64>,
    /// Only lines that match this regular expression.
    grep: Option<String>,
}

/// What it gives.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    /// Which stream.
    stream: StreamName,
    /// The text.
    text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Where it starts.
    offset: u64,
    /// Where to read on; equal to `total` at the end.
    next_offset: u64,
    /// Bytes written so far.
    total: u64,
    /// Whether the command has ended, so that `total` is final.
    complete: bool,
    /// How the command stands.
    status: WireStatus,
    /// Its exit code, once it has one.
    exit_code: Option<i32>,
}

async fn read(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let run_id = RunId::parse(&given.id).map_err(|error| Refusal::bad_id("id", &error))?;
    let no_session = |error| match error {
        // The session is made by its first command, and so are the ids this tool takes.
        OpError::SessionNotFound { session_id } => OpError::RunNotFound { session_id, run_id: run_id.to_string() },
        other => other,
    };
    // With more than fits, the first bytes of the tail would come back, and not the last.
    let tail = if given.grep.is_some() { given.tail } else { given.tail.map(|tail| tail.min(MODEL_OUTPUT as u64)) };
    let params = OutputParams {
        stream: given.stream,
        offset: given.offset,
        limit: Some(MODEL_OUTPUT as u64),
        tail,
        grep: given.grep,
    };
    let query = translate::output(params);
    let (stream, searched) = (query.stream, query.grep.is_some());
    let mut page = seat.engine.output(&seat.session, &run_id, query).await.map_err(no_session)?;
    let run = seat.engine.run_view(&seat.session, &run_id, Duration::ZERO, 0).await?;
    if !searched {
        whole_characters(&mut page);
    }
    let notices = if run.status != RunStatus::Running && handler.notices_told(&seat, &run) {
        text::notices_in_words(&run.notices)
    } else {
        String::new()
    };
    let page = translate::output_page(stream, page);
    answer(in_words(notices, &page, &run), &with_status(page, &run))
}

/// Leaves a character that was cut at the end to the next page.
fn whole_characters(page: &mut OutputPage) {
    let Err(error) = std::str::from_utf8(&page.bytes) else { return };
    let cut = page.bytes.len() - error.valid_up_to();
    if error.error_len().is_none() && error.valid_up_to() > 0 && page.next_offset < page.total {
        page.bytes.truncate(error.valid_up_to());
        page.next_offset -= cut as u64;
    }
}

fn in_words(mut text: String, page: &OutputResponse, run: &RunView) -> String {
    paragraph(&mut text, &page.text);
    let OutputResponse { offset, next_offset, total, .. } = *page;
    let id = &run.run_id;
    if next_offset < total && next_offset > offset {
        let range = format!("[bytes {offset} to {next_offset} of {total}; read on with offset={next_offset}]");
        paragraph(&mut text, &range);
    } else if page.text.is_empty() {
        paragraph(&mut text, &format!("[nothing at offset {offset}; {total} bytes were written]"));
    }
    let ending = match run.status {
        RunStatus::Running => format!("[{id} is still running]"),
        RunStatus::Exited => format!("[{id} has ended, exit code {}]", run.exit_code.unwrap_or_default()),
        _ => text::ending(run, Style::Full),
    };
    paragraph(&mut text, &ending);
    text
}

fn with_status(page: OutputResponse, run: &RunView) -> Answer {
    let OutputResponse { stream, text, base64, offset, next_offset, total, complete } = page;
    let status = run.status.into();
    Answer { stream, text, base64, offset, next_offset, total, complete, status, exit_code: run.exit_code }
}

fn define() -> Tool {
    Tool::new("read_output", DESCRIPTION, schema::of_arguments::<Arguments>())
        .with_title("Read a command's output")
        .with_raw_output_schema(schema::of::<Answer>())
        .with_annotations(ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false))
}
