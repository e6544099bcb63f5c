//! Sessions that work in the same directory: what they have changed since a moment, which a rewind would take back.

use super::files::files_failed;
use super::journal::Journal;
use crate::checkpoints::commit_of;
use crate::context::SessionContext;
use crate::ops::{CheckpointError, CheckpointView, Conflict, MAX_NAMED_FILES, OpError};
use crate::stored::read_error;
use crate::tasks;
use shellkeep_session::{ByteString, Cause, LeftOut, SessionId, SessionMeta};
use shellkeep_workspace::diff;
use shellkeep_workspace::repo::{Repo, RepoError};
use shellkeep_workspace::restore::Plan;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Sessions that are read from the store at a time.
const PAGE: usize = 500;

/// The paths of a plan that sessions in the same directory have changed since a record, and who did. A directory of the
/// session's own has no others.
pub(super) async fn changed_since(
    ctx: &SessionContext,
    journal: &Journal,
    seq: u64,
    plan: &Plan,
) -> Result<Vec<LeftOut>, OpError> {
    let meta = &journal.state().meta;
    if plan.steps.is_empty() || ctx.workspaces.owns(&meta.workspace) {
        return Ok(Vec::new());
    }
    let history = &ctx.history;
    let Some(since) = history.time_of(journal.id(), seq).await? else { return Ok(Vec::new()) };
    let planned: Arc<HashSet<Vec<u8>>> = Arc::new(plan.steps.iter().map(|step| step.path.clone()).collect());
    let mut found = BTreeMap::new();
    for other in in_same_directory(ctx, journal).await? {
        let mut checkpoints = history.checkpoints_after(&other.id, 0, usize::MAX).await?;
        checkpoints.retain(|view| view.at > since && is_work(view));
        if checkpoints.is_empty() {
            continue;
        }
        // Another agent's session is not named.
        let name = if other.agent == meta.agent { format!("session '{}'", other.id) } else { "another session".into() };
        let (directory, faults) = (ctx.checkpoints.repository(&other.id), Arc::clone(ctx.checkpoints.faults()));
        let planned = Arc::clone(&planned);
        let reading = tasks::blocking(move || {
            let Some(repo) = Repo::open(&directory, &faults)? else { return Ok(Vec::new()) };
            changed(&repo, &checkpoints, &planned)
        });
        let changes: Result<_, RepoError> = reading.await?;
        let changes = changes
            .map_err(|error| files_failed(journal, "could not be compared with those of other sessions", &error))?;
        found.extend(changes.into_iter().map(|(path, who)| (path, format!("{name} changed it{who}"))));
    }
    let told = |(path, reason)| LeftOut { path: ByteString(path), reason };
    Ok(found.into_iter().map(told).take(MAX_NAMED_FILES).collect())
}

/// Refuses a rewind that would take back what others have changed.
pub(crate) fn refuse(of_others: &[LeftOut]) -> Result<(), OpError> {
    let Some(first) = of_others.first() else { return Ok(()) };
    let first = format!("{}: {}", first.path.to_text(), first.reason);
    Err(CheckpointError::OfOthers { first, of_others: of_others.iter().map(Conflict::from).collect() }.into())
}

/// Another session in the same directory.
struct Other {
    id: SessionId,
    agent: Option<String>,
}

async fn in_same_directory(ctx: &SessionContext, journal: &Journal) -> Result<Vec<Other>, OpError> {
    let workspace = &journal.state().meta.workspace;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = ctx.store.list(None, after.as_ref(), PAGE).await;
        let page = page.map_err(|error| read_error(journal.id(), error))?;
        let is_last = page.len() < PAGE;
        for summary in page {
            let SessionMeta { session_id, agent, workspace: other, .. } = summary.meta;
            after = Some(session_id.clone());
            if other == *workspace && session_id != *journal.id() {
                found.push(Other { id: session_id, agent });
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// Whether a checkpoint is of what its session itself did.
fn is_work(view: &CheckpointView) -> bool {
    matches!(view.checkpoint.cause, Cause::Tool { .. } | Cause::Merge) || view.checkpoint.tool_name.is_some()
}

/// Which of the paths these checkpoints changed, and by which run.
fn changed(
    repo: &Repo,
    checkpoints: &[CheckpointView],
    paths: &HashSet<Vec<u8>>,
) -> Result<Vec<(Vec<u8>, String)>, RepoError> {
    let mut found = Vec::new();
    for view in checkpoints {
        // One that was pruned tells nothing.
        let Some(commit) = commit_of(&view.checkpoint.at).filter(|commit| repo.objects.contains(*commit)) else {
            continue;
        };
        let parent =
            repo.objects.read_commit(commit)?.parents.first().copied().filter(|parent| repo.objects.contains(*parent));
        let who = match &view.checkpoint.cause {
            Cause::Tool { run_id, .. } => format!(" in {run_id}"),
            _ => String::new(),
        };
        let changes = diff::trees(repo, parent, commit)?.into_iter().filter(|change| paths.contains(&change.path));
        found.extend(changes.map(|change| (change.path, who.clone())));
    }
    Ok(found)
}
