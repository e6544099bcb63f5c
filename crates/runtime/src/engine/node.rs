//! Operations on the node as a whole: quotas, status, and one round of its housekeeping.

use super::access::{Access, Permitted};
use super::fleet::FleetStream;
use super::handle::Engine;
use super::hold::{self, Hold};
use super::parts::Parts;
use super::{delete, services};
use crate::cell::RunCell;
use crate::cluster::Whose;
use crate::ops::*;
use crate::services::ServiceStop;
use crate::tasks;
use shellkeep_process::proc;
use shellkeep_session::{QuotaName, Quotas, SessionId};
use shellkeep_store::AuditEntry;
use shellkeep_store::deleted;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is wrong with a daemon that is about to stop.
const STOPPING: &str = "the daemon is stopping; it accepts no new commands";

/// How long to wait for one more attempt to write what is only in memory. On a full disk it fails at once.
const WRITE_LIMIT: Duration = Duration::from_secs(2);
/// Commands named in the view of a node: more than a screen shows, and few enough to send every second.
const MOST_RUNNING: usize = 100;
/// Characters of a command in that view: a line of a very wide terminal.
const MOST_SHOWN: usize = 1000;

/// Operations on the node as a whole.
pub struct NodeOps<'a> {
    pub(super) access: &'a Access,
}

impl Engine {
    /// Operations on the node as a whole.
    pub fn node(&self) -> NodeOps<'_> {
        NodeOps { access: &self.access }
    }
}

impl NodeOps<'_> {
    /// Follows all sessions that the caller may see.
    pub fn follow_sessions(&self) -> FleetStream {
        FleetStream::start(self.access)
    }

    /// The status of the engine. An agent learns whether it works and how many shells of its own live.
    pub fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(async move {
            let parts = self.access.at_large();
            let mut problems = parts.ctx.store.problems();
            problems.extend(parts.ctx.data_dir.look());
            problems.extend(parts.ctx.cluster.iter().flat_map(|cluster| cluster.problems()));
            problems.extend(parts.ctx.lifetime.is_draining().then(|| STOPPING.to_owned()));
            let draining = parts.ctx.cluster.as_ref().map(|cluster| cluster.members().own()).filter(|own| own.draining);
            problems.extend(draining.as_ref().map(|node| {
                format!("This node is being drained: it takes no more sessions, and has {} left.", node.sessions)
            }));
            let draining = draining.is_some();
            if let Some(agent) = self.access.scope().agent() {
                let detail = "the daemon's store has a problem; the host can see the details";
                let problems = match problems.as_slice() {
                    [] => Vec::new(),
                    [only] if only == STOPPING => problems,
                    _ => vec![detail.to_owned()],
                };
                return Health { problems, live_shells: live_shells_of(parts, agent), spare_shells: 0, draining };
            }
            let spare_shells = parts.ctx.pool.spare_count();
            let live_shells = parts.ctx.pool.live_count().saturating_sub(spare_shells);
            Health { problems, live_shells, spare_shells, draining }
        })
    }

    /// Figures about all agents are for the host, auditors and metrics.
    pub fn check_figures(&self) -> Result<(), OpError> {
        self.access.as_reader().map(|_| ())
    }

    /// Sets the figures of each agent, which are counted only when someone asks.
    pub fn count_agents(&self) -> Result<(), OpError> {
        let ctx = &self.access.as_reader()?.ctx;
        let running = ctx.runs.longest(usize::MAX);
        let running: Vec<Option<Arc<str>>> = running.iter().map(|(id, _)| ctx.names.agent_of(id)).collect();
        let services = ctx.services.list(|_| true);
        let services: Vec<Option<Arc<str>>> = services.iter().map(|seen| seen.agent().map(Arc::from)).collect();
        ctx.counts.agents().gauge(&running, &services);
        Ok(())
    }

    /// What only the host may see.
    pub fn check_host(&self) -> Result<(), OpError> {
        self.access.as_host().map(|_| ())
    }

    /// The quotas and their use. An agent sees the limits and its own use.
    pub fn quotas(&self) -> BoxFuture<'_, QuotasView> {
        Box::pin(async move {
            let parts = self.access.at_large();
            let on_all_nodes = match self.access.scope().agent() {
                Some(agent) => parts.ctx.used_by(agent).await,
                None => None,
            };
            let used = |name: QuotaName| match (name, on_all_nodes) {
                (QuotaName::ServicesPerAgent, Some(used)) => Some(used.services),
                (QuotaName::SessionsPerAgent, Some(used)) => Some(used.sessions),
                _ => parts.limits.used(name, self.access.scope().agent()),
            };
            let view = |name: QuotaName| QuotaView {
                name,
                configured: parts.ctx.quotas.configured(name),
                set: parts.ctx.quotas.set_since(name),
                limit: parts.limits.in_force(name),
                used: used(name),
            };
            let changes = match self.access.scope().agent() {
                Some(_) => Vec::new(),
                None => parts.limits.changes(),
            };
            QuotasView { quotas: QuotaName::ALL.into_iter().map(view).collect(), changes }
        })
    }

    /// Changes quotas; survives restarts. Host only.
    pub fn set_quotas(&self, changes: QuotaChanges) -> BoxFuture<'_, Result<QuotasView, OpError>> {
        Box::pin(async move {
            let limits = self.access.as_host()?.limits.clone();
            let changing = tasks::blocking(move || limits.change(&changes));
            changing.await??;
            self.access.audit("set_quotas", "node");
            Ok(self.quotas().await)
        })
    }

    /// The status of the node. Only the host may see it.
    pub fn view(&self) -> BoxFuture<'_, Result<NodeView, OpError>> {
        Box::pin(async move {
            let parts = self.access.as_reader()?;
            let figures = parts.ctx.admission.figures();
            let health = self.health().await;
            let pressure = parts.adaptive.pressure().unwrap_or_else(|| parts.config.senses.pressure());
            let sessions = parts.ctx.names.count();
            Ok(NodeView {
                uptime: parts.ctx.lifetime.uptime(),
                sessions,
                live_shells: health.live_shells,
                spare_shells: health.spare_shells,
                running: figures.running,
                running_limit: figures.running_limit,
                waiting: figures.waiting,
                agents_waiting: figures.agents_waiting,
                commands: parts
                    .ctx
                    .runs
                    .longest(MOST_RUNNING)
                    .iter()
                    .map(|(id, cell)| running(parts, id, cell))
                    .collect(),
                commands_total: figures.commands_total,
                services: parts.ctx.services.used(),
                processes: parts.factory.count(),
                memory: proc::resident(std::process::id()),
                cpu_pressure: pressure.cpu,
                memory_pressure: pressure.memory,
                memory_free: pressure.memory_free,
                quotas: self.quotas().await,
                problems: health.problems,
            })
        })
    }

    /// One round of housekeeping, now; for tests, which have their own clock.
    #[doc(hidden)]
    pub fn keep_house(&self) -> BoxFuture<'_, Result<(), OpError>> {
        Box::pin(async move {
            self.access.as_host()?.housekeeping.round().await;
            Ok(())
        })
    }

    /// Rejects new commands and waits until running ones have ended, at most for `grace`. Returns how many still run.
    /// Host only.
    pub fn drain(&self, grace: Duration) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let Ok(parts) = self.access.as_host() else { return 0 };
            parts.ctx.lifetime.drain();
            parts.ctx.admission.close();
            let _ = tokio::time::timeout(grace, parts.ctx.runs.all_ended()).await;
            parts.ctx.runs.count()
        })
    }

    /// How many records would be lost if the daemon stopped now, because neither its disk nor its store takes them. Tries
    /// once more to write them. Host only.
    pub fn unwritten(&self) -> BoxFuture<'_, Result<usize, OpError>> {
        Box::pin(async move {
            let store = &self.access.as_host()?.ctx.store;
            if store.unwritten() > 0 {
                // That it fails shows in the number.
                let _ = tokio::time::timeout(WRITE_LIMIT, store.flush_backend()).await;
            }
            Ok(store.unwritten())
        })
    }

    /// Waits until the recordings have everything and are signed, for `most` at most. After [`Engine::shutdown`].
    pub fn sign_recordings(&self, most: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(parts) = self.access.as_host() else { return };
            // What cannot be written now is written by the next daemon.
            let _ = tokio::time::timeout(most, parts.ctx.store.flush()).await;
        })
    }

    /// Logs an operation on the daemon itself in the audit trail. Host only.
    pub fn command(&self, operation: &'static str) -> Result<(), OpError> {
        self.access.as_host()?;
        self.access.audit(operation, "daemon");
        Ok(())
    }

    /// Logs in the audit trail what was removed from history because of its age. Host only.
    pub fn removed_history(&self, what: &str) -> Result<(), OpError> {
        self.access.as_host()?;
        self.access.audit("remove_history", what);
        Ok(())
    }

    /// Applies new configured quotas. Values that the host set at run time still win. Host only.
    pub fn configure_quotas(&self, configured: Quotas) -> BoxFuture<'_, Result<(), OpError>> {
        Box::pin(async move {
            let limits = self.access.as_host()?.limits.clone();
            tasks::blocking(move || limits.configure(configured)).await?;
            Ok(())
        })
    }

    /// The last entries of the audit trail, oldest first. Host only.
    pub fn audit_trail(&self, limit: usize) -> BoxFuture<'_, Result<Vec<AuditEntry>, OpError>> {
        Box::pin(async move {
            let parts: Arc<Parts> = Arc::clone(self.access.as_reader()?);
            let read = tasks::blocking(move || parts.audit.last(limit)).await?;
            read.map_err(|error| OpError::StoreUnavailable { reason: format!("cannot read the audit trail: {error}") })
        })
    }

    /// Pauses writes to the store, the recordings and the checkpoints, for a backup. Host only.
    pub fn hold(&self) -> BoxFuture<'_, Result<Hold, OpError>> {
        Box::pin(async move {
            let parts = self.access.as_host()?;
            parts.ctx.lifetime.check_running()?;
            self.access.audit("hold", "");
            hold::begin(&parts.ctx).await
        })
    }

    /// Sessions that agents deleted and whose recordings are kept, by name. Host only.
    pub fn deleted(&self) -> Result<Vec<SessionView>, OpError> {
        let parts = self.access.as_reader()?;
        Ok(deleted::list(parts.ctx.data_dir.root()).into_iter().map(delete::view).collect())
    }

    /// Ends an agent on this node: its services are stopped, its shells are dropped, its sessions may be reclaimed later. Host
    /// only.
    pub fn end_agent<'a>(&'a self, agent: &'a str) -> BoxFuture<'a, Result<EndedAgent, OpError>> {
        Box::pin(async move {
            let parts = self.access.as_host()?;
            self.access.audit("end_agent", agent);
            let ids = parts.ctx.names.of_agent(agent);
            parts.agents.stop("its agent was ended", |id| ids.contains(id)).await;
            let services =
                parts.ctx.services.stop(STOP_GRACE, ServiceStop::AgentEnded, |seen| seen.agent() == Some(agent)).await;
            let services = services + parts.ctx.services.background.stop_all(STOP_GRACE, |id| ids.contains(id)).await;
            let mut sessions = 0;
            for id in &ids {
                if is_elsewhere(parts, id).await {
                    continue;
                }
                match services::end_session(parts, id, "its agent is done").await {
                    Ok(_) => sessions += 1,
                    // A session that was deleted in the meantime, or cannot be read, must not prevent ending the
                    // others.
                    Err(error) => tracing::warn!(session = %id, %error, "not ended"),
                }
            }
            Ok(EndedAgent { agent: agent.to_owned(), sessions, services })
        })
    }

    /// Ends one session in the same way. Host only.
    pub fn end_session<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            self.access.as_host()?;
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("end_session", id.as_str());
            parts.agents.stop("the session was ended", |other| *other == *id).await;
            parts.ctx.services.stop(STOP_GRACE, ServiceStop::SessionEnded, |seen| seen.session_id == *id).await;
            parts.ctx.services.background.stop_all(STOP_GRACE, |other| *other == *id).await;
            services::end_session(parts, &id, "the host ended it").await
        })
    }
}

/// Whether a session is another node's to end. This one may have a copy from before it moved.
async fn is_elsewhere(parts: &Parts, id: &SessionId) -> bool {
    let Some(cluster) = &parts.ctx.cluster else { return false };
    // Its owner, and not the node that a request would be sent to: only its owner can end what a drained node still has.
    match cluster.diverged().whose(id).await {
        Ok(whose) => matches!(whose, Whose::Anothers(_)),
        Err(_) => cluster.elsewhere().owner(id).is_some(),
    }
}

/// A command that runs, for the view of the node.
fn running(parts: &Parts, id: &SessionId, cell: &RunCell) -> RunningView {
    RunningView {
        session_id: id.clone(),
        agent: parts.ctx.names.agent_of(id).map(|agent| agent.to_string()),
        run_id: cell.start.run_id.clone(),
        command: cell.start.command.to_text().chars().take(MOST_SHOWN).collect(),
        elapsed: cell.started.elapsed(),
        background: cell.is_detached(),
    }
}

/// How many sessions of an agent have a shell.
fn live_shells_of(parts: &Parts, agent: &str) -> usize {
    let is_live =
        |id: &SessionId| parts.ctx.registry.slot(id).is_some_and(|slot| slot.pid.load(Ordering::Relaxed) != 0);
    parts.ctx.names.of_agent(agent).iter().filter(|id| is_live(id)).count()
}
