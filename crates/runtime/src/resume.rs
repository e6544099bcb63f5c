//! Continues a session's agent from its last step. The agent is a program named in the session's config; it is started
//! for one message, gets its state, and speaks JSON lines until it is done.
//!
//! - [`config`]: which program, and with what.
//! - [`talk`], [`lines`]: the messages, and splitting them into lines.
//! - [`drive`]: from its first line to its end.
//! - [`answer`], [`stream`]: its answer, as watchers see it.
//! - [`log`]: what is recorded of it.
//! - [`last_words`]: what it wrote to standard error.
//! - [`tools`]: the commands that it requests.
//!
//! One message at a time in each session: this file manages the turns.

pub(crate) mod answer;
pub(crate) mod config;
pub(crate) mod drive;
mod last_words;
mod lines;
mod log;
pub(crate) mod stream;
mod talk;
mod tools;

pub(crate) use answer::Work;
pub(crate) use log::SessionLog;
pub(crate) use talk::Opening;

use crate::ops::{IfBusy, OpError, ResumeError, ResumeSession};
use crate::sync::lock;
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Messages that may wait for one agent; more means a caller that does not read.
const MAX_WAITING: usize = 64;
/// How long stopping may take: the agent's grace period, that of its last command, and some time for the disk.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The agents of all sessions that work or are waited for.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    seats: Mutex<HashMap<SessionId, Arc<Seat>>>,
}

/// The agent of one session: who has the turn.
#[derive(Debug, Default)]
struct Seat {
    turn: Arc<tokio::sync::Mutex<()>>,
    waiting: AtomicUsize,
    work: Mutex<Option<Arc<Work>>>,
}

/// A reference to a seat. The seat is forgotten with its last reference.
pub(crate) struct SeatRef {
    agents: Arc<Agents>,
    id: SessionId,
    seat: Arc<Seat>,
}

/// The turn of one message.
pub(crate) struct Turn {
    place: SeatRef,
    _guard: OwnedMutexGuard<()>,
}

impl Agents {
    /// The place at a session's agent.
    pub(crate) fn place(self: &Arc<Self>, id: &SessionId) -> SeatRef {
        let seat = Arc::clone(lock(&self.seats).entry(id.clone()).or_default());
        SeatRef { agents: Arc::clone(self), id: id.clone(), seat }
    }

    /// Whether a session's agent works, or is being started.
    pub(crate) fn is_taken(&self, id: &SessionId) -> bool {
        lock(&self.seats).get(id).is_some_and(|seat| seat.turn.try_lock().is_err())
    }

    /// Stops the agents that work on behalf of a revoked token.
    pub(crate) fn stop_by_token(&self, token_id: &str) {
        for work in self.at_work(|_, work| work.by.as_deref() == Some(token_id)) {
            work.stop("the token of its caller was revoked");
        }
    }

    /// Stops the agents of the sessions that `wanted` selects, and waits until their ends are recorded.
    pub(crate) async fn stop(&self, reason: &str, wanted: impl Fn(&SessionId) -> bool) {
        let at_work = self.at_work(|id, _| wanted(id));
        at_work.iter().for_each(|work| work.stop(reason));
        for work in at_work {
            let _ = tokio::time::timeout(STOP_LIMIT, work.finished()).await;
        }
    }

    /// Has a session's agent stop, without waiting for its end.
    pub(crate) fn interrupt(&self, id: &SessionId, reason: &str) {
        self.at_work(|other, _| other == id).iter().for_each(|work| work.stop(reason));
    }

    /// The sessions whose agents work.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let seats = lock(&self.seats);
        seats.iter().filter(|(_, seat)| lock(&seat.work).is_some()).map(|(id, _)| id.clone()).collect()
    }

    fn at_work(&self, wanted: impl Fn(&SessionId, &Work) -> bool) -> Vec<Arc<Work>> {
        let seats = lock(&self.seats);
        let at_work = seats.iter().filter_map(|(id, seat)| Some((id, lock(&seat.work).clone()?)));
        at_work.filter(|(id, work)| wanted(id, work)).map(|(_, work)| work).collect()
    }
}

impl SeatRef {
    /// What the agent works on.
    pub(crate) fn work(&self) -> Option<Arc<Work>> {
        lock(&self.seat.work).clone()
    }

    /// Waits for the turn, in order of arrival, for at most this long.
    pub(crate) async fn take(self, request: &ResumeSession, patience: Duration) -> Result<Turn, OpError> {
        let turn = Arc::clone(&self.seat.turn);
        if let Ok(guard) = Arc::clone(&turn).try_lock_owned() {
            return Ok(Turn { place: self, _guard: guard });
        }
        if request.if_busy == IfBusy::Reject {
            return Err(self.busy());
        }
        let waiting = Waiting(Arc::clone(&self.seat));
        if self.seat.waiting.fetch_add(1, Ordering::SeqCst) >= MAX_WAITING {
            return Err(self.busy());
        }
        let taken = tokio::time::timeout(patience, turn.lock_owned()).await;
        drop(waiting);
        match taken {
            Ok(guard) => Ok(Turn { place: self, _guard: guard }),
            Err(_) => Err(self.busy()),
        }
    }

    fn busy(&self) -> OpError {
        let resume_id = self.work().map_or_else(|| "about to begin".to_owned(), |work| work.resume_id.clone());
        ResumeError::Busy { session_id: self.id.to_string(), resume_id }.into()
    }
}

impl Turn {
    /// Lets others see what it is used for.
    pub(crate) fn begin(&self, work: &Arc<Work>) {
        *lock(&self.place.seat.work) = Some(Arc::clone(work));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.place.seat.work) = None;
    }
}

impl Drop for SeatRef {
    fn drop(&mut self) {
        let mut seats = lock(&self.agents.seats);
        // The map has one, and this is the other.
        if Arc::strong_count(&self.seat) <= 2 {
            seats.remove(&self.id);
        }
    }
}

/// A waiter; removed however the wait ends.
struct Waiting(Arc<Seat>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SessionId {
        SessionId::parse("s").unwrap()
    }

    fn reject() -> ResumeSession {
        ResumeSession { if_busy: IfBusy::Reject, ..ResumeSession::new("hi") }
    }

    #[tokio::test]
    async fn one_has_the_turn_and_others_wait_or_are_refused() {
        let agents = Arc::new(Agents::default());
        let patience = Duration::from_secs(60);
        let first = agents.place(&id()).take(&reject(), patience).await.unwrap();
        let refused = agents.place(&id()).take(&reject(), patience).await;
        assert_eq!(refused.err().map(|error| error.code()), Some("agent_busy"));
        let late = agents.place(&id()).take(&ResumeSession::new("hi"), Duration::from_millis(1)).await;
        assert_eq!(late.err().map(|error| error.code()), Some("agent_busy"));
        let place = agents.place(&id());
        let second = tokio::spawn(async move { place.take(&ResumeSession::new("hi"), patience).await.map(drop) });
        drop(first);
        assert!(second.await.unwrap().is_ok());
        assert!(lock(&agents.seats).is_empty(), "a seat that nobody looks at is forgotten");
    }

    #[tokio::test]
    async fn too_many_do_not_wait() {
        let agents = Arc::new(Agents::default());
        let patience = Duration::from_secs(60);
        let first = agents.place(&id()).take(&reject(), patience).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..MAX_WAITING {
            let place = agents.place(&id());
            waiting.push(Box::pin(async move { place.take(&ResumeSession::new("hi"), patience).await }));
        }
        for one in &mut waiting {
            assert!(futures_pending(one).await);
        }
        let refused = agents.place(&id()).take(&ResumeSession::new("hi"), patience).await;
        assert_eq!(refused.err().map(|error| error.code()), Some("agent_busy"));
        drop((first, waiting));
        assert!(lock(&agents.seats).is_empty());
    }

    async fn futures_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())).await
    }
}
