//! `rewind`: returns files and shell to an earlier moment.

use super::diff::line;
use super::handler::Handler;
use super::text::paragraph;
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::detached::detached;
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::Deserialize;
use shellkeep_protocol::RewindResponse;
use shellkeep_runtime::{CheckpointError, OpError, Rewind, ServicesAfter, SessionError, attached};
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("rewind", DESCRIPTION, Effect::Changes),
    call: |handler, given, context| Box::pin(async move { rewind(handler, arguments(given)?, context).await }),
};

/// How many files are listed; the rest is counted.
const NAMED: usize = 30;

const DESCRIPTION: &str = "Return your workspace's files, working directory and variables to an earlier moment. What is \
replaced is saved first. Services keep running.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// undo (the last change), redo, or a moment as in diff.
    to: String,
    /// Only show what would change.
    dry_run: Option<bool>,
    /// Also undo other sessions' changes.
    force: Option<bool>,
}

async fn rewind(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let dry_run = given.dry_run.unwrap_or(false);
    let (attached, hang_up) = attached();
    let (to, services) = (translate::moment("to", &given.to)?, ServicesAfter::Leave);
    let force = given.force.unwrap_or(false);
    let request = Rewind { to, dry_run, services, force, hang_up: Some(hang_up) };
    let (engine, session) = (seat.engine, seat.session);
    // A client that goes away must not leave files half way between two moments; before that, it cancels the rewind.
    let rewound = detached(async move { engine.files().rewind(&session, request).await }).await?;
    drop(attached);
    let rewound = rewound.map_err(|error| match error {
        OpError::Session(SessionError::NotFound { .. }) => OpError::Checkpoint(CheckpointError::NothingToUndo {
            detail: "there is nothing to undo: no command has run in this session".to_owned(),
        }),
        other => other,
    })?;
    let rewound = translate::rewound(rewound, dry_run);
    answer(in_words(&rewound), &rewound)
}

fn in_words(rewound: &RewindResponse) -> String {
    let when = match (&rewound.undone, &rewound.after_run) {
        (Some(undone), _) => format!("before {undone}"),
        (None, Some(run_id)) => format!("after {run_id}"),
        (None, None) => format!("after record {}", rewound.to),
    };
    let mut text = match rewound.dry_run {
        true => format!("Would return to the state {when}."),
        false => format!("The session is as it was {when}."),
    };
    match rewound.files_total {
        0 => paragraph(&mut text, "No file changes."),
        1 => paragraph(&mut text, "1 file, compared with before:"),
        total => paragraph(&mut text, &format!("{total} files, compared with before:")),
    }
    rewound.files.iter().take(NAMED).for_each(|file| paragraph(&mut text, &line(file)));
    if rewound.files_total > NAMED as u64 {
        paragraph(&mut text, &format!("and {} more", rewound.files_total - NAMED as u64));
    }
    for kept in rewound.kept_back.iter().take(NAMED) {
        paragraph(&mut text, &format!("not changed: {} ({})", kept.path, kept.reason));
    }
    for other in rewound.of_others.iter().take(NAMED) {
        paragraph(&mut text, &format!("also changed by others: {} ({})", other.path, other.reason));
    }
    if rewound.kv_version.is_some() {
        paragraph(&mut text, "The keyed store changes too.");
    }
    paragraph(&mut text, &format!("[cwd {}]", rewound.cwd));
    if let Some(undo) = rewound.undo {
        paragraph(&mut text, &format!("[undo with rewind(to=\"{undo}\")]"));
    }
    text
}
