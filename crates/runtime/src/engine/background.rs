//! Commands that outgrew their timeout and run on beside their session: to their caller they are services, with the run's
//! id. They count as such, are listed and stopped as such; but they run in a shell of ours and end with the daemon.

use super::{Engine, Inner};
use crate::cell::{RunCell, RunControl};
use crate::ops::*;
use rustix::process::Signal;
use shellkeep_session::{QuotaName, RunId, ServiceId, ServiceStatus, SessionId, Timestamp, plan};
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// The log of a command in the background: its standard output.
    pub(super) async fn background_log(
        &self,
        id: &SessionId,
        run_id: &RunId,
        query: LogQuery,
    ) -> Result<LogPage, OpError> {
        let LogQuery { offset, limit, tail, grep } = query;
        let query = OutputQuery { stream: Stream::Stdout, offset, limit, tail, grep };
        let OutputPage { bytes, offset, next_offset, total, complete } = self.output(id, run_id, query).await?;
        Ok(LogPage { bytes, offset, next_offset, first: 0, total, complete })
    }
}

impl Inner {
    /// A command in the background with this id.
    pub(super) fn background(&self, id: &SessionId, service_id: &ServiceId) -> Option<Arc<RunCell>> {
        let run_id = RunId::parse(service_id.as_str()).ok()?;
        self.cell(id, &run_id).filter(|cell| cell.is_detached())
    }

    /// Ends a command in the background: politely, and after `grace` by force.
    pub(super) async fn stop_background(&self, id: &SessionId, cell: &RunCell, grace: Duration) -> ServiceView {
        end(cell, grace).await;
        let detail = Some("it was stopped".to_owned());
        ServiceView { status: ServiceStatus::Stopped, detail, ..self.background_view(id, cell) }
    }

    /// Ends the commands in the background of the sessions that `wanted` says, all at once; gives how many.
    pub(super) async fn stop_backgrounds(&self, grace: Duration, wanted: impl Fn(&SessionId) -> bool) -> usize {
        let mut ending = tokio::task::JoinSet::new();
        for (_, cell) in self.background_cells(wanted) {
            ending.spawn(async move { end(&cell, grace).await });
        }
        ending.join_all().await.len()
    }

    /// Commands in the background of the sessions that `wanted` says.
    pub(super) fn backgrounds(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<ServiceView> {
        self.background_cells(wanted).iter().map(|(id, cell)| self.background_view(id, cell)).collect()
    }

    fn background_cells(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<(SessionId, Arc<RunCell>)> {
        self.runs()
            .iter()
            .filter(|((id, _), cell)| cell.is_detached() && !cell.is_finished() && wanted(id))
            .map(|((id, _), cell)| (id.clone(), Arc::clone(cell)))
            .collect()
    }

    /// How many commands run in the background on this node.
    pub(super) fn background_count(&self) -> usize {
        self.background_cells(|_| true).len()
    }

    /// How many services run on this node, with the commands in the background, which count as such.
    pub(crate) fn services_used(&self) -> usize {
        self.services.count() + self.background_count()
    }

    /// Whether one more command of this agent may run on in the background.
    pub(crate) fn has_room_in_background(&self, agent: Option<&str>, id: &SessionId) -> bool {
        let services = self.services.list(|seen| seen.is_of(agent, id)).len();
        let limit = self.quotas.get(QuotaName::ServicesPerAgent);
        let of_agent = services + self.backgrounds_of(agent, id);
        (of_agent as u64) < limit && (self.services_used() as u64) < self.services_limit()
    }

    /// How many commands of this agent run in the background.
    pub(super) fn backgrounds_of(&self, agent: Option<&str>, id: &SessionId) -> usize {
        self.backgrounds_named(agent, id).len()
    }

    /// The commands of this agent that run in the background; a session without an agent is its own.
    pub(crate) fn backgrounds_named(&self, agent: Option<&str>, id: &SessionId) -> Vec<ServiceView> {
        let is_own = |session: &SessionId| match agent {
            Some(agent) => self.agent_of(session).as_deref() == Some(agent),
            None => session == id,
        };
        self.backgrounds(is_own)
    }

    fn background_view(&self, id: &SessionId, cell: &RunCell) -> ServiceView {
        let run = cell.view(0);
        let started_at = Timestamp::now().checked_sub(cell.started.elapsed()).unwrap_or_else(|_| Timestamp::now());
        // A run's id is made of the same letters as a service's.
        let service_id = ServiceId::parse(cell.run_id.as_str()).unwrap_or_else(|_| ServiceId::from_seq(cell.seq));
        ServiceView {
            service_id,
            session_id: id.clone(),
            agent: self.agent_of(id).as_deref().map(str::to_owned),
            name: plan::shorten(&cell.command.to_text()),
            command: cell.command.clone(),
            cwd: cell.cwd.clone(),
            status: ServiceStatus::Running,
            pid: None,
            ports: Vec::new(),
            processes: 0,
            started_at,
            last_active_at: started_at,
            restart: Default::default(),
            restarts: 0,
            ended_at: None,
            exit_code: run.exit_code,
            signal: run.signal,
            detail: Some("a command that outgrew its timeout; it ends with the daemon".to_owned()),
            log_bytes: run.stdout.total,
        }
    }
}

/// Politely, and after `grace` by force.
async fn end(cell: &RunCell, grace: Duration) {
    let _ = cell.control.send(RunControl::Signal { number: Signal::TERM.as_raw() }).await;
    if tokio::time::timeout(grace, cell.finished()).await.is_err() {
        let _ = cell.control.send(RunControl::Kill).await;
        cell.finished().await;
    }
}
