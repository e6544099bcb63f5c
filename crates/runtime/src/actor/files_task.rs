//! Work with a session's files, or on its sandbox, that a caller asked for, done while nothing runs.

use super::checkpoint::{commit_now, save_now, thin};
use super::fork::fork;
use super::merge::merge;
use super::message::FilesTask;
use super::rewind::rewind;
use super::session::Session;
use crate::ops::{CheckpointView, OpError, SandboxView, SessionError};
use shellkeep_session::{Cause, Event, Sandbox};
use std::sync::Arc;

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
        FilesTask::Tighten { sandbox, by, answer } => drop(answer.send(tighten(session, sandbox, by).await)),
        FilesTask::Thin(answer) => drop(answer.send(thin(session).await)),
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
        session.rest("tightened", "the session's sandbox was tightened");
        session.journal.record(Event::SandboxChanged { sandbox, by });
        session.journal.sync().await;
    }
    Ok(sandboxes.view(session.journal.state()))
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
