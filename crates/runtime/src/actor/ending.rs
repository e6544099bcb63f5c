//! The end of what a session runs, and of the session itself.

use super::Actor;
use super::message::Answer;
use super::phase::Phase;
use super::rest_reason::RestReason;
use super::session::Session;
use crate::crash::{self, Point};
use crate::ops::{OpError, RunError, SessionError, SessionView};
use crate::pending::{self, Removal};
use crate::stored::read_error;
use shellkeep_session::Event;
use std::sync::Arc;

impl Actor {
    /// Kills what runs and refuses what waits.
    pub(super) async fn stop_everything(&mut self, error: &OpError) {
        for waiting in self.queue.take_all() {
            waiting.refuse(error.clone());
        }
        self.first_has_left();
        self.session.kill_everything(&self.queue).await;
    }

    /// Kills what runs and starts over with the state that the session was created with.
    pub(super) async fn restart(&mut self) -> Result<SessionView, OpError> {
        let id = self.session.id().clone();
        let first = self.session.ctx.store.first_shell(&id).await.map_err(|error| read_error(&id, error))?;
        let shell = first.ok_or_else(|| OpError::Session(SessionError::NotFound { session_id: id.to_string() }))?;
        self.stop_everything(&OpError::Run(RunError::Restarted { session_id: id.to_string() })).await;
        self.session.journal.record(Event::Restarted { shell: Box::new(shell) });
        self.session.journal.sync().await;
        Ok(self.session.view())
    }

    /// Kills what runs, and deletes the session. If this node may not delete it, nothing of it is changed, and what waits goes on
    /// waiting.
    pub(super) async fn destroy(&mut self, removal: Removal, answer: Answer<()>) {
        self.session.kill_everything(&self.queue).await;
        let deleted = delete(&mut self.session, removal).await;
        if deleted.is_ok() {
            let gone = OpError::Session(SessionError::NotFound { session_id: self.session.id().to_string() });
            self.queue.take_all().for_each(|waiting| waiting.refuse(gone.clone()));
            self.first_has_left();
        }
        let _ = answer.send(deleted);
    }

    /// The session's agent no longer needs it.
    pub(super) async fn end(&mut self, reason: &str) -> SessionView {
        if self.is_busy() {
            // What runs is killed first; its end is recorded before the session's.
            self.stop_everything(&OpError::Run(RunError::Restarted { session_id: self.session.id().to_string() }))
                .await;
        }
        self.session.rest(RestReason::Ended);
        if self.session.journal.state().ended_at.is_none() {
            self.session.journal.record(Event::SessionEnded { reason: reason.to_owned() });
        }
        self.session.view()
    }
}

/// Deletes a session of which nothing runs. Fails if it is another node's: nothing of it was removed then.
async fn delete(session: &mut Session, removal: Removal) -> Result<(), OpError> {
    session.files.let_go(&mut session.journal).await;
    let ctx = Arc::clone(&session.ctx);
    let seq = session.journal.next_seq();
    let deletion = pending::deletion(&session.journal.state().meta, seq, removal);
    let note = ctx.remover.begin(&deletion);
    crash::point(Point::DeleteNoted, deletion.id.as_str().as_bytes());
    // Where nodes share a store, that decides: this node may have lost the session without knowing.
    let (note, taken_out) = ctx.remover.take_out(&deletion, note).await?;
    session.journal.put(deletion.event());
    ctx.sync().await;
    crash::point(Point::DeleteRecorded, deletion.id.as_str().as_bytes());
    ctx.remover.finish(deletion, note, taken_out).await;
    session.phase = Phase::Gone;
    Ok(())
}
