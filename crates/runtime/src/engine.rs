//! The engine: the one object a door holds. Its methods are the vocabulary of [`crate::ops`]; each finds the owner of
//! the session it is about, or reads the store where no owner is needed.

mod audit;
mod config;
mod create;
mod delete;
mod files;
mod hold;
mod node;
mod output;
mod records;
mod resume;
mod scope;
mod services;
mod start;
mod tokens;
mod visitors;

pub use config::{EngineConfig, KEEP_DELETED, OnStop};
pub use hold::{HOLD_LIMIT, Hold};
pub use records::{EventStream, ExportStream};
pub use scope::Engine;
pub use services::LogStream;
pub use tokens::Guest;
pub use visitors::{FromSession, Visitor};

use crate::adaptive::Adaptive;
use crate::cell::{self, RunCell, RunControl, Typist};
use crate::context::SessionContext;
use crate::housekeeping::Housekeeping;
use crate::identities::{Identities, Scope};
use crate::node_limits::NodeLimits;
use crate::ops::*;
use crate::owner::{Message, RunReply, Started};
use crate::recordings::Recordings;
use crate::resume::Agents;
use crate::session_files::SessionFiles;
use crate::shares::Shares;
use crate::stored::{Stored, asleep};
use crate::stream::RunStream;
use crate::work::Work;
use crate::{translate, validate};
use scope::Permitted;
use shellkeep_process::CageFactory;
use shellkeep_session::{ByteString, RunId, SessionId, ShellState};
use shellkeep_store::{AuditTrail, ReadError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest wait in one call of `run_view`.
pub const MAX_WAIT: Duration = Duration::from_secs(300);
/// Most sessions on one page.
pub const MAX_PAGE: usize = 1000;

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
    /// The quotas that were set cannot be read.
    #[error("the quotas that were set cannot be read: {0}; mend or remove quotas.json in the data directory")]
    Quotas(String),
    /// The agents' tokens cannot be read.
    #[error("the agents' tokens cannot be read: {0}")]
    Tokens(#[from] shellkeep_store::OpenError),
    /// The audit trail cannot be written.
    #[error("the audit trail cannot be written: {0}; is audit.jsonl in the data directory writable?")]
    Audit(std::io::Error),
    /// The settings of redaction are wrong.
    #[error("{0}")]
    Redaction(#[from] shellkeep_redact::ConfigError),
    /// Bash does not work.
    #[error("{0}")]
    Bash(#[from] shellkeep_process::StartError),
}

/// The handles that all clones of an engine share.
pub(crate) struct Inner {
    config: EngineConfig,
    /// What sessions work with.
    ctx: Arc<SessionContext>,
    stored: Stored,
    recordings: Arc<Recordings>,
    files: Arc<SessionFiles>,
    housekeeping: Arc<Housekeeping>,
    factory: Arc<CageFactory>,
    adaptive: Arc<Adaptive>,
    limits: NodeLimits,
    agents: Arc<Agents>,
    /// What is lent to callers.
    shares: Arc<Shares>,
    /// Who may keep a processor busy.
    work: Arc<Work>,
    /// The variables that new sessions get of the daemon's own.
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    identities: Identities,
    audit: AuditTrail,
    refusals: audit::Refusals,
}

impl Engine {
    /// One session.
    pub async fn get(&self, id: &SessionId) -> Result<SessionView, OpError> {
        if let Some(deleted) = self.deleted_session(id) {
            return Ok(delete::view(deleted));
        }
        let Permitted { inner, id } = self.over(id)?;
        match inner.ctx.registry.ask_awake(&id, Message::View).await {
            Some(view) => view,
            None => inner.stored.load(&id).await.map(asleep),
        }
    }

    /// Sessions by name, a page at a time. An agent sees its own.
    pub async fn list(
        &self,
        agent: Option<&str>,
        after: Option<&SessionId>,
        limit: usize,
    ) -> Result<SessionPage, OpError> {
        let limit = limit.clamp(1, MAX_PAGE);
        if let Some(own) = self.scope().only_session() {
            let is_past = after.is_some_and(|after| after >= own) || agent.is_some();
            let sessions = if is_past { Vec::new() } else { vec![self.get(own).await?] };
            return Ok(SessionPage { sessions, next: None });
        }
        let inner = self.at_large();
        let agent = match (self.scope().agent(), agent) {
            (Some(own), Some(asked)) if own != asked => return Ok(SessionPage { sessions: Vec::new(), next: None }),
            (own, asked) => own.or(asked),
        };
        let unavailable = |error: ReadError| OpError::StoreUnavailable { reason: error.to_string() };
        let mut found = match agent {
            Some(agent) => inner.ctx.store.list_of(agent, inner.ctx.names.of_agent(agent), after, limit + 1).await,
            None => inner.ctx.store.list(None, after, limit + 1).await,
        }
        .map_err(unavailable)?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = if has_more { found.last().map(|last| last.meta.session_id.clone()) } else { None };
        // One that has just been destroyed may be in the store for a moment more.
        if agent.is_some() {
            found.retain(|summary| inner.ctx.names.contains(&summary.meta.session_id));
        }
        let view = |summary: shellkeep_store::SessionSummary| {
            let slot = inner.ctx.registry.slot(&summary.meta.session_id);
            let shell_pid = slot.map(|slot| slot.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0);
            SessionView {
                meta: summary.meta,
                last_active_at: summary.last_active_at,
                cwd: summary.cwd,
                live: shell_pid.is_some(),
                shell_pid,
                generation: summary.generation,
                seq: summary.seq,
                deleted: None,
            }
        };
        Ok(SessionPage { sessions: found.into_iter().map(view).collect(), next })
    }

    /// What its shell knows.
    pub async fn state(&self, id: &SessionId) -> Result<ShellState, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        match inner.ctx.registry.ask_awake(&id, Message::State).await {
            Some(state) => state,
            None => inner.stored.load(&id).await.map(|state| state.shell),
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
        self.hand_over(id, command, RunReply::AtEnd).await
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
        self.hand_over(id, command, RunReply::AtStart).await
    }

    async fn hand_over<T>(
        &self,
        id: &SessionId,
        mut command: RunCommand,
        reply: impl FnOnce(oneshot::Sender<Result<T, OpError>>) -> RunReply,
    ) -> Result<T, OpError> {
        validate::command(&command)?;
        let Permitted { inner, id } = self.over(id)?;
        self.audit("run", id.as_str());
        command.by = self.scope().token().map(str::to_owned);
        let command = Box::new(command);
        inner.ctx.registry.ask(&id, |answer| Message::Run { command, reply: reply(answer) }).await
    }

    /// How a run stands; waits up to `wait` for its end.
    pub async fn run_view(
        &self,
        id: &SessionId,
        run_id: &RunId,
        wait: Duration,
        max_output: usize,
    ) -> Result<RunView, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        if let Some(cell) = inner.ctx.runs.get(&id, run_id) {
            let _ = tokio::time::timeout(wait.min(MAX_WAIT), cell.finished()).await;
            return Ok(cell.view(max_output));
        }
        let mut run = inner.stored.run(&id, run_id).await?;
        inner.ctx.kept_files.check_run(&id, &mut run).await?;
        Ok(cell::stored_view(&run, &inner.ctx.data_dir.outputs(&id), max_output, &ByteString::default()))
    }

    /// Sends input to a run; `end` closes it. Returns when it is recorded.
    pub async fn input(&self, id: &SessionId, run_id: &RunId, bytes: Vec<u8>, end: bool) -> Result<(), OpError> {
        let cell = self.live_cell("input", id, run_id).await?;
        if !cell.accepts_input(end) {
            return Err(OpError::NoInput { run_id: run_id.to_string() });
        }
        let by = self.scope().token().map(str::to_owned);
        let (answer, recorded) = oneshot::channel();
        self.control(&cell, RunControl::Input { bytes, end, typist: Some(Typist { by, answer }) }).await?;
        recorded.await.map_err(|_| OpError::RunEnded { run_id: run_id.to_string() })
    }

    /// Sends a signal (`INT`, `TERM`, `KILL`, `USR1`, …; `SIG` may stand before it) to a run's processes.
    pub async fn signal(&self, id: &SessionId, run_id: &RunId, signal: &str) -> Result<(), OpError> {
        let name = signal.strip_prefix("SIG").unwrap_or(signal);
        let number = translate::signal_number(name).and_then(|number| i32::try_from(number).ok());
        let Some(number) = number else {
            let detail = format!("'{signal}' is no signal; use a name such as INT, TERM, KILL, HUP, USR1");
            return Err(OpError::Invalid { detail });
        };
        let cell = self.live_cell("signal", id, run_id).await?;
        self.control(&cell, RunControl::Signal { number }).await
    }

    /// A run that has not ended, to do `operation` to it.
    async fn live_cell(
        &self,
        operation: &'static str,
        id: &SessionId,
        run_id: &RunId,
    ) -> Result<Arc<RunCell>, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        if let Some(cell) = inner.ctx.runs.get(&id, run_id) {
            self.audit(operation, id.as_str());
            return Ok(cell);
        }
        inner.stored.run(&id, run_id).await?;
        Err(OpError::RunEnded { run_id: run_id.to_string() })
    }

    async fn control(&self, cell: &RunCell, control: RunControl) -> Result<(), OpError> {
        cell.control.send(control).await.map_err(|_| OpError::RunEnded { run_id: cell.run_id.to_string() })
    }

    /// Drops the shell and keeps the session. Waits its turn behind running commands.
    pub async fn hibernate(&self, id: &SessionId) -> Result<SessionView, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        self.audit("hibernate", id.as_str());
        match inner.ctx.registry.ask_awake(&id, Message::Hibernate).await {
            Some(view) => view,
            None => inner.stored.load(&id).await.map(asleep),
        }
    }

    /// Ends what runs and gives a clean shell with the state the session began with. The host's right, and that of an
    /// agent whose token says so.
    pub async fn restart(&self, id: &SessionId) -> Result<SessionView, OpError> {
        let Permitted { inner, id } = self.over(id)?;
        if let Scope::Agent { may_restart: false, .. } | Scope::Session { .. } = self.scope() {
            let detail = format!(
                "session '{id}' was not restarted: this agent may not restart its shell, only the host may. The shell \
                 still works: undo what is in the way (cd, unset, trap), interrupt a run that hangs, or ask the host"
            );
            return Err(OpError::NotAllowed { detail });
        }
        self.audit("restart", id.as_str());
        inner.ctx.registry.ask(&id, Message::Restart).await
    }

    /// How the engine stands. An agent learns whether it works and how many shells of its own live.
    pub async fn health(&self) -> Health {
        let inner = self.at_large();
        let mut problems = inner.ctx.store.problems();
        problems.extend(inner.ctx.data_dir.look());
        if let Some(agent) = self.scope().agent() {
            let detail = "something is wrong with the daemon's store; the host can see what";
            let problems = if problems.is_empty() { problems } else { vec![detail.to_owned()] };
            return Health { problems, live_shells: live_shells_of(inner, agent), spare_shells: 0 };
        }
        let spare_shells = inner.ctx.pool.spare_count();
        Health { problems, live_shells: inner.ctx.pool.live_count().saturating_sub(spare_shells), spare_shells }
    }

    /// Whether a model that works with this handle may ask for a clean shell: an agent if its token says so, a model
    /// with the host's own handle if the host has set so for all.
    pub fn may_restart(&self) -> bool {
        match self.scope() {
            Scope::Host => self.at_large().config.agent_may_restart,
            Scope::Agent { may_restart, .. } => *may_restart,
            Scope::Session { .. } => false,
        }
    }

    /// Figures about everybody are the host's.
    pub fn check_host(&self) -> Result<(), OpError> {
        self.as_host().map(|_| ())
    }

    /// Ends every shell after saving; no operation is accepted afterwards. The host's right.
    pub async fn shutdown(&self) {
        let Ok(inner) = self.as_host() else { return };
        inner.ctx.lifetime.stop();
        inner.ctx.admission.close();
        let ids = inner.ctx.registry.ids();
        inner.ctx.runs.kill(|_| true).await;
        inner.agents.stop("the daemon stops", |_| true).await;
        inner.ctx.services.leave(inner.config.services_on_stop == OnStop::Stop).await;
        for id in ids {
            let _ = inner.ctx.registry.ask_awake(&id, Message::Hibernate).await;
        }
        close_pool(inner).await;
        let _ = inner.ctx.store.flush_backend().await;
    }

    /// Closes the store, after [`Engine::shutdown`] and when no answer is under way any more. An error says what is lost.
    pub async fn close_store(&self) -> Result<(), String> {
        let Ok(inner) = self.as_host() else { return Ok(()) };
        let store = inner.ctx.store.clone();
        let closing = tokio::task::spawn_blocking(move || {
            if let Err(problem) = store.close() {
                tracing::warn!(%problem, "the store was closed while something was wrong with it");
            }
            store.lost_at_close()
        });
        match closing.await {
            Ok(0) => Ok(()),
            Ok(lost) => Err(format!("no disk took the last {lost} records, and they are lost")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How many sessions of an agent have a shell.
fn live_shells_of(inner: &Inner, agent: &str) -> usize {
    let is_live =
        |id: &SessionId| inner.ctx.registry.slot(id).is_some_and(|slot| slot.pid.load(Ordering::Relaxed) != 0);
    inner.ctx.names.of_agent(agent).iter().filter(|id| is_live(id)).count()
}

/// Ends every shell that is left, but no service. Ending waits for the kernel, so it has a thread of its own.
async fn close_pool(inner: &Inner) {
    let keep = inner.ctx.services.cage_names();
    let pool = Arc::clone(&inner.ctx.pool);
    let _ = tokio::task::spawn_blocking(move || pool.close(&keep)).await;
}

fn make_directory(path: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(path).map_err(|error| not_made(path, &error))
}

fn not_made(path: &Path, error: &std::io::Error) -> StartError {
    StartError::Directory { path: path.display().to_string(), reason: error.to_string() }
}
