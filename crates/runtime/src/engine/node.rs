//! Operations on the node as a whole: quotas, how it stands, and one round of its housekeeping.

use super::start::{process_limits, quota};
use super::{Engine, Inner, lock};
use crate::housekeeping;
use crate::ops::*;
use shellkeep_process::proc;
use shellkeep_session::{LimitChange, LimitName, QuotaName};
use std::sync::Arc;

impl Engine {
    /// The quotas and their use. An agent sees the limits and its own use.
    pub async fn quotas(&self) -> QuotasView {
        let inner = self.at_large();
        let view = |name: QuotaName| QuotaView {
            name,
            configured: inner.quotas.configured(name),
            set: inner.quotas.set_since(name),
            limit: inner.in_force(name),
            used: inner.used(name, self.scope().agent()),
        };
        let changes = match self.scope().agent() {
            Some(_) => Vec::new(),
            None => inner.limit_changes(),
        };
        QuotasView { quotas: QuotaName::ALL.into_iter().map(view).collect(), changes }
    }

    /// Changes quotas; kept over restarts. The host's right.
    pub async fn set_quotas(&self, changes: QuotaChanges) -> Result<QuotasView, OpError> {
        let inner = Arc::clone(self.as_host()?);
        let changing = tokio::task::spawn_blocking(move || inner.change_quotas(&changes));
        changing.await.unwrap_or_else(|error| Err(OpError::StoreUnavailable { reason: error.to_string() }))?;
        self.audit("set_quotas", "node");
        Ok(self.quotas().await)
    }

    /// How the node stands. The host's to see.
    pub async fn node(&self) -> Result<NodeView, OpError> {
        let inner = self.as_host()?;
        let figures = inner.admission.figures();
        let health = self.health().await;
        let pressure = inner.adaptive.pressure().unwrap_or_else(|| inner.config.senses.pressure());
        let sessions = lock(&inner.known).len();
        Ok(NodeView {
            uptime: inner.started.elapsed(),
            sessions,
            live_shells: health.live_shells,
            spare_shells: health.spare_shells,
            running: figures.running,
            running_limit: figures.running_limit,
            waiting: figures.waiting,
            agents_waiting: figures.agents_waiting,
            commands_total: figures.commands_total,
            services: inner.services_used(),
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
        housekeeping::round(self.as_host()?).await;
        Ok(())
    }
}

impl Inner {
    /// What a limit that follows the machine's pressure is now.
    pub(crate) fn adapted(&self, name: LimitName) -> u64 {
        let found = self.adaptive.limits().into_iter().find(|limit| limit.name == name);
        found.map_or(u64::MAX, |limit| limit.now as u64)
    }

    fn in_force(&self, name: QuotaName) -> u64 {
        let limit = self.quotas.get(name);
        match name {
            QuotaName::LiveShells => limit.min(self.adapted(LimitName::LiveShells)),
            QuotaName::Services => limit.min(self.adapted(LimitName::Services)),
            _ => limit,
        }
    }

    fn used(&self, name: QuotaName, agent: Option<&str>) -> Option<u64> {
        match (name, agent) {
            (QuotaName::ServicesPerAgent, Some(agent)) => {
                Some(self.services.list(|seen| seen.agent() == Some(agent)).len() as u64)
            }
            (_, Some(_)) => None,
            (QuotaName::Processes, None) => Some(self.factory.count()),
            (QuotaName::Services, None) => Some(self.services_used() as u64),
            (QuotaName::LiveShells, None) => Some(self.pool.live_count() as u64),
            _ => None,
        }
    }

    fn limit_changes(&self) -> Vec<LimitChangeView> {
        let view = |(at, change): (_, LimitChange)| LimitChangeView {
            at,
            limit: change.name.as_str(),
            from: change.from as u64,
            to: change.to as u64,
            reason: change.reason,
        };
        self.adaptive.recent().into_iter().rev().map(view).collect()
    }

    fn change_quotas(&self, changes: &QuotaChanges) -> Result<(), OpError> {
        self.quotas.change(changes)?;
        self.factory.set_limits(process_limits(&self.quotas));
        let shells = quota(&self.quotas, QuotaName::LiveShells);
        let services = quota(&self.quotas, QuotaName::Services);
        let least = self.config.admission.min_running.min(shells);
        let bounds = [
            (LimitName::Running, least, shells),
            (LimitName::LiveShells, super::start::LEAST.min(shells), shells),
            (LimitName::Services, super::start::LEAST.min(services), services),
        ];
        for (name, low, high) in bounds {
            if let Some(change) = self.adaptive.set_bounds(name, low, high) {
                self.put_in_force(&change);
            }
        }
        Ok(())
    }

    /// Makes a change of a limit true.
    pub(crate) fn put_in_force(&self, change: &LimitChange) {
        match change.name {
            LimitName::Running => self.admission.set_running_limit(change.to),
            LimitName::LiveShells => self.pool.set_limit(change.to),
            // Looked up when a service is started.
            LimitName::Services => {}
        }
    }
}
