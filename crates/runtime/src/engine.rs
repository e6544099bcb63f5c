//! The engine: the one object a door holds. Its methods are the vocabulary of [`crate::ops`]; each finds the owner of
//! the session it is about, or reads the store where no owner is needed.

use crate::cell::{self, PageError, RunCell, RunControl};
use crate::ops::*;
use crate::owner::{MAILBOX, Message, Owner, RunReply, Slot, Started};
use crate::pool::{Pool, Worn};
use crate::stream::RunStream;
use crate::{recover, translate, validate};
use shellkeep_process::CageFactory;
use shellkeep_session::{ByteString, Event, Record, RunId, SessionId, SessionMeta, SessionState, ShellState, Timestamp};
use shellkeep_store::{ReadError, Store};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How long a command waits for a shell when every place is taken and busy.
const SHELL_WAIT: Duration = Duration::from_secs(10);
/// Longest wait in one call of `run_view`.
pub const MAX_WAIT: Duration = Duration::from_secs(300);
/// Most sessions on one page.
pub const MAX_PAGE: usize = 1000;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where workspaces and outputs are kept.
    pub data_dir: PathBuf,
    /// Most live shells (spares included).
    pub max_shells: usize,
    /// Shells started ahead.
    pub spare_shells: usize,
    /// Most processes of one session.
    pub session_processes: u64,
    /// Bytes of one stream of one run that can be read back.
    pub output_bytes_per_run: u64,
    /// The bash to use.
    pub bash: PathBuf,
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory cannot be made.
    #[error("cannot make {path}: {reason}")]
    Directory {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// Bash does not work.
    #[error("{0}")]
    Bash(#[from] shellkeep_process::StartError),
}

/// Runs sessions. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What all clones share.
pub struct Inner {
    pub(crate) config: EngineConfig,
    pub(crate) store: Store,
    pool: Pool,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    sessions: Mutex<Sessions>,
    runs: Mutex<Runs>,
    known: Mutex<HashSet<SessionId>>,
    started: Instant,
    stopping: AtomicBool,
}

type Runs = HashMap<(SessionId, RunId), Arc<RunCell>>;

/// Sessions that have an owner.
#[derive(Default)]
pub struct Sessions {
    owners: HashMap<SessionId, (mpsc::Sender<Message>, Arc<Slot>)>,
}

impl Sessions {
    /// An owner left.
    pub fn remove(&mut self, id: &SessionId) {
        self.owners.remove(id);
    }

    /// An owner changed its mind and has a new mailbox.
    pub fn reopen(&mut self, id: &SessionId, mailbox: mpsc::Sender<Message>) {
        if let Some((sender, _)) = self.owners.get_mut(id) {
            *sender = mailbox;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Starts: ends what an earlier daemon left running, marks what it had not finished as lost, and gets ready.
    pub async fn start(config: EngineConfig, store: Store) -> Result<Self, StartError> {
        for directory in ["workspaces", "outputs", "scratch"] {
            make_directory(&config.data_dir.join(directory))?;
        }
        let scratch = config.data_dir.join("scratch");
        recover::clear_scratch(&scratch);
        let factory = CageFactory::detect(&recover::instance(&config.data_dir), config.session_processes);
        let ended = factory.sweep();
        if ended > 0 {
            tracing::warn!(processes = ended, "ended what an earlier daemon left running");
        }
        recover::mark_lost(&store).await.map_err(StartError::Store)?;
        let known = recover::known_sessions(&store).await.map_err(StartError::Store)?;
        let pool = Pool::new(config.bash.clone(), scratch, factory, config.max_shells, config.spare_shells);
        let inner = Arc::new(Inner {
            environment: recover::inherited_environment(),
            pool,
            store,
            sessions: Mutex::default(),
            runs: Mutex::default(),
            known: Mutex::new(known),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            config,
        });
        // One shell is started before anyone asks: a bash that does not work is found out now.
        drop(inner.pool.try_take().await?);
        let ahead = Arc::downgrade(&inner);
        tokio::spawn(async move {
            if let Some(inner) = ahead.upgrade() {
                inner.pool.keep_ahead().await;
            }
        });
        Ok(Self { inner })
    }

    /// Makes a session, or finds the one with that name.
    pub async fn create(&self, request: CreateSession) -> Result<Created, OpError> {
        self.inner.check_running()?;
        let id = match &request.session_id {
            Some(id) => id.clone(),
            None => validate::new_id(),
        };
        let (meta, shell) = self.inner.first_state(&id, request)?;
        if !lock(&self.inner.known).insert(id.clone()) {
            return self.get(&id).await.map(Created::Existing);
        }
        let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::new(shell) };
        let record = Record { session_id: id, seq: 1, at: Timestamp::now(), event };
        if let Err(error) = self.inner.store.append(&record) {
            tracing::warn!(%error, "a new session could not be stored yet");
        }
        self.inner.sync().await;
        match SessionState::create(&record) {
            Ok(state) => Ok(Created::New(dormant_view(state))),
            Err(error) => Err(OpError::StoreUnavailable { reason: error.to_string() }),
        }
    }

    /// One session.
    pub async fn get(&self, id: &SessionId) -> Result<SessionView, OpError> {
        match self.inner.ask_owner(id, Message::View).await {
            Some(view) => view,
            None => self.inner.load(id).await.map(dormant_view),
        }
    }

    /// Sessions by name, a page at a time.
    pub async fn list(
        &self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<SessionPage, OpError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let unavailable = |error: ReadError| OpError::StoreUnavailable { reason: error.to_string() };
        let mut found = self.inner.store.list(agent, after, limit + 1).await.map_err(unavailable)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = if has_more { found.last().map(|last| last.meta.session_id.clone()) } else { None };
        let sessions = self.inner.sessions();
        let view = |summary: shellkeep_store::SessionSummary| {
            let pid = sessions.owners.get(&summary.meta.session_id).map(|(_, slot)| slot.pid.load(Ordering::Relaxed));
            let shell_pid = pid.filter(|&pid| pid != 0);
            SessionView {
                meta: summary.meta,
                last_active_at: summary.last_active_at,
                cwd: summary.cwd,
                live: shell_pid.is_some(),
                shell_pid,
                generation: summary.generation,
                seq: summary.seq,
            }
        };
        Ok(SessionPage { sessions: found.into_iter().map(view).collect(), next })
    }

    /// Ends a session: its processes, its state, its files.
    pub async fn destroy(&self, id: &SessionId) -> Result<(), OpError> {
        match self.inner.ask(id, Message::Destroy).await {
            Err(OpError::Damaged { .. }) => self.inner.destroy_damaged(id).await,
            other => other,
        }
    }

    /// What its shell knows.
    pub async fn state(&self, id: &SessionId) -> Result<ShellState, OpError> {
        match self.inner.ask_owner(id, Message::State).await {
            Some(state) => state,
            None => self.inner.load(id).await.map(|state| state.shell),
        }
    }

    /// Runs a command; returns at its end, or at once if it is not blocking.
    pub async fn run(&self, id: &SessionId, command: RunCommand) -> Result<RunView, OpError> {
        let max_output = command.max_output;
        if !command.blocking {
            return match self.begin(id, command).await? {
                Started::Live(cell) => Ok(cell.view(max_output)),
                Started::Before(view) => Ok(*view),
            };
        }
        validate::command(&command)?;
        let command = Box::new(command);
        self.inner.ask(id, |answer| Message::Run { command, reply: RunReply::AtEnd(answer) }).await
    }

    /// Runs a command and watches it.
    pub async fn run_stream(&self, id: &SessionId, command: RunCommand) -> Result<RunStream, OpError> {
        let max_output = command.max_output;
        Ok(match self.begin(id, command).await? {
            Started::Live(cell) => RunStream::live(cell, max_output),
            Started::Before(view) => RunStream::ended(*view),
        })
    }

    async fn begin(&self, id: &SessionId, command: RunCommand) -> Result<Started, OpError> {
        validate::command(&command)?;
        let command = Box::new(command);
        self.inner.ask(id, |answer| Message::Run { command, reply: RunReply::AtStart(answer) }).await
    }

    /// How a run stands; waits up to `wait` for its end.
    pub async fn run_view(
        &self,
        id: &SessionId,
        run_id: &RunId,
        wait: Duration,
        max_output: usize,
    ) -> Result<RunView, OpError> {
        if let Some(cell) = self.inner.cell(id, run_id) {
            let _ = tokio::time::timeout(wait.min(MAX_WAIT), cell.finished()).await;
            return Ok(cell.view(max_output));
        }
        let run = self.inner.stored_run(id, run_id).await?;
        Ok(cell::stored_view(&run, &self.inner.output_directory(id), max_output, &ByteString::default()))
    }

    /// Reads a run's output.
    pub async fn output(&self, id: &SessionId, run_id: &RunId, query: OutputQuery) -> Result<OutputPage, OpError> {
        let page = if let Some(cell) = self.inner.cell(id, run_id) {
            cell.page(&query)
        } else {
            let run = self.inner.stored_run(id, run_id).await?;
            let result = run.result.unwrap_or_else(recover::nothing_known);
            let kept = match query.stream {
                Stream::Stdout => &result.stdout,
                Stream::Stderr => &result.stderr,
            };
            let path = cell::output_path(&self.inner.output_directory(id), run_id, query.stream);
            cell::page(kept, true, &query, |offset, limit| crate::output::read_kept(kept, &path, offset, limit))
        };
        page.map_err(|error| match error {
            PageError::Pattern(detail) => {
                OpError::Invalid { detail: format!("grep is not a regular expression: {detail}") }
            }
            PageError::Io(error) => {
                OpError::StoreUnavailable { reason: format!("the output file cannot be read: {error}") }
            }
        })
    }

    /// Sends input to a run; `end` closes it.
    pub async fn input(&self, id: &SessionId, run_id: &RunId, bytes: Vec<u8>, end: bool) -> Result<(), OpError> {
        let cell = self.live_cell(id, run_id).await?;
        if !cell.takes_input {
            return Err(OpError::NoInput { run_id: run_id.to_string() });
        }
        self.control(&cell, RunControl::Input { bytes, end }).await
    }

    /// Sends a signal (`INT`, `TERM`, `KILL`, `USR1`, …; `SIG` may stand before it) to a run's processes.
    pub async fn signal(&self, id: &SessionId, run_id: &RunId, signal: &str) -> Result<(), OpError> {
        let name = signal.strip_prefix("SIG").unwrap_or(signal);
        let number = translate::signal_number(name).and_then(|number| i32::try_from(number).ok());
        let Some(number) = number else {
            let detail = format!("'{signal}' is no signal; use a name such as INT, TERM, KILL, HUP, USR1");
            return Err(OpError::Invalid { detail });
        };
        let cell = self.live_cell(id, run_id).await?;
        self.control(&cell, RunControl::Signal { number }).await
    }

    async fn live_cell(&self, id: &SessionId, run_id: &RunId) -> Result<Arc<RunCell>, OpError> {
        if let Some(cell) = self.inner.cell(id, run_id) {
            return Ok(cell);
        }
        self.inner.stored_run(id, run_id).await?;
        Err(OpError::RunEnded { run_id: run_id.to_string() })
    }

    async fn control(&self, cell: &RunCell, control: RunControl) -> Result<(), OpError> {
        cell.control.send(control).await.map_err(|_| OpError::RunEnded { run_id: cell.run_id.to_string() })
    }

    /// Drops the shell and keeps the session. Waits its turn behind running commands.
    pub async fn hibernate(&self, id: &SessionId) -> Result<SessionView, OpError> {
        match self.inner.ask_owner(id, Message::Hibernate).await {
            Some(view) => view,
            None => self.inner.load(id).await.map(dormant_view),
        }
    }

    /// Ends what runs and gives a clean shell with the state the session began with.
    pub async fn restart(&self, id: &SessionId) -> Result<SessionView, OpError> {
        self.inner.ask(id, Message::Restart).await
    }

    /// How the engine stands.
    pub async fn health(&self) -> Health {
        let spare_shells = self.inner.pool.spare_count();
        Health {
            problems: self.inner.store.problems(),
            live_shells: self.inner.pool.live_count().saturating_sub(spare_shells),
            spare_shells,
        }
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        lock(&self.inner.known).len()
    }

    /// Ends every shell after saving; no operation is accepted afterwards.
    pub async fn shutdown(&self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        let ids: Vec<SessionId> = self.inner.sessions().owners.keys().cloned().collect();
        for cell in self.inner.runs().values().cloned().collect::<Vec<_>>() {
            let _ = cell.control.send(RunControl::Kill).await;
        }
        for id in ids {
            let _ = self.inner.ask_owner(&id, Message::Hibernate).await;
        }
        self.inner.pool.drop_spares();
        let _ = self.inner.store.flush().await;
    }
}

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

    pub(crate) fn output_directory(&self, id: &SessionId) -> PathBuf {
        self.config.data_dir.join("outputs").join(id.as_str())
    }

    /// Whether a directory is one that we made.
    pub(crate) fn owns(&self, directory: &Path) -> bool {
        directory.starts_with(self.config.data_dir.join("workspaces"))
    }

    /// Waits for the disk, where the host asked for that.
    pub(crate) async fn sync(&self) {
        if let Err(error) = self.store.sync().await {
            tracing::warn!(%error, "the journal is not on disk yet");
        }
    }

    pub(crate) fn read_error(&self, id: &SessionId, error: ReadError) -> OpError {
        match error {
            ReadError::Damaged { reason } => OpError::Damaged { session_id: id.to_string(), reason },
            ReadError::Unavailable { reason } => OpError::StoreUnavailable { reason },
        }
    }

    fn check_running(&self) -> Result<(), OpError> {
        if self.stopping.load(Ordering::Relaxed) { Err(OpError::ShuttingDown) } else { Ok(()) }
    }

    fn not_found(&self, id: &SessionId) -> OpError {
        OpError::SessionNotFound { session_id: id.to_string() }
    }

    async fn load(&self, id: &SessionId) -> Result<SessionState, OpError> {
        if !lock(&self.known).contains(id) {
            return Err(self.not_found(id));
        }
        let loaded = self.store.load(id).await.map_err(|error| self.read_error(id, error))?;
        loaded.ok_or_else(|| self.not_found(id))
    }

    fn cell(&self, id: &SessionId, run_id: &RunId) -> Option<Arc<RunCell>> {
        self.runs().get(&(id.clone(), run_id.clone())).cloned()
    }

    async fn stored_run(&self, id: &SessionId, run_id: &RunId) -> Result<shellkeep_session::StoredRun, OpError> {
        if !lock(&self.known).contains(id) {
            return Err(self.not_found(id));
        }
        let found = self.store.run(id, run_id).await.map_err(|error| self.read_error(id, error))?;
        let missing = || OpError::RunNotFound { session_id: id.to_string(), run_id: run_id.to_string() };
        found.ok_or_else(missing)
    }

    /// Asks the owner if there is one.
    async fn ask_owner<T>(
        &self,
        id: &SessionId,
        message: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> Message,
    ) -> Option<Result<T, OpError>> {
        let mailbox = self.sessions().owners.get(id).map(|(mailbox, _)| mailbox.clone())?;
        let (answer, waiting) = oneshot::channel();
        mailbox.send(message(answer)).await.ok()?;
        waiting.await.ok()
    }

    /// Asks the owner; wakes the session if it has none.
    async fn ask<T>(
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
    async fn post(self: &Arc<Self>, id: &SessionId, mut message: Message) -> Result<(), OpError> {
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

    async fn wake(self: &Arc<Self>, id: &SessionId) -> Result<mpsc::Sender<Message>, OpError> {
        let state = self.load(id).await?;
        let mut sessions = self.sessions();
        // Somebody else may have been faster; and what we loaded may be older than what they left.
        if let Some((mailbox, _)) = sessions.owners.get(id) {
            return Ok(mailbox.clone());
        }
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let slot = Arc::new(Slot::default());
        sessions.owners.insert(id.clone(), (mailbox.clone(), Arc::clone(&slot)));
        tokio::spawn(Owner::new(Arc::clone(self), state, messages, slot).serve());
        Ok(mailbox)
    }

    /// A shell for a session: a spare, a new one, or the place of the session that was idle the longest.
    pub(crate) async fn take_shell(&self, for_session: &SessionId) -> Result<Worn, OpError> {
        let unavailable = |error: shellkeep_process::StartError| OpError::ShellUnavailable { reason: error.to_string() };
        loop {
            if let Some(worn) = self.pool.try_take().await.map_err(unavailable)? {
                return Ok(worn);
            }
            if !self.evict_one(for_session).await {
                break;
            }
        }
        match tokio::time::timeout(SHELL_WAIT, self.pool.take_when_free()).await {
            Ok(taken) => taken.map_err(unavailable),
            Err(_) => Err(OpError::QuotaExceeded { limit: self.pool.limit() }),
        }
    }

    async fn evict_one(&self, except: &SessionId) -> bool {
        let mut idle: Vec<(u64, mpsc::Sender<Message>)> = self
            .sessions()
            .owners
            .iter()
            .filter(|(id, (_, slot))| {
                *id != except && !slot.busy.load(Ordering::Relaxed) && slot.pid.load(Ordering::Relaxed) != 0
            })
            .map(|(_, (mailbox, slot))| (slot.last_used.load(Ordering::Relaxed), mailbox.clone()))
            .collect();
        idle.sort_by_key(|(last_used, _)| *last_used);
        for (_, mailbox) in idle {
            let (answer, waiting) = oneshot::channel();
            if mailbox.send(Message::Evict(answer)).await.is_ok() && waiting.await.unwrap_or(false) {
                metrics::counter!("shellkeep_evictions_total").increment(1);
                return true;
            }
        }
        false
    }

    /// What a new session begins with.
    fn first_state(&self, id: &SessionId, request: CreateSession) -> Result<(SessionMeta, ShellState), OpError> {
        validate::create(&request)?;
        let workspace = self.config.data_dir.join("workspaces").join(id.as_str());
        let workspace = ByteString::from(workspace.to_string_lossy().into_owned());
        let cwd = request.cwd.unwrap_or_else(|| workspace.clone());
        let shell = recover::first_shell(&self.environment, &request.env, &cwd);
        let meta = SessionMeta {
            session_id: id.clone(),
            agent: request.agent,
            agent_config: request.config,
            created_at: Timestamp::now(),
            workspace,
        };
        Ok((meta, shell))
    }

    /// Ends what still runs in the background for a session.
    pub(crate) async fn kill_detached(&self, id: &SessionId) {
        let cells: Vec<_> =
            self.runs().iter().filter(|((owner, _), _)| owner == id).map(|(_, cell)| Arc::clone(cell)).collect();
        for cell in cells {
            let _ = cell.control.send(RunControl::Kill).await;
        }
    }

    /// Removes a session's name and files.
    pub(crate) async fn forget(&self, id: &SessionId, workspace: &ByteString) {
        lock(&self.known).remove(id);
        let workspace = PathBuf::from(workspace.to_text().into_owned());
        let mut directories = vec![self.output_directory(id)];
        if self.owns(&workspace) {
            directories.push(workspace);
        }
        let removal = tokio::task::spawn_blocking(move || {
            for directory in directories {
                match std::fs::remove_dir_all(&directory) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        tracing::warn!(directory = %directory.display(), %error, "cannot be removed");
                    }
                    _ => {}
                }
            }
        });
        let _ = removal.await;
    }

    /// A session that cannot be read can still be ended.
    async fn destroy_damaged(&self, id: &SessionId) -> Result<(), OpError> {
        let record =
            Record { session_id: id.clone(), seq: u64::MAX, at: Timestamp::now(), event: Event::SessionDestroyed };
        self.store.append(&record).map_err(|error| OpError::StoreUnavailable { reason: error.to_string() })?;
        let workspace = self.config.data_dir.join("workspaces").join(id.as_str());
        self.forget(id, &ByteString::from(workspace.to_string_lossy().into_owned())).await;
        Ok(())
    }
}

fn dormant_view(state: SessionState) -> SessionView {
    SessionView {
        meta: state.meta,
        last_active_at: state.last_active_at,
        cwd: state.shell.cwd,
        live: false,
        shell_pid: None,
        generation: state.generation,
        seq: state.seq,
    }
}

fn make_directory(path: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(path).map_err(|error| StartError::Directory {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}
