//! What all clones of an engine share: finding owners, waking sessions, taking shells, removing files.

use super::{Inner, Runs, Sessions, lock};
use crate::admission::Listener;
use crate::cell::{RunCell, RunControl};
use crate::ops::{CreateSession, OpError, QuotaMet};
use crate::owner::{Message, Slot};
use crate::pool::Worn;
use crate::services::cage_name;
use crate::{notices, recover, validate};
use shellkeep_session::{Notice, QuotaName, RunId, SessionId, SessionMeta, SessionState, ShellState, Timestamp};
use shellkeep_store::ReadError;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How long anybody waits for a session's state: a store that has a hundred thousand new sessions before it takes its time.
pub(super) const STORE_WAIT: Duration = Duration::from_secs(30);
/// How long a session that is to be woken waits for a store that does not answer, and how long between two questions.
const STORE_PATIENCE: Duration = Duration::from_secs(2);
const STORE_PAUSE: Duration = Duration::from_millis(50);

impl Inner {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    pub(crate) fn runs(&self) -> MutexGuard<'_, Runs> {
        lock(&self.runs)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn output_directory(&self, id: &SessionId) -> Arc<Path> {
        self.config.data_dir.join("outputs").join(id.as_str()).into()
    }

    /// Waits for the disk, where the host asked for that. Gives what to say if the disk failed.
    pub(crate) async fn sync(&self) -> Option<Notice> {
        let error = self.store.sync().await.err()?;
        tracing::warn!(%error, "the journal is not on disk yet");
        Some(notices::not_on_disk(&error.reason))
    }

    /// Waits until files are on disk, where the host asked for that: the record that names them follows.
    pub(crate) async fn sync_files(&self, files: Vec<std::fs::File>) {
        if files.is_empty() || !self.store.survives_power() {
            return;
        }
        let synced = tokio::task::spawn_blocking(move || files.iter().try_for_each(std::fs::File::sync_data)).await;
        if let Ok(Err(error)) = synced {
            tracing::warn!(%error, "an output is not on disk yet");
        }
    }

    pub(crate) fn read_error(&self, id: &SessionId, error: ReadError) -> OpError {
        match error {
            ReadError::Damaged { reason } => OpError::Damaged { session_id: id.to_string(), reason },
            ReadError::Unavailable { reason } => OpError::StoreUnavailable { reason },
        }
    }

    /// An agent's sessions, in no order.
    pub(super) fn sessions_of(&self, agent: &str) -> Vec<SessionId> {
        let known = lock(&self.known);
        known.iter().filter(|(_, owner)| owner.as_deref() == Some(agent)).map(|(id, _)| id.clone()).collect()
    }

    /// How many sessions of an agent have a shell.
    pub(super) fn live_shells_of(&self, agent: &str) -> usize {
        let known = lock(&self.known);
        let is_own = |id: &SessionId| known.get(id).is_some_and(|owner| owner.as_deref() == Some(agent));
        let sessions = self.sessions();
        let live = sessions.owners.iter().filter(|(_, (_, slot))| slot.pid.load(Ordering::Relaxed) != 0);
        live.filter(|(id, _)| is_own(id)).count()
    }

    pub(super) fn check_running(&self) -> Result<(), OpError> {
        if self.stopping.load(Ordering::Relaxed) { Err(OpError::ShuttingDown) } else { Ok(()) }
    }

    pub(super) fn not_found(&self, id: &SessionId) -> OpError {
        OpError::SessionNotFound { session_id: id.to_string() }
    }

    pub(crate) async fn load(&self, id: &SessionId) -> Result<SessionState, OpError> {
        if !lock(&self.known).contains_key(id) {
            return Err(self.not_found(id));
        }
        let busy = |_| OpError::StoreUnavailable {
            reason: format!("it did not answer in {} s; it is behind with what came before", STORE_WAIT.as_secs()),
        };
        let loaded = tokio::time::timeout(STORE_WAIT, self.store.load(id)).await.map_err(busy)?;
        let loaded = loaded.map_err(|error| self.read_error(id, error))?;
        loaded.ok_or_else(|| self.not_found(id))
    }

    /// The same, asked again for a moment if the store stumbles: a command should not fail for that.
    pub(super) async fn load_patiently(&self, id: &SessionId) -> Result<SessionState, OpError> {
        let deadline = Instant::now() + STORE_PATIENCE;
        loop {
            match self.load(id).await {
                Err(OpError::StoreUnavailable { .. }) if Instant::now() < deadline && !self.is_stopping() => {}
                other => return other,
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    pub(super) fn cell(&self, id: &SessionId, run_id: &RunId) -> Option<Arc<RunCell>> {
        self.runs().get(&(id.clone(), run_id.clone())).cloned()
    }

    pub(super) async fn stored_run(
        &self,
        id: &SessionId,
        run_id: &RunId,
    ) -> Result<shellkeep_session::StoredRun, OpError> {
        let found = self.store.run(id, run_id).await.map_err(|error| self.read_error(id, error))?;
        let missing = || OpError::RunNotFound { session_id: id.to_string(), run_id: run_id.to_string() };
        found.ok_or_else(missing)
    }

    /// Asks the owner if there is one.
    pub(super) async fn ask_owner<T>(
        &self,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Option<Result<T, OpError>> {
        let mailbox = self.sessions().owners.get(id).map(|(mailbox, _)| mailbox.clone())?;
        let (answer, waiting) = oneshot::channel();
        mailbox.send(message(answer)).await.ok()?;
        // An owner does not leave while somebody can still write to it.
        drop(mailbox);
        waiting.await.ok()
    }

    /// Asks the owner; wakes the session if it has none.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Result<T, OpError> {
        self.check_running()?;
        let (answer, waiting) = oneshot::channel();
        self.post(id, message(answer)).await?;
        waiting.await.unwrap_or_else(|_| Err(self.not_found(id)))
    }

    /// Brings a message to the owner, who is woken for it if need be.
    pub(super) async fn post(self: &Arc<Self>, id: &SessionId, mut message: Message) -> Result<(), OpError> {
        loop {
            let mailbox = self.sessions().owners.get(id).map(|(mailbox, _)| mailbox.clone());
            let mailbox = match mailbox {
                Some(mailbox) => mailbox,
                None => self.wake(id).await?,
            };
            match mailbox.send(message).await {
                Ok(()) => return Ok(()),
                // The owner left in this very moment; there is or will be another.
                Err(mpsc::error::SendError(unsent)) => message = unsent,
            }
        }
    }

    /// Like [`Inner::post`], for news that may find the session gone.
    pub(crate) async fn deliver(self: &Arc<Self>, id: &SessionId, message: Message) {
        if let Err(error) = self.post(id, message).await {
            tracing::debug!(session = %id, %error, "news for a session that is gone");
        }
    }

    /// A shell for a session: a spare, a new one, or the place of the session that was idle the longest.
    /// `None` if every place is taken by a session that is busy, or the machine is short of what a shell needs.
    pub(crate) async fn take_shell(&self, for_session: &SessionId) -> Result<Option<Worn>, OpError> {
        let mut is_second_try = false;
        loop {
            match self.pool.try_take().await {
                Ok(Some(worn)) => {
                    worn.shell.assign(for_session.as_str());
                    return Ok(Some(worn));
                }
                // An idle session's shell may hold what is missing. If one is not enough, it is not that.
                Err(why) if why.is_shortage => {
                    if std::mem::replace(&mut is_second_try, true) {
                        return Ok(None);
                    }
                }
                Err(why) => return Err(OpError::ShellUnavailable { reason: why.reason.to_string() }),
                Ok(None) => {}
            }
            if !self.evict_one(Some(for_session)).await {
                return Ok(None);
            }
        }
    }

    /// There are no pipes for a command. If that may pass, it waits as if there were no shell.
    pub(crate) fn no_pipes<T>(&self, error: std::io::Error) -> Result<Option<T>, OpError> {
        let why = self.pool.failed(&shellkeep_process::StartError::System(error));
        if why.is_shortage { Ok(None) } else { Err(OpError::ShellUnavailable { reason: why.reason.to_string() }) }
    }

    async fn evict_one(&self, except: Option<&SessionId>) -> bool {
        for mailbox in self.can_be_evicted(except) {
            let (answer, waiting) = oneshot::channel();
            let Some(mailbox) = mailbox.upgrade() else { continue };
            let sent = mailbox.send(Message::Evict(answer)).await;
            drop(mailbox);
            if sent.is_ok() && waiting.await.unwrap_or(false) {
                metrics::counter!("shellkeep_evictions_total").increment(1);
                return true;
            }
        }
        false
    }

    /// Who could give up a shell, best first: those that are idle, the longest idle first, and then those of other agents
    /// that wait for their turn. Those of the same agent keep theirs: its commands would get no faster by it.
    fn can_be_evicted(&self, except: Option<&SessionId>) -> Vec<mpsc::WeakSender<Message>> {
        let sessions = self.sessions();
        let agent = except.and_then(|id| sessions.owners.get(id)).map(|(_, slot)| Arc::clone(&slot.agent));
        let rank = |slot: &Slot| {
            let (busy, waits) = (slot.busy.load(Ordering::Relaxed), slot.waits.load(Ordering::Relaxed));
            let of_another = agent.as_ref().is_some_and(|agent| *agent != slot.agent);
            let can = slot.pid.load(Ordering::Relaxed) != 0 && (!busy || (waits && of_another));
            can.then(|| (busy, slot.last_used.load(Ordering::Relaxed)))
        };
        let others = sessions.owners.iter().filter(|(id, _)| Some(*id) != except);
        let mut found: Vec<_> =
            others.filter_map(|(_, (mailbox, slot))| Some((rank(slot)?, mailbox.downgrade()))).collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, mailbox)| mailbox).collect()
    }

    /// Listens for a shell that could not be had before.
    pub(crate) fn listen_for_shell(&self, agent: &Arc<str>) -> Listener {
        self.pool.listen(agent)
    }

    /// Gives up the shell of the session that was idle the longest; says whether there was one.
    pub(crate) async fn evict_idlest(&self) -> bool {
        self.evict_one(None).await
    }

    /// Whether no operation is accepted any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// How long ago a session was last used; none if it is asleep.
    pub(crate) fn idle_for(&self, id: &SessionId) -> Option<Duration> {
        let sessions = self.sessions();
        let (_, slot) = sessions.owners.get(id)?;
        let idle = self.now_ms().saturating_sub(slot.last_used.load(Ordering::Relaxed));
        let is_busy = slot.busy.load(Ordering::Relaxed);
        Some(if is_busy { Duration::ZERO } else { Duration::from_millis(idle) })
    }

    /// Whether a session has an owner, and with it perhaps a shell.
    pub(crate) fn is_awake(&self, id: &SessionId) -> bool {
        self.sessions().owners.contains_key(id)
    }

    /// Tells those who wait that a session has become idle.
    pub(crate) fn one_is_idle(&self) {
        self.pool.one_is_idle();
    }

    /// Why a command waits for a shell: none can be started, or every shell there may be is busy.
    pub(crate) fn why_no_shell(&self) -> OpError {
        if let Some(why) = self.pool.trouble() {
            return OpError::ShellUnavailable { reason: why.reason.to_string() };
        }
        let limit = self.pool.limit() as u64;
        OpError::QuotaExceeded(Box::new(QuotaMet {
            quota: QuotaName::LiveShells,
            limit,
            used: limit,
            agent: None,
            services: Vec::new(),
        }))
    }

    /// Ends every shell that is left. Ending waits for the kernel, so it has a thread of its own.
    pub(super) async fn close_pool(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        let _ = tokio::task::spawn_blocking(move || {
            let running = inner.services.list(|_| true);
            let keep = running.iter().map(|seen| cage_name(&seen.session_id, &seen.service_id)).collect();
            inner.pool.close(&keep);
        })
        .await;
    }

    /// What a new session begins with.
    pub(super) fn first_state(
        &self,
        id: &SessionId,
        request: CreateSession,
        by: Option<&str>,
    ) -> Result<(SessionMeta, ShellState), OpError> {
        validate::create(&request)?;
        let workspace = validate::workspace(&request.config, &self.config.data_dir)?;
        let workspace = workspace.unwrap_or_else(|| self.workspaces.of(id));
        let cwd = request.cwd.unwrap_or_else(|| workspace.clone());
        let shell = recover::first_shell(&self.environment, request.env, &cwd);
        let meta = SessionMeta {
            session_id: id.clone(),
            agent: request.agent,
            agent_config: request.config,
            created_at: Timestamp::now(),
            workspace,
            by: by.map(str::to_owned),
            forked_from: None,
        };
        Ok((meta, shell))
    }

    /// Ends every command that runs for a session, in the background too.
    pub(crate) async fn kill_runs(&self, id: &SessionId) {
        let cells: Vec<_> =
            self.runs().iter().filter(|((owner, _), _)| owner == id).map(|(_, cell)| Arc::clone(cell)).collect();
        for cell in cells {
            let _ = cell.control.send(RunControl::Kill).await;
        }
    }
}
