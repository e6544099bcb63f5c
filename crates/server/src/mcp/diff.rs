//! `diff`: the differences between the workspace's files at two moments.

use super::handler::Handler;
use super::plain::plain;
use super::text::{MODEL_OUTPUT, paragraph};
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::{DiffResponse, FileChange};
use shellkeep_runtime::{CheckpointError, DiffQuery, Moment, OpError, SessionError};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("diff", DESCRIPTION, Effect::Reads),
    call: |handler, given, context| Box::pin(async move { diff(handler, arguments(given)?, context).await }),
};

/// How many files are listed when the patch is too long.
const NAMED: usize = 100;

const DESCRIPTION: &str = "Show how your workspace's files differ between two moments, as a patch.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// r12 (after that run), -2 (before the last 2 changing runs), a checkpoint or a time. Default -1.
    from: Option<String>,
    /// Default: now.
    to: Option<String>,
    /// Only this file or directory.
    path: Option<String>,
}

async fn diff(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let from = match given.from.as_deref() {
        Some(from) => translate::moment("from", from)?,
        None => Moment::Back(1),
    };
    let to = given.to.as_deref().map(|to| translate::moment_or_now("to", to)).transpose()?.flatten();
    let only = given.path.clone();
    let path = translate::path(given.path, None)?;
    let query = DiffQuery { from: Some(from), to, path, patch: Some(MODEL_OUTPUT), ..DiffQuery::default() };
    let is_default = given.from.is_none();
    let view = match seat.engine.files().diff(&seat.session, query).await {
        Err(
            OpError::Checkpoint(CheckpointError::NoSuchMoment { .. }) | OpError::Session(SessionError::NotFound { .. }),
        ) if is_default => {
            return Ok(CallToolResult::success(vec![rmcp::model::ContentBlock::text(
                "No command has changed anything yet, so there is nothing to compare.",
            )]));
        }
        found => found?,
    };
    let diff = translate::diff(view);
    let words = match only {
        Some(path) if diff.files.is_empty() => {
            let workspace = seat.engine.get(&seat.session).await?.meta.workspace;
            format!(
                "Nothing differs at '{}'. If you expected a change, check the path: it is relative to your workspace {}, \
                 and what is ignored there is not saved.",
                plain(&path),
                workspace.to_text()
            )
        }
        _ => in_words(&diff),
    };
    answer(words, &diff)
}

fn in_words(diff: &DiffResponse) -> String {
    if diff.files.is_empty() {
        return "No file differs.".to_owned();
    }
    let mut text = plain(diff.patch.as_deref().unwrap_or_default());
    if diff.truncated {
        paragraph(&mut text, "[the patch is truncated; pass path to see one file. All that differ:]");
        diff.files.iter().take(NAMED).for_each(|file| paragraph(&mut text, &line(file)));
        if diff.files.len() > NAMED {
            paragraph(&mut text, &format!("and {} more", diff.files.len() - NAMED));
        }
    }
    text
}

/// A file that differs, in one line.
pub fn line(file: &FileChange) -> String {
    let lines = [("+", file.insertions), ("-", file.deletions)];
    let lines =
        lines.iter().filter_map(|(sign, lines)| lines.filter(|lines| *lines > 0).map(|n| format!(" {sign}{n}")));
    format!("{} {}{}", file.kind, plain(&file.path), lines.collect::<String>())
}
