//! Work with a session's files, or on its sandbox, that a caller asked for, done while nothing runs.

use super::checkpoint::{commit_now, save_now, thin};
use super::files::Files;
use super::fork::fork;
use super::journal::Journal;
use super::merge::merge;
use super::message::FilesTask;
use super::rest_reason::RestReason;
use super::rewind::rewind;
use super::session::Session;
use crate::ops::{CheckpointView, OpError, SandboxView, SessionError};
use shellkeep_session::{Cause, Event, Sandbox};
use std::sync::Arc;

/// Does work with the files while nothing runs.
pub(super) async fn do_files(session: &mut Session, task: FilesTask) {
    let (files, journal) = (&mut session.files, &mut session.journal);
    files.pay_owed(journal).await;
    match task {
        FilesTask::Checkpoint(answer) => drop(answer.send(checkpoint(files, journal).await)),
        FilesTask::Now(answer) => drop(answer.send(commit_now(files, journal).await)),
        FilesTask::Rewind { request, by, answer } => drop(answer.send(rewind(session, request, by).await)),
        FilesTask::Fork { order, answer } => drop(answer.send(fork(session, *order).await)),
        FilesTask::Merge { order, answer } => drop(answer.send(merge(files, journal, order).await)),
        FilesTask::Tighten { sandbox, by, answer } => drop(answer.send(tighten(session, sandbox, by).await)),
        FilesTask::Thin(answer) => drop(answer.send(thin(files, journal).await)),
        FilesTask::PayOwed(answer) => drop(answer.send(Ok(()))),
    }
}

/// Confines the session more tightly: what runs outside the new sandbox ends first.
async fn tighten(session: &mut Session, sandbox: Sandbox, by: Option<String>) -> Result<SandboxView, OpError> {
    let (sandboxes, session_id) = (Arc::clone(&session.ctx.sandboxes), session.id().to_string());
    let now = session.journal.state().sandbox;
    if sandbox < now {
        return Err(SessionError::SandboxNotLooser { session_id, sandbox: now, asked: sandbox }.into());
    }
    sandboxes.check(sandbox)?;
    if sandbox > now {
        let state = session.journal.state();
        if !state.active_runs.is_empty() || state.services.values().any(|service| service.status.is_live()) {
            return Err(SessionError::SandboxBusy { session_id }.into());
        }
        session.rest(RestReason::Tightened);
        session.journal.record(Event::SandboxChanged { sandbox, by });
        session.journal.sync().await;
    }
    Ok(sandboxes.view(session.journal.state()))
}

/// Saves the files on request.
async fn checkpoint(files: &mut Files, journal: &mut Journal) -> Result<Option<CheckpointView>, OpError> {
    let saved = match files.ctx.data_dir.check_taken(journal.state(), None) {
        Ok(()) => save_now(files, journal, Cause::Manual).await,
        Err(error) => Err(error),
    };
    journal.sync().await;
    saved
}
