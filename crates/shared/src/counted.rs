//! Services of agents that this node runs, counted where all nodes see them. A node that dies stops renewing them.

use crate::LEASE;
use crate::lanes::Shared;
use crate::ship::Ship;
use crate::tier::{AgentService, Down, UsedByAgent};
use std::sync::Arc;

/// A service that is counted until this is dropped.
pub struct CountedService {
    shared: Arc<Shared>,
    /// None once it is no longer counted.
    service: Option<AgentService>,
}

impl CountedService {
    fn enter(shared: &Arc<Shared>, service: AgentService) -> Self {
        shared.lanes().services.insert(service.clone());
        Self { shared: Arc::clone(shared), service: Some(service) }
    }

    /// Ends it, and returns when other nodes can count another, or the tier is away.
    pub async fn end(mut self) {
        if let Some(service) = self.service.take() {
            let _ = uncount(&self.shared, service).await;
        }
    }
}

impl Drop for CountedService {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            // Nobody waits for it; if the tier is away, the lease ends.
            drop(uncount(&self.shared, service));
        }
    }
}

fn uncount(shared: &Shared, service: AgentService) -> impl Future<Output = Result<(), Down>> + use<> {
    shared.lanes().services.remove(&service);
    shared.ask(move |tier| tier.uncount_service(&service))
}

/// What agents have on all nodes together.
pub struct AgentCounts(Arc<Shared>);

impl AgentCounts {
    /// Those in the tier of a ship.
    pub fn of(ship: &Ship) -> Self {
        Self(Arc::clone(&ship.shared))
    }

    /// Counts a service that is to be started; the agent's services if it may have no more. While the tier is away it is
    /// counted when that is back, whatever the limit is.
    pub async fn count_service(&self, service: AgentService, limit: u64) -> Result<CountedService, Vec<AgentService>> {
        let (shared, asked) = (Arc::clone(&self.0), service.clone());
        let counted = self.0.ask(move |tier| {
            let answer = tier.count_service(&asked, limit, LEASE)?;
            Ok(answer.map(|()| CountedService::enter(&shared, asked)))
        });
        counted.await.unwrap_or_else(|_| Ok(self.keep_counting(service)))
    }

    /// Counts a service that runs, whatever the limit is.
    pub fn keep_counting(&self, service: AgentService) -> CountedService {
        let counted = CountedService::enter(&self.0, service.clone());
        // If the tier is away, it is counted when the leases are next renewed.
        drop(self.0.ask(move |tier| tier.renew_services(&[service], LEASE)));
        counted
    }

    /// What an agent has on all nodes together.
    pub async fn used_by(&self, agent: &str) -> Result<UsedByAgent, Down> {
        let agent = agent.to_owned();
        self.0.ask(move |tier| tier.used_by(&agent)).await
    }
}
