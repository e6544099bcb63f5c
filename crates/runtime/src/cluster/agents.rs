//! What agents have on all nodes together. A node that cannot reach the shared store counts what it has itself.

use shellkeep_session::{ServiceId, SessionId};
use shellkeep_shared::{AgentCounts, AgentService, CountedService, Ship, UsedByAgent};

/// What agents have on all nodes together.
pub(crate) struct Agents {
    counts: AgentCounts,
}

impl Agents {
    pub(super) fn new(ship: &Ship) -> Self {
        Self { counts: AgentCounts::of(ship) }
    }

    /// Counts a service that is to be started, until the answer is dropped; the agent's services if it may have no more.
    pub(crate) async fn count(&self, service: AgentService, limit: u64) -> Result<CountedService, Vec<AgentService>> {
        self.counts.count_service(service, limit).await
    }

    /// Counts a service that runs already.
    pub(crate) fn keep_counting(&self, service: AgentService) -> CountedService {
        self.counts.keep_counting(service)
    }

    /// What an agent has; `None` while the shared store is unreachable.
    pub(crate) async fn used_by(&self, agent: &str) -> Option<UsedByAgent> {
        self.counts.used_by(agent).await.ok()
    }
}

/// A service as it is counted. That of a session without an agent counts on the session's own node.
pub(crate) fn counted_as(agent: Option<&str>, session_id: &SessionId, service_id: &ServiceId) -> Option<AgentService> {
    let (session_id, service_id) = (session_id.clone(), service_id.clone());
    Some(AgentService { agent: agent?.to_owned(), session_id, service_id })
}
