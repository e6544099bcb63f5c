//! Reading sessions from the store.

use crate::cluster::{Cluster, moved};
use crate::lifetime::Lifetime;
use crate::names::{Names, not_found};
use crate::newborn::Newborn;
use crate::ops::{HeldBy, MessagePage, OpError, Origin, RunError, SessionError, SessionView};
use crate::sandboxes::Sandboxes;
use shellkeep_session::{Claim, Record, RunId, SessionId, SessionState, StoredRun};
use shellkeep_store::{ReadError, Store, last_seq};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for a session's state: a store with a hundred thousand new sessions in its queue is slow.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(30);
/// How long waking a session waits for a store that does not respond, and the pause between two attempts.
const STORE_PATIENCE: Duration = Duration::from_secs(2);
const STORE_PAUSE: Duration = Duration::from_millis(50);

/// What the store has of sessions.
#[derive(Clone)]
pub(crate) struct Stored {
    store: Store,
    names: Arc<Names>,
    lifetime: Arc<Lifetime>,
    cluster: Option<Arc<Cluster>>,
    newborn: Arc<Newborn>,
}

impl Stored {
    /// Reads from `store`.
    pub(crate) fn new(store: Store, names: Arc<Names>, lifetime: Arc<Lifetime>, cluster: Option<Arc<Cluster>>) -> Self {
        Self { store, names, lifetime, cluster, newborn: Arc::default() }
    }

    /// A session was created by this record, and nobody knows its name yet.
    pub(crate) fn created(&self, record: &Record) {
        // Another node may take one that is shared.
        if self.cluster.is_none() {
            self.newborn.add(record);
        }
    }

    /// The state of a session that is to be woken. Where nodes share a store, it is this node's from then on.
    pub(crate) async fn wake(&self, id: &SessionId) -> Result<SessionState, OpError> {
        if let Some(state) = self.newborn.take(id).filter(|_| self.names.contains(id)) {
            return Ok(state);
        }
        let found = self.load_patiently(id).await;
        let Some(cluster) = &self.cluster else { return found };
        let local = match found {
            Ok(state) => Some(state),
            // Its name is known from another node, its records are not.
            Err(OpError::Session(SessionError::NotFound { .. })) if self.names.contains(id) => None,
            Err(error) => return Err(error),
        };
        let agent = self.names.agent_of(id);
        let state = cluster.take(id, local).await?;
        if state.meta.agent.as_deref() != agent.as_deref() {
            // Another session has the name now, and whoever asks was permitted to use the one that this node knew.
            cluster.left(id, None);
            return Err(moved(id));
        }
        Ok(state)
    }

    /// A session sleeps from now on; with a claim, only if it is still under that one.
    pub(crate) fn left(&self, id: &SessionId, claim: Option<&Claim>) {
        if let Some(cluster) = &self.cluster {
            cluster.left(id, claim);
        }
    }

    /// A session's state.
    pub(crate) async fn load(&self, id: &SessionId) -> Result<SessionState, OpError> {
        if !self.names.contains(id) {
            return Err(not_found(id));
        }
        in_time(id, self.store.load(id)).await?.ok_or_else(|| not_found(id))
    }

    /// A session's state, with retries if the store fails: a short failure must not fail a command.
    pub(crate) async fn load_patiently(&self, id: &SessionId) -> Result<SessionState, OpError> {
        let deadline = Instant::now() + STORE_PATIENCE;
        loop {
            match self.load(id).await {
                Err(OpError::StoreUnavailable { .. }) if Instant::now() < deadline && !self.lifetime.is_stopping() => {}
                other => return other,
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// The number of a session's last record.
    pub(crate) async fn last_seq(&self, id: &SessionId) -> Result<u64, OpError> {
        in_time(id, last_seq(&self.store, id)).await?.ok_or_else(|| not_found(id))
    }

    /// A run of a session.
    pub(crate) async fn run(&self, id: &SessionId, run_id: &RunId) -> Result<StoredRun, OpError> {
        let found = self.store.run(id, run_id).await.map_err(|error| read_error(id, error))?;
        let missing = || OpError::Run(RunError::NotFound { session_id: id.to_string(), run_id: run_id.to_string() });
        found.ok_or_else(missing)
    }

    /// Runs of a session that started before a record, newest first.
    pub(crate) async fn runs(&self, id: &SessionId, before: u64, limit: usize) -> Result<Vec<StoredRun>, OpError> {
        self.store.runs(id, before, limit).await.map_err(|error| read_error(id, error))
    }

    /// The conversation of a session after message number `after`.
    pub(crate) async fn messages(&self, id: &SessionId, after: u64, limit: usize) -> Result<MessagePage, OpError> {
        let found = self.store.messages(id, after, limit + 1).await;
        let mut messages = found.map_err(|error| read_error(id, error))?;
        let has_more = messages.len() > limit;
        messages.truncate(limit);
        let next = if has_more { messages.last().map(|last| last.seq_id) } else { None };
        Ok(MessagePage { messages, next, origin: Origin::Node })
    }
}

/// What the store answers about a session. It is not waited for longer than [`STORE_WAIT`].
pub(crate) async fn in_time<T>(
    id: &SessionId,
    reading: impl Future<Output = Result<T, ReadError>>,
) -> Result<T, OpError> {
    let busy = |_| OpError::StoreUnavailable {
        reason: format!("it did not answer in {} s; it is behind with what came before", STORE_WAIT.as_secs()),
    };
    let read = tokio::time::timeout(STORE_WAIT, reading).await.map_err(busy)?;
    read.map_err(|error| read_error(id, error))
}

/// A failed read as callers see it.
pub(crate) fn read_error(id: &SessionId, error: ReadError) -> OpError {
    match error {
        ReadError::Damaged { reason } => OpError::Session(SessionError::Damaged { session_id: id.to_string(), reason }),
        ReadError::Unavailable { reason } => OpError::StoreUnavailable { reason },
    }
}

/// A session without a shell as callers see it.
pub(crate) fn asleep(state: SessionState, sandboxes: &Sandboxes) -> SessionView {
    let (hold, sandbox) = (HeldBy::of(state.hold.as_deref()), Some(sandboxes.of(&state)));
    SessionView {
        meta: state.meta,
        last_active_at: state.last_active_at,
        cwd: state.shell.cwd,
        live: false,
        shell_pid: None,
        generation: state.generation,
        seq: state.seq,
        deleted: None,
        hold,
        sandbox,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: where nodes share a store, a creation waited without a limit for this node's own, and so did all that wanted to wake
    /// a session of the name.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_is_not_waited_for_forever() {
        let id = SessionId::parse("s").unwrap();
        let answer = in_time::<()>(&id, std::future::pending()).await;
        assert!(matches!(answer, Err(OpError::StoreUnavailable { .. })), "{answer:?}");
    }
}
