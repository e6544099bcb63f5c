//! Merging what a fork changed in the files into the session that it was forked from.

use super::checkpoint::{change_files, changed_but, commit_now, save_now};
use super::files::{Files, files_failed};
use super::journal::Journal;
use super::message::MergeOrder;
use crate::checkpoints;
use crate::file_views::{kept_back, plan_views};
use crate::notices;
use crate::ops::*;
use shellkeep_session::{ByteString, Cause, LeftOut};
use shellkeep_workspace::merge::{self, Merge};
use shellkeep_workspace::repo::{Repo, RepoError};
use std::sync::Arc;

/// Merges what a fork changed in the files.
pub(super) async fn merge(files: &mut Files, journal: &mut Journal, order: MergeOrder) -> Result<Merged, OpError> {
    files.ctx.data_dir.check_taken(journal.state(), None)?;
    let MergeOrder { fork, request, base, theirs } = order;
    let ours = commit_now(files, journal).await?;
    let choice = match request.prefer {
        None => merge::Choice::Neither,
        Some(Side::Origin) => merge::Choice::Ours,
        Some(Side::Fork) => merge::Choice::Theirs,
    };
    let (from, faults) = (files.ctx.checkpoints.repository(&fork), Arc::clone(files.ctx.checkpoints.faults()));
    let repository = from.clone();
    let theirs_now = checkpoints::path(&files.ctx.workspaces.of(&fork)).to_owned();
    let planned = files
        .with_keeper(journal, move |keeper| -> Result<Merge, RepoError> {
            let Some(fork) = Repo::open(&from, &faults)? else { return Ok(Merge::default()) };
            // Without checkpoints, there are no files.
            let own = keeper.repo().unwrap_or(&fork);
            let mut merge = merge::plan(base, (own, ours), (&fork, theirs), choice)?;
            merge::spare(&mut merge, keeper.workspace(), &theirs_now, choice);
            let failed = |source| RepoError::Io { path: keeper.workspace().to_owned(), source };
            merge::keep_unsaved(&mut merge, keeper.workspace(), choice).map_err(failed)?;
            Ok(merge)
        })
        .await?;
    let Merge { plan, conflicts, .. } = planned.map_err(|error| match error {
        RepoError::Missing { id } => OpError::Checkpoint(CheckpointError::NotFound {
            session_id: fork.to_string(),
            checkpoint: id.to_string(),
            gone: Some(Gone::Pruned),
        }),
        error => files_failed(journal, "could not be merged", &error),
    })?;
    let (changed, files_total) = plan_views(&plan);
    let told = |conflict: &merge::Conflict| LeftOut {
        path: ByteString(conflict.path.clone()),
        reason: conflict.reason.to_owned(),
    };
    let conflicts: Vec<LeftOut> = conflicts.iter().map(told).collect();
    let (into, notices) = (journal.id().clone(), Vec::new());
    let mut merged = Merged { into, seq: None, undo: None, files: changed, files_total, conflicts, notices };
    if request.dry_run || (plan.steps.is_empty() && merged.conflicts.is_empty()) {
        return Ok(merged);
    }
    if !merged.conflicts.is_empty() {
        return Err(conflict(&merged.conflicts));
    }
    save_now(files, journal, Cause::Manual).await?;
    merged.undo = Some(journal.state().seq);
    let mut done = plan.clone();
    let (applied, pending) = change_files(files, journal, plan, Some(repository), Vec::new()).await?;
    // It changed after it was compared, or it is a directory with more in it.
    if !applied.kept_back.is_empty() {
        let is_kept = |path: &[u8]| applied.kept_back.iter().any(|kept| kept.path == path);
        done.steps.retain(|step| !is_kept(&step.path));
        (merged.files, merged.files_total) = plan_views(&done);
        merged.notices.push(notices::not_merged(&kept_back(&applied.kept_back), applied.kept_back.len() as u64));
    }
    let saved = save_now(files, journal, Cause::Merge).await?;
    applied.finish().map_err(|error| changed_but(journal, &error))?;
    pending.done();
    merged.notices.extend(journal.settle().await?);
    merged.seq = saved.map(|saved| saved.seq);
    Ok(merged)
}

/// Why a merge is refused.
fn conflict(conflicts: &[LeftOut]) -> OpError {
    const NAMED: usize = 3;
    let conflicts: Vec<Conflict> = conflicts.iter().map(Conflict::from).collect();
    let first = conflicts.iter().take(NAMED).map(|conflict| conflict.path.as_str()).collect::<Vec<_>>().join(", ");
    OpError::Checkpoint(CheckpointError::MergeConflict { first, conflicts })
}
