//! Commands that moved to the background at their timeout. For their caller they are services with the run's id: they
//! are counted, listed and stopped like services, but run in a shell and end with the daemon.

use crate::cell::{RunCell, RunControl};
use crate::live_runs::LiveRuns;
use crate::names::Names;
use crate::ops::ServiceView;
use crate::tasks;
use shellkeep_process::SocketTables;
use shellkeep_process::proc::{self, Stat};
use shellkeep_session::{RunId, ServiceId, ServiceStatus, SessionId, Timestamp, plan};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a stop waits for the result of a command that was killed: it is recorded first, and a store may be away.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// The commands in the background of all sessions.
pub(crate) struct Background {
    runs: Arc<LiveRuns>,
    names: Arc<Names>,
}

impl Background {
    /// Those of `runs` that are in the background.
    pub(crate) fn new(runs: Arc<LiveRuns>, names: Arc<Names>) -> Self {
        Self { runs, names }
    }

    /// A command in the background with this id.
    pub(crate) fn find(&self, id: &SessionId, service_id: &ServiceId) -> Option<Arc<RunCell>> {
        let run_id = RunId::parse(service_id.as_str()).ok()?;
        self.runs.get(id, &run_id).filter(|cell| cell.is_detached())
    }

    /// Stops a command in the background: SIGTERM, and SIGKILL after `grace`.
    pub(crate) async fn stop(&self, id: &SessionId, cell: &RunCell, grace: Duration) -> ServiceView {
        end(cell, grace).await;
        let (detail, now) = (Some("on request".to_owned()), Timestamp::now());
        let view = self.view(id, cell);
        ServiceView { status: ServiceStatus::Stopped, detail, ended_at: Some(now), last_active_at: now, ..view }
    }

    /// Stops the commands in the background of the sessions that `wanted` selects, all at once. Returns how many.
    pub(crate) async fn stop_all(&self, grace: Duration, wanted: impl Fn(&SessionId) -> bool) -> usize {
        let mut ending = tokio::task::JoinSet::new();
        for (_, cell) in self.runs.detached(wanted) {
            ending.spawn(async move { end(&cell, grace).await });
        }
        ending.join_all().await.len()
    }

    /// Commands in the background of the sessions that `wanted` selects.
    pub(crate) fn list(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<ServiceView> {
        self.runs.detached(wanted).iter().map(|(id, cell)| self.view(id, cell)).collect()
    }

    /// The same with their processes and ports. Reads `/proc`, so not on a hot path.
    pub(crate) async fn views(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<ServiceView> {
        let listed = self.runs.detached(wanted).into_iter();
        let listed: Vec<_> = listed.map(|(id, cell)| (self.view(&id, &cell), cell)).collect();
        if listed.is_empty() {
            return Vec::new();
        }
        let reading = tasks::blocking(move || {
            let (all, mut tables) = (proc::all().unwrap_or_default(), SocketTables::default());
            let look = |(view, cell): (ServiceView, Arc<RunCell>)| with_processes(view, &cell, &all, &mut tables);
            listed.into_iter().map(look).collect()
        });
        reading.await.unwrap_or_default()
    }

    /// How many commands run in the background on this node.
    pub(crate) fn count(&self) -> usize {
        self.runs.detached(|_| true).len()
    }

    /// The commands of this agent that run in the background; a session without an agent counts on its own.
    pub(crate) fn of(&self, agent: Option<&str>, id: &SessionId) -> Vec<ServiceView> {
        let is_own = |session: &SessionId| match agent {
            Some(agent) => self.names.agent_of(session).as_deref() == Some(agent),
            None => session == id,
        };
        self.list(is_own)
    }

    fn view(&self, id: &SessionId, cell: &RunCell) -> ServiceView {
        let run = cell.view(0);
        // A run's id is also a valid service id.
        let service_id =
            ServiceId::parse(cell.start.run_id.as_str()).unwrap_or_else(|_| ServiceId::from_seq(cell.start.seq));
        ServiceView {
            service_id,
            session_id: id.clone(),
            agent: self.names.agent_of(id).as_deref().map(str::to_owned),
            name: plan::shorten(&cell.start.command.to_text()),
            command: cell.start.command.clone(),
            cwd: cell.start.cwd.clone(),
            status: ServiceStatus::Running,
            pid: None,
            ports: Vec::new(),
            processes: 0,
            started_at: cell.start.started_at,
            last_active_at: cell.start.started_at,
            restart: Default::default(),
            restarts: 0,
            ended_at: None,
            exit_code: run.exit_code,
            signal: run.signal,
            detail: Some("a command that moved to the background at its timeout; it ends with the daemon".to_owned()),
            log_bytes: run.stdout.total,
        }
    }
}

/// The view with what the command's shell has started and what still belongs to it.
fn with_processes(
    view: ServiceView,
    cell: &RunCell,
    all: &HashMap<u32, Stat>,
    tables: &mut SocketTables,
) -> ServiceView {
    let Some(&shell) = cell.background_shell.get().filter(|shell| all.contains_key(shell)) else { return view };
    let is_own = |pid: &u32| *pid == shell || proc::ancestors(all, *pid).any(|ancestor| ancestor == shell);
    let pids: Vec<u32> = all.keys().copied().filter(is_own).collect();
    ServiceView { pid: Some(shell), ports: tables.of(&pids).listening, processes: pids.len(), ..view }
}

/// SIGTERM, and SIGKILL after `grace`.
async fn end(cell: &RunCell, grace: Duration) {
    let _ = cell.control.send(RunControl::Stop { grace }).await;
    if tokio::time::timeout(grace, cell.finished()).await.is_err() {
        let _ = cell.control.send(RunControl::Kill).await;
        let _ = tokio::time::timeout(KILL_WAIT, cell.finished()).await;
    }
}
