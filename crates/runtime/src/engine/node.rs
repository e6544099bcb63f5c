//! Operations on the node as a whole: quotas, how it stands, and one round of its housekeeping.

use super::Engine;
use crate::ops::*;
use shellkeep_process::proc;
use shellkeep_session::QuotaName;

impl Engine {
    /// The quotas and their use. An agent sees the limits and its own use.
    pub async fn quotas(&self) -> QuotasView {
        let inner = self.at_large();
        let view = |name: QuotaName| QuotaView {
            name,
            configured: inner.ctx.quotas.configured(name),
            set: inner.ctx.quotas.set_since(name),
            limit: inner.limits.in_force(name),
            used: inner.limits.used(name, self.scope().agent()),
        };
        let changes = match self.scope().agent() {
            Some(_) => Vec::new(),
            None => inner.limits.changes(),
        };
        QuotasView { quotas: QuotaName::ALL.into_iter().map(view).collect(), changes }
    }

    /// Changes quotas; kept over restarts. The host's right.
    pub async fn set_quotas(&self, changes: QuotaChanges) -> Result<QuotasView, OpError> {
        let limits = self.as_host()?.limits.clone();
        let changing = tokio::task::spawn_blocking(move || limits.change(&changes));
        changing.await??;
        self.audit("set_quotas", "node");
        Ok(self.quotas().await)
    }

    /// How the node stands. The host's to see.
    pub async fn node(&self) -> Result<NodeView, OpError> {
        let inner = self.as_host()?;
        let figures = inner.ctx.admission.figures();
        let health = self.health().await;
        let pressure = inner.adaptive.pressure().unwrap_or_else(|| inner.config.senses.pressure());
        let sessions = inner.ctx.names.count();
        Ok(NodeView {
            uptime: inner.ctx.lifetime.uptime(),
            sessions,
            live_shells: health.live_shells,
            spare_shells: health.spare_shells,
            running: figures.running,
            running_limit: figures.running_limit,
            waiting: figures.waiting,
            agents_waiting: figures.agents_waiting,
            commands_total: figures.commands_total,
            services: inner.ctx.services.used(),
            processes: inner.factory.count(),
            memory: proc::resident(std::process::id()),
            cpu_pressure: pressure.cpu,
            memory_pressure: pressure.memory,
            memory_free: pressure.memory_free,
            quotas: self.quotas().await,
            problems: health.problems,
        })
    }

    /// One round of everything that is looked after from time to time, now; for tests, which have a clock of their own.
    #[doc(hidden)]
    pub async fn keep_house(&self) -> Result<(), OpError> {
        self.as_host()?.housekeeping.round().await;
        Ok(())
    }
}
