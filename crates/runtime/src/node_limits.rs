//! The limits of the node: quotas that the host sets, and those of them that follow the machine's pressure.

use crate::adaptive::Adaptive;
use crate::admission::Admission;
use crate::names::Names;
use crate::notices::ProcessLimits;
use crate::ops::{LimitChangeView, OpError, QuotaChanges};
use crate::pool::Pool;
use crate::quotas::NodeQuotas;
use crate::services::Services;
use shellkeep_process::{CageFactory, Limits, machine};
use shellkeep_session::{Limit, LimitChange, LimitName, QuotaName, Quotas};
use std::sync::Arc;

/// The lower bound of shells and services under pressure, if the quota allows it.
const LEAST: usize = 4;

/// The limits of the node.
#[derive(Clone)]
pub(crate) struct NodeLimits {
    pub(crate) quotas: Arc<NodeQuotas>,
    pub(crate) adaptive: Arc<Adaptive>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) services: Arc<Services>,
    pub(crate) factory: Arc<CageFactory>,
    pub(crate) names: Arc<Names>,
    /// Commands that may run whatever the pressure is.
    pub(crate) min_running: usize,
}

impl NodeLimits {
    /// The limit in effect: the quota, or less under pressure.
    pub(crate) fn in_force(&self, name: QuotaName) -> u64 {
        let limit = self.quotas.get(name);
        match name {
            QuotaName::LiveShells => limit.min(self.adaptive.limit(LimitName::LiveShells)),
            QuotaName::Services => self.services.limit(),
            QuotaName::MemoryBytesPerAgent => memory_limit(&self.quotas),
            _ => limit,
        }
    }

    /// How much of a quota is used: by an agent, or by all. `None` if that is not counted, or not visible to the agent.
    pub(crate) fn used(&self, name: QuotaName, agent: Option<&str>) -> Option<u64> {
        match (name, agent) {
            (QuotaName::ServicesPerAgent, Some(agent)) => {
                Some(self.services.list(|seen| seen.agent() == Some(agent)).len() as u64)
            }
            (QuotaName::ProcessesPerAgent, Some(agent)) => Some(self.factory.count_of(agent)),
            (QuotaName::SessionsPerAgent, Some(agent)) => Some(self.names.count_of(agent)),
            (_, Some(_)) => None,
            (QuotaName::Processes, None) => Some(self.factory.count()),
            (QuotaName::Services, None) => Some(self.services.used() as u64),
            (QuotaName::LiveShells, None) => Some(self.pool.live_count() as u64),
            _ => None,
        }
    }

    /// The latest changes of limits that follow the pressure, the newest first.
    pub(crate) fn changes(&self) -> Vec<LimitChangeView> {
        let view = |(at, change): (_, LimitChange)| LimitChangeView {
            at,
            limit: change.name.as_str(),
            from: change.from as u64,
            to: change.to as u64,
            reason: change.reason,
        };
        self.adaptive.recent().into_iter().rev().map(view).collect()
    }

    /// Changes quotas, and the limits that follow from them.
    pub(crate) fn change(&self, changes: &QuotaChanges) -> Result<(), OpError> {
        self.quotas.change(changes)?;
        self.follow_quotas();
        Ok(())
    }

    /// Applies new configured quotas, and the limits that follow from them.
    pub(crate) fn configure(&self, configured: Quotas) {
        self.quotas.configure(configured);
        self.follow_quotas();
    }

    fn follow_quotas(&self) {
        self.factory.set_limits(process_limits(&self.quotas));
        for (name, low, high) in bounds(&self.quotas, self.min_running) {
            if let Some(change) = self.adaptive.set_bounds(name, low, high) {
                self.put_in_force(&change);
            }
        }
    }

    /// Reads the pressure and adapts the limits.
    pub(crate) fn follow_pressure(&self) {
        for change in self.adaptive.tick() {
            self.put_in_force(&change);
        }
    }

    fn put_in_force(&self, change: &LimitChange) {
        match change.name {
            LimitName::Running => self.admission.set_running_limit(change.to),
            LimitName::LiveShells => self.pool.set_limit(change.to),
            // Looked up when a service is started.
            LimitName::Services => {}
        }
    }
}

/// The initial limits that follow the machine's pressure.
pub(crate) fn adaptive_limits(quotas: &NodeQuotas, min_running: usize) -> [Limit; 3] {
    bounds(quotas, min_running).map(|(name, low, high)| Limit::new(name, low, high))
}

fn bounds(quotas: &NodeQuotas, min_running: usize) -> [(LimitName, usize, usize); 3] {
    let (shells, services) = (count(quotas, QuotaName::LiveShells), count(quotas, QuotaName::Services));
    [
        (LimitName::Running, min_running.min(shells), shells),
        (LimitName::LiveShells, LEAST.min(shells), shells),
        (LimitName::Services, LEAST.min(services), services),
    ]
}

/// A quota as a count.
pub(crate) fn count(quotas: &NodeQuotas, name: QuotaName) -> usize {
    usize::try_from(quotas.get(name)).unwrap_or(usize::MAX)
}

/// What processes may use, as the quotas say.
pub(crate) fn process_limits(quotas: &NodeQuotas) -> Limits {
    Limits {
        per_cage: quotas.get(QuotaName::SessionProcesses),
        per_party: quotas.get(QuotaName::ProcessesPerAgent),
        node: quotas.get(QuotaName::Processes),
        memory_per_party: memory_limit(quotas),
        open_files: quotas.get(QuotaName::OpenFiles),
    }
}

/// The limits that a command may have met: those of its session, of its agent if it has one, and of the node.
pub(crate) fn process_limits_of(quotas: &NodeQuotas, has_agent: bool) -> ProcessLimits {
    ProcessLimits {
        session: quotas.get(QuotaName::SessionProcesses),
        agent: has_agent.then(|| quotas.get(QuotaName::ProcessesPerAgent)),
        node: quotas.get(QuotaName::Processes),
    }
}

/// How much memory the processes of an agent may use. Some is left for others whatever the quota is.
pub(crate) fn memory_limit(quotas: &NodeQuotas) -> u64 {
    let quota = quotas.get(QuotaName::MemoryBytesPerAgent);
    quota.min(machine::memory_bytes().map_or(u64::MAX, |all| all / 4 * 3))
}
