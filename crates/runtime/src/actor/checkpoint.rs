//! Checkpoints that are taken or pruned on request, and changes to a session's files.

use super::files::{Files, files_failed, label, parent};
use super::journal::Journal;
use crate::checkpoints::{Wanted, commit_of};
use crate::crash::{self, Point};
use crate::ops::*;
use crate::pending::Pending;
use shellkeep_record::past::Past;
use shellkeep_session::{Cause, FilesAt, SessionState};
use shellkeep_workspace::repo::{ObjectId, Repo};
use shellkeep_workspace::restore::{self, Applied, Plan, RestoreError};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// This many of the newest checkpoints stay, whatever their size.
const LEAST_KEPT: usize = 5;

/// Saves the files as they are now, with a full scan; for a fork only what is known to have changed, because the copy
/// has the rest anyway. Returns the checkpoint if one was taken.
pub(super) async fn save_now(
    files: &mut Files,
    journal: &mut Journal,
    cause: Cause,
) -> Result<Option<CheckpointView>, OpError> {
    files.settle(journal).await;
    // A merge changes files itself; all others save what was there before.
    let covers = journal.state().seq + u64::from(cause == Cause::Merge);
    save_as(files, journal, Wanted::for_other(cause, covers)).await
}

/// The same, for a reason that says which records it covers.
pub(super) async fn save_as(
    files: &mut Files,
    journal: &mut Journal,
    wanted: Wanted,
) -> Result<Option<CheckpointView>, OpError> {
    files.settle(journal).await;
    let (label, parent, is_fork) = (label(&wanted, journal), parent(journal), wanted.cause == Cause::Fork);
    let save = files.with_keeper(journal, move |keeper| {
        if !is_fork {
            keeper.scan_everything();
        }
        keeper.save(&label, parent)
    });
    match save.await? {
        Err(trouble) => Err(files_failed(journal, "could not be saved", &trouble)),
        saved => Ok(files.on_saved(journal, wanted, saved)),
    }
}

/// The commit of what is there now; nothing is recorded for it.
pub(super) async fn commit_now(files: &mut Files, journal: &mut Journal) -> Result<Option<ObjectId>, OpError> {
    let wanted = Wanted::for_other(Cause::Manual, journal.state().seq);
    let label = label(&wanted, journal);
    let parent = parent(journal);
    let commit = files
        .with_keeper(journal, move |keeper| {
            keeper.scan_everything();
            keeper.draft(&label, parent)
        })
        .await?;
    commit.map_err(|trouble| files_failed(journal, "could not be scanned", &trouble))
}

/// Refuses to bring back the files of a moment if their checkpoint is not here: it was pruned, or stayed on the node that the
/// session was on.
pub(super) async fn check_kept(files: &mut Files, journal: &mut Journal, past: &Past) -> Result<(), OpError> {
    let Some((at, commit)) = past.files.as_ref().and_then(|at| Some((at, commit_of(at)?))) else { return Ok(()) };
    let is_kept =
        files.with_keeper(journal, move |keeper| keeper.repo().is_some_and(|repo| repo.objects.contains(commit)));
    if is_kept.await? { Ok(()) } else { Err(not_kept(journal.state(), at, past.seq)) }
}

/// The checkpoint of a moment's files is not here.
pub(super) fn not_kept(state: &SessionState, files: &FilesAt, moment: u64) -> OpError {
    OpError::Checkpoint(CheckpointError::NotFound {
        session_id: state.meta.session_id.to_string(),
        checkpoint: files.name.clone(),
        gone: Some(Gone::of(state, moment)),
    })
}

/// Changes the files as planned, with what is in the session's repository or in another. From the first change on, the
/// next start completes it and records what the note says if this daemon cannot.
pub(super) async fn change_files(
    files: &mut Files,
    journal: &mut Journal,
    plan: Plan,
    from: Option<PathBuf>,
    note: Vec<u8>,
) -> Result<(Applied, Pending), OpError> {
    let (data_dir, id) = (files.ctx.data_dir.root().to_owned(), journal.id().clone());
    let faults = Arc::clone(files.ctx.checkpoints.faults());
    let changed = files
        .with_keeper(journal, move |keeper| {
            let at = |point| crash::point(point, id.as_str().as_bytes());
            let (workspace, home) = (keeper.workspace().to_owned(), keeper.home().to_owned());
            let other = from.map(|from| Repo::open(&from, &faults)).transpose()?.flatten();
            let staged = match other.as_ref().or(keeper.repo()) {
                Some(repo) => restore::stage(repo, &workspace, &home, &plan, &faults)?,
                // Without a repository there was never a file, and the plan is empty.
                None => return Err(RestoreError::Stage(io::ErrorKind::NotFound.into())),
            };
            at(Point::RewindStaged);
            let pending = Pending::change(&data_dir, &id).map_err(RestoreError::Stage)?;
            at(Point::RewindNoted);
            let applied = restore::apply(staged, &note, &faults);
            at(Point::RewindApplied);
            match applied {
                Ok(applied) => Ok((applied, pending)),
                Err(error) => {
                    if !matches!(error, RestoreError::Apply(_)) {
                        pending.done();
                    }
                    Err(error)
                }
            }
        })
        .await?;
    changed.map_err(|error| match error {
        RestoreError::Apply(reason) => OpError::Checkpoint(CheckpointError::Failed {
            session_id: journal.id().to_string(),
            what: "are only partly changed",
            reason: FilesReason::from(&reason as &dyn Error),
            state: "nothing is lost; fix the cause, then rewind again or restart the daemon to complete it",
        }),
        error => files_failed(journal, "could not be changed", &error),
    })
}

/// Files were changed, but the rest of the operation failed.
pub(super) fn changed_but(journal: &Journal, error: &(dyn Error + 'static)) -> OpError {
    OpError::Checkpoint(CheckpointError::Failed {
        session_id: journal.id().to_string(),
        what: "were changed, but recording that failed",
        reason: error.into(),
        state: "nothing is lost; rewind again or restart the daemon to complete it",
    })
}

/// Prunes old checkpoints if no new ones fit.
pub(super) async fn make_room(files: &mut Files, journal: &mut Journal) {
    if !std::mem::take(&mut files.is_full) {
        return;
    }
    match thin(files, journal).await {
        Ok(bytes) => tracing::info!(session = %journal.id(), bytes, "old checkpoints were pruned"),
        Err(error) => tracing::warn!(session = %journal.id(), %error, "old checkpoints could not be pruned"),
    }
}

/// Prunes old checkpoints by the policy, and more of them if the rest takes too much. Returns the bytes freed.
pub(super) async fn thin(files: &mut Files, journal: &mut Journal) -> Result<u64, OpError> {
    let config = files.ctx.checkpoints.config.clone();
    let (mut most, mut freed) = (config.keep_all, 0);
    loop {
        freed += thin_to(files, journal, most).await?;
        let size = files.with_keeper(journal, |keeper| keeper.repo().map_or(0, Repo::size)).await?;
        // Free room for several, so that the next one does not prune again.
        if size <= config.bytes_per_session / 4 * 3 || most <= LEAST_KEPT {
            return Ok(freed);
        }
        most /= 2;
    }
}

async fn thin_to(files: &mut Files, journal: &mut Journal, most: usize) -> Result<u64, OpError> {
    let keep = files.ctx.history.commits_to_keep(journal.id(), journal.state().files.as_ref(), most).await?;
    let thinned = files
        .with_keeper(journal, move |keeper| match keeper.repo_mut() {
            Some(repo) => {
                // The objects of a failed checkpoint are not needed.
                repo.abandon();
                repo.thin(&keep).map(|reclaimed| reclaimed.bytes())
            }
            None => Ok(0),
        })
        .await?;
    files.ctx.share_files(journal.state());
    thinned.map_err(|error| files_failed(journal, "in old checkpoints could not be pruned", &error))
}
