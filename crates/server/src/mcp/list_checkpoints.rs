//! `list_checkpoints`: which commands changed files, and which checkpoint the files match now.

use super::handler::Handler;
use super::plain::plain;
use super::seat::Seat;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::{Checkpoint, CheckpointCause, CheckpointList};
use shellkeep_runtime::{OpError, SessionError};
use shellkeep_session::plan::shorten;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("list_checkpoints", DESCRIPTION, Effect::Reads),
    call: |handler, given, context| Box::pin(async move { list(handler, arguments(given)?, context).await }),
};

/// How many checkpoints are shown by default.
const SHOWN: usize = 10;
/// Maximum number of checkpoints in one response.
const MOST: usize = 100;
/// Records that are searched first for the newest checkpoints; then four times as many, and so on.
const FIRST_LOOK: u64 = 256;

const DESCRIPTION: &str =
    "List the commands that changed files in your workspace, newest first, with ids for diff and rewind.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Default 10, at most 100.
    limit: Option<usize>,
}

async fn list(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let limit = given.limit.unwrap_or(SHOWN);
    if !(1..=MOST).contains(&limit) {
        return Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MOST}")));
    }
    let newest = match newest(&seat, limit).await {
        // The first command creates the session.
        Err(OpError::Session(SessionError::NotFound { .. })) => {
            CheckpointList { checkpoints: Vec::new(), next: None, current: None }
        }
        found => found?,
    };
    if newest.checkpoints.is_empty() {
        let saved = seat.saved_files().await;
        let saved = saved.as_deref().unwrap_or("Files outside the workspace are not saved.");
        return answer(format!("No command has changed files in your workspace yet. {saved}"), &newest);
    }
    answer(in_words(&newest), &newest)
}

/// The newest checkpoints, newest first. Searches as far back as necessary.
async fn newest(seat: &Seat, limit: usize) -> Result<CheckpointList, OpError> {
    let last = seat.engine.get(&seat.session).await?.seq;
    let mut look = FIRST_LOOK;
    loop {
        let mut after = last.saturating_sub(look);
        let is_all = after == 0;
        let (mut found, current) = loop {
            let page =
                seat.engine.files().checkpoints(&seat.session, after, shellkeep_runtime::MAX_CHECKPOINT_PAGE).await?;
            match page.next {
                // There are more than fit into a page: only the last ones matter.
                Some(next) => after = next,
                None => break (page.checkpoints, page.current),
            }
        };
        if found.len() >= limit || is_all {
            found.reverse();
            found.truncate(limit);
            let checkpoints = found.into_iter().map(translate::checkpoint).collect();
            return Ok(CheckpointList { checkpoints, next: None, current: current.map(|current| current.name) });
        }
        look = look.saturating_mul(4);
    }
}

fn in_words(list: &CheckpointList) -> String {
    let current = list.current.as_deref();
    let lines = list.checkpoints.iter().map(|checkpoint| line(checkpoint, current));
    // The newest one that the files do not match already.
    let is_other = |checkpoint: &&Checkpoint| checkpoint.kept && current != Some(checkpoint.checkpoint_id.as_str());
    let hint = list.checkpoints.iter().find(is_other).map(|checkpoint| {
        let id = checkpoint.run_id.as_ref().unwrap_or(&checkpoint.checkpoint_id);
        format!("[diff(from=\"{id}\") shows what changed since then, rewind(to=\"{id}\") returns to it]")
    });
    lines.chain(hint).collect::<Vec<_>>().join("\n")
}

fn line(checkpoint: &Checkpoint, current: Option<&str>) -> String {
    let Checkpoint { checkpoint_id, added, changed, deleted, .. } = checkpoint;
    let counts = [(added, "added"), (changed, "changed"), (deleted, "deleted")];
    let counts = counts.iter().filter(|(count, _)| **count > 0).map(|(count, verb)| format!("{count} {verb}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let (name, what) = match (&checkpoint.run_id, &checkpoint.command) {
        (Some(run_id), Some(command)) => (run_id.as_str(), format!("`{}`", plain(&shorten(command)))),
        (Some(run_id), None) => (run_id.as_str(), "a command".to_owned()),
        (None, _) if checkpoint.cause == CheckpointCause::Base => {
            (checkpoint_id.as_str(), "the files as the session began".to_owned())
        }
        (None, _) => (checkpoint_id.as_str(), format!("({})", checkpoint.cause)),
    };
    let gone = if checkpoint.kept { "" } else { " [no longer kept]" };
    let here = if current == Some(checkpoint_id) { " <- the files are here" } else { "" };
    format!(
        "{name} {} {what}: {}{gone}{here}",
        to_the_second(&checkpoint.created_at),
        if counts.is_empty() { "no change" } else { &counts }
    )
}

/// A time without fractions of a second.
fn to_the_second(at: &str) -> String {
    at.split_once('.').map_or_else(|| at.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}
