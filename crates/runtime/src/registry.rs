//! The sessions that are awake: the mailbox of each session's task and its published status. A message for a sleeping
//! session wakes it, one caller at a time: otherwise a caller could load a state that is older than what another task
//! has written in the meantime.

use crate::actor::{MAILBOX, Message, Slot};
use crate::admission::agent_of;
use crate::cluster::moved;
use crate::lifetime::Lifetime;
use crate::names::not_found;
use crate::ops::{ClusterError, OpError};
use crate::stored::{STORE_WAIT, Stored};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::{Claim, SessionId, SessionState};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long a task that dropped an answer may take to end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a session that is to leave may take to end what it runs.
const LEAVING: Duration = Duration::from_secs(10);

/// How long to wait before a message that must not be lost is sent again.
const DELIVER_AGAIN: Duration = Duration::from_secs(1);

/// Why a message was not sent, and the message, unless what was to send it panicked.
struct Unsent {
    error: OpError,
    message: Option<Box<Message>>,
}

/// Whether a session could not be woken for a reason that passes.
pub(crate) fn may_pass(error: &OpError) -> bool {
    matches!(
        error,
        OpError::StoreUnavailable { .. } | OpError::StoreFull { .. } | OpError::Cluster(ClusterError::Alone { .. })
    )
}

/// Starts the task of a session. Fails when the engine is gone.
pub(crate) type Spawn =
    Box<dyn Fn(SessionState, mpsc::Receiver<Message>, Arc<Slot>) -> Result<(), OpError> + Send + Sync>;

/// The sessions that are awake.
pub(crate) struct Registry {
    sessions: Mutex<Sessions>,
    stored: Stored,
    lifetime: Arc<Lifetime>,
    spawn: Spawn,
}

#[derive(Default)]
struct Sessions {
    awake: HashMap<SessionId, Awake>,
    /// Sessions that are being woken, each with the lock that other callers wait for.
    waking: HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Clone)]
struct Awake {
    mailbox: mpsc::Sender<Message>,
    slot: Arc<Slot>,
}

/// One of the callers that want to wake a session.
struct Waking<'a> {
    registry: &'a Registry,
    id: &'a SessionId,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        let mut sessions = self.registry.sessions();
        // One reference is ours, one the map's; no other can appear without the lock.
        if Arc::strong_count(&self.lock) == 2 {
            sessions.waking.remove(self.id);
        }
    }
}

impl Registry {
    /// A registry in which every session sleeps; `spawn` starts the task of one.
    pub(crate) fn new(stored: Stored, lifetime: Arc<Lifetime>, spawn: Spawn) -> Self {
        Self { sessions: Mutex::default(), stored, lifetime, spawn }
    }

    /// The lifetime of the daemon that these sessions live in.
    pub(crate) fn lifetime(&self) -> Arc<Lifetime> {
        Arc::clone(&self.lifetime)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    fn mailbox(&self, id: &SessionId) -> Option<mpsc::Sender<Message>> {
        self.sessions().awake.get(id).map(|awake| awake.mailbox.clone())
    }

    /// Asks a session that is awake; `None` if it sleeps.
    pub(crate) async fn ask_awake<T>(
        &self,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Option<Result<T, OpError>> {
        let mailbox = self.mailbox(id)?;
        let (answer, waiting) = oneshot::channel();
        mailbox.send(message(answer)).await.ok()?;
        // A session does not go to sleep while a sender exists.
        drop(mailbox);
        waiting.await.ok()
    }

    /// Tells a session something if it is awake.
    pub(crate) async fn tell_awake(&self, id: &SessionId, message: Message) {
        if let Some(mailbox) = self.mailbox(id) {
            // One that leaves in this moment has nothing that it could do.
            let _ = mailbox.send(message).await;
        }
    }

    /// Asks a session; wakes it if it sleeps.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Result<T, OpError> {
        self.lifetime.check_running()?;
        self.ask_while_stopping(id, message).await
    }

    /// The same, also while the daemon is stopping.
    pub(crate) async fn ask_while_stopping<T>(
        self: &Arc<Self>,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Result<T, OpError> {
        let (answer, waiting) = oneshot::channel();
        let Awake { mailbox, slot } = self.post(id, message(answer)).await.map_err(|unsent| unsent.error)?;
        // A session does not go to sleep while a sender exists.
        let mailbox = mailbox.downgrade();
        if let Ok(answered) = waiting.await {
            return answered;
        }
        // It was deleted, it is another node's, or its task panics: which one, it says before its mailbox is closed.
        if let Some(mailbox) = mailbox.upgrade() {
            let _ = timeout(LAST_WORDS, mailbox.closed()).await;
        }
        if slot.has_panicked.load(Ordering::Acquire) {
            return Err(OpError::Internal { detail: format!("the task of session '{id}' panicked") });
        }
        Err(if slot.has_moved.load(Ordering::Acquire) { moved(id) } else { not_found(id) })
    }

    /// Sends a message to a session that may be gone. The error says why that is not possible.
    pub(crate) async fn deliver(self: &Arc<Self>, id: &SessionId, message: Message) -> Result<(), OpError> {
        self.post(id, message).await.map(|_| ()).map_err(|unsent| unsent.error)
    }

    /// Sends a message that must not be lost: while the session cannot be woken because the store does not answer, this waits,
    /// until the daemon stops. Then the next one takes what ran for lost.
    pub(crate) async fn deliver_for_certain(self: &Arc<Self>, id: &SessionId, mut message: Message) {
        loop {
            match self.post(id, message).await {
                Ok(_) => return,
                Err(Unsent { error, message: Some(unsent) }) if may_pass(&error) && !self.lifetime.is_stopping() => {
                    tracing::warn!(session = %id, %error, "the end of a run or a service waits for its session");
                    message = *unsent;
                }
                Err(Unsent { error, .. }) => {
                    return tracing::debug!(session = %id, %error, "news for a session that is gone");
                }
            }
            tokio::time::sleep(DELIVER_AGAIN).await;
        }
    }

    /// Everything that is known of a session now.
    pub(crate) async fn snapshot(&self, id: &SessionId) -> Result<Box<SessionState>, OpError> {
        match self.ask_awake(id, Message::Snapshot).await {
            Some(state) => state,
            None => self.stored.load(id).await.map(Box::new),
        }
    }

    /// Sends a message to a session, and returns the one that has it.
    async fn post(self: &Arc<Self>, id: &SessionId, mut message: Message) -> Result<Awake, Unsent> {
        let awake = self.sessions().awake.get(id).cloned();
        if let Some(awake) = awake {
            match awake.mailbox.send(message).await {
                Ok(()) => return Ok(awake),
                // The session just went to sleep; it is or will be woken again.
                Err(mpsc::error::SendError(unsent)) => message = unsent,
            }
        }
        let (registry, id) = (Arc::clone(self), id.clone());
        // In a task of its own, to its end: the caller may go away at any moment, and a session that another node had would
        // be left claimed, half brought here, and without a task.
        let posting = tasks::spawn(async move { registry.wake_and_post(&id, message).await });
        posting.await.unwrap_or_else(|ended| {
            // Without a panic it is the runtime that ends.
            let panicked = || OpError::Internal { detail: "the task that woke a session panicked".to_owned() };
            Err(Unsent { error: if ended.is_panic() { panicked() } else { OpError::ShuttingDown }, message: None })
        })
    }

    /// Sends a message to a session, and wakes it until that succeeds.
    async fn wake_and_post(&self, id: &SessionId, mut message: Message) -> Result<Awake, Unsent> {
        loop {
            let awake = match self.wake(id).await {
                Ok(awake) => awake,
                Err(error) => return Err(Unsent { error, message: Some(Box::new(message)) }),
            };
            match awake.mailbox.send(message).await {
                Ok(()) => return Ok(awake),
                Err(mpsc::error::SendError(unsent)) => message = unsent,
            }
        }
    }

    async fn wake(&self, id: &SessionId) -> Result<Awake, OpError> {
        let lock = Arc::clone(self.sessions().waking.entry(id.clone()).or_default());
        let waking = Waking { registry: self, id, lock };
        let too_long = |_| OpError::StoreUnavailable {
            reason: format!("it did not load session '{id}' in {} s", STORE_WAIT.as_secs()),
        };
        let _guard = timeout(STORE_WAIT, waking.lock.lock()).await.map_err(too_long)?;
        if let Some(awake) = self.sessions().awake.get(id) {
            return Ok(awake.clone());
        }
        let state = self.stored.wake(id).await?;
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let slot = Arc::new(Slot { agent: agent_of(&state.meta), ..Slot::default() });
        let awake = Awake { mailbox, slot: Arc::clone(&slot) };
        self.sessions().awake.insert(id.clone(), awake.clone());
        match (self.spawn)(state, messages, slot) {
            Ok(()) => Ok(awake),
            Err(error) => {
                self.sessions().awake.remove(id);
                self.stored.left(id, None);
                Err(error)
            }
        }
    }

    /// Does something with a session that sleeps, or is about to, while nobody can wake it. `None` if it stays awake.
    pub(crate) async fn while_asleep<T>(&self, id: &SessionId, work: impl Future<Output = T>) -> Option<T> {
        if let Some(mailbox) = self.mailbox(id) {
            let _ = timeout(LEAVING, mailbox.closed()).await;
        }
        let lock = Arc::clone(self.sessions().waking.entry(id.clone()).or_default());
        let waking = Waking { registry: self, id, lock };
        let _guard = waking.lock.lock().await;
        if self.is_awake(id) { None } else { Some(work.await) }
    }

    /// A session was created, or given to the shared store again, and nobody goes on with it: it sleeps, unless it is woken in this
    /// moment. Its task lets go of it otherwise. With a claim, only what this node sends under that is released: whoever waited for
    /// long may find another session of the name.
    pub(crate) async fn left_asleep(&self, id: &SessionId, claim: Option<&Claim>) {
        let lock = Arc::clone(self.sessions().waking.entry(id.clone()).or_default());
        let waking = Waking { registry: self, id, lock };
        let _guard = waking.lock.lock().await;
        if !self.is_awake(id) {
            self.stored.left(id, claim);
        }
    }

    /// Takes a session out if `may_leave`. A writer takes a sender under the same lock, so no message can come
    /// after that. Returns whether it was taken out.
    pub(crate) fn leave(&self, id: &SessionId, may_leave: impl FnOnce() -> bool) -> bool {
        let mut sessions = self.sessions();
        let leaves = may_leave();
        if leaves {
            sessions.awake.remove(id);
            self.stored.left(id, None);
        }
        leaves
    }

    /// The names of the sessions that are awake.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.sessions().awake.keys().cloned().collect()
    }

    /// Whether a session is awake, and with it perhaps a shell.
    pub(crate) fn is_awake(&self, id: &SessionId) -> bool {
        self.sessions().awake.contains_key(id)
    }

    /// How long ago a session was last used; `None` if it sleeps.
    pub(crate) fn idle_for(&self, id: &SessionId) -> Option<Duration> {
        let slot = Arc::clone(&self.sessions().awake.get(id)?.slot);
        let idle = self.lifetime.now_ms().saturating_sub(slot.last_used.load(Ordering::Relaxed));
        let is_busy = slot.busy.load(Ordering::Relaxed);
        Some(if is_busy { Duration::ZERO } else { Duration::from_millis(idle) })
    }

    /// Calls `look` with the published status of each session.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&SessionId, &Slot)) {
        self.sessions().awake.iter().for_each(|(id, awake)| look(id, &awake.slot));
    }

    /// The published status of one session.
    pub(crate) fn slot(&self, id: &SessionId) -> Option<Arc<Slot>> {
        self.sessions().awake.get(id).map(|awake| Arc::clone(&awake.slot))
    }

    /// Sessions whose shell could be taken, best first: idle ones, longest idle first, then those of other agents that
    /// wait in the queue. Those of the same agent are not taken: that would not help the agent. No more than `most`.
    pub(crate) fn evictable(
        &self,
        except: Option<&SessionId>,
        most: usize,
    ) -> Vec<(SessionId, mpsc::WeakSender<Message>)> {
        let sessions = self.sessions();
        let agent = except.and_then(|id| sessions.awake.get(id)).map(|awake| Arc::clone(&awake.slot.agent));
        let rank = |slot: &Slot| {
            let (busy, waits) = (slot.busy.load(Ordering::Relaxed), slot.waits.load(Ordering::Relaxed));
            let of_another = agent.as_ref().is_some_and(|agent| *agent != slot.agent);
            let can = slot.pid.load(Ordering::Relaxed) != 0 && (!busy || (waits && of_another));
            can.then(|| (busy, slot.last_used.load(Ordering::Relaxed)))
        };
        let others = sessions.awake.iter().filter(|(id, _)| Some(*id) != except);
        let mut found: Vec<_> =
            others.filter_map(|(id, awake)| Some((rank(&awake.slot)?, (id, &awake.mailbox)))).collect();
        if most < found.len() {
            found.select_nth_unstable_by_key(most, |(rank, _)| *rank);
            found.truncate(most);
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, (id, mailbox))| (id.clone(), mailbox.downgrade())).collect()
    }
}
