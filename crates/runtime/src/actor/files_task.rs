//! Work with a session's files that a caller asked for, done while nothing runs.

use super::checkpoint::{commit_now, save_now, thin};
use super::fork::fork;
use super::merge::merge;
use super::message::FilesTask;
use super::rewind::rewind;
use super::session::Session;
use crate::ops::{CheckpointView, OpError};
use shellkeep_session::Cause;

/// Does work with the files while nothing runs.
pub(super) async fn do_files(session: &mut Session, task: FilesTask) {
    session.files.pay_owed(&mut session.journal).await;
    match task {
        FilesTask::Checkpoint(answer) => drop(answer.send(checkpoint(session).await)),
        FilesTask::Now(answer) => drop(answer.send(commit_now(session).await)),
        FilesTask::Rewind { request, by, answer } => drop(answer.send(rewind(session, request, by).await)),
        FilesTask::Fork { order, answer } => drop(answer.send(fork(session, *order).await)),
        FilesTask::Merge { fork, request, base, theirs, answer } => {
            drop(answer.send(merge(session, &fork, request, base, theirs).await));
        }
        FilesTask::Thin(answer) => drop(answer.send(thin(session).await)),
        FilesTask::PayOwed(answer) => drop(answer.send(Ok(()))),
    }
}

/// Saves the files on request.
async fn checkpoint(session: &mut Session) -> Result<Option<CheckpointView>, OpError> {
    let saved = match session.ctx.data_dir.check_taken(session.journal.state(), None) {
        Ok(()) => save_now(session, Cause::Manual).await,
        Err(error) => Err(error),
    };
    session.journal.sync().await;
    saved
}
