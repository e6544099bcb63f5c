//! How many of the daemon's descriptors rooms may take for the hosts that they reach, and for the connections to their
//! services: a part of all, and the rooms of one agent a part of that. Names that match a pattern can be made up without an
//! end, and so can connections: without a limit one agent has all descriptors, and nobody else gets a shell, a room or a
//! connection.

use crate::sync::lock;
use shellkeep_process::most_descriptors;
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Where nothing limits the descriptors of the daemon, they are shared out as if it had this many.
const DESCRIPTORS: usize = 1 << 20;
/// The part of the daemon's descriptors that all rooms may take: one in this many. The rest is for shells and callers.
const PART_OF_ALL: usize = 4;
/// The part of those that the rooms of one agent may take: one in this many.
const PART_OF_AGENT: usize = 4;
/// What the rooms of one agent may take at most: more than several builds at a time need.
const MOST_OF_AGENT: usize = 8192;
/// A connection has one inside and one outside.
const PER_CONNECTION: usize = 2;
/// A socket that listens has one, and one for a connection that waits for its turn.
const PER_LISTENER: usize = 2;

/// Whose rooms share a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Tenant {
    /// All sessions of an agent.
    Agent(String),
    /// A session without one.
    Session(SessionId),
}

impl Tenant {
    pub(crate) fn of(id: &SessionId, agent: Option<&str>) -> Self {
        agent.map_or_else(|| Self::Session(id.clone()), |agent| Self::Agent(agent.to_owned()))
    }
}

/// What rooms may take: half of the descriptors for sockets that listen, half for connections, so that neither is used up by
/// the other.
#[derive(Debug)]
struct Half {
    listeners: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Half {
    fn of(descriptors: usize) -> Self {
        let half = |each: usize| Arc::new(Semaphore::new((descriptors / 2 / each).max(1)));
        Self { listeners: half(PER_LISTENER), connections: half(PER_CONNECTION) }
    }
}

/// The descriptors that all rooms may take.
#[derive(Debug)]
pub(crate) struct Descriptors {
    of_agent: usize,
    all: Arc<Half>,
    tenants: Mutex<HashMap<Tenant, Weak<Allowance>>>,
}

/// The descriptors that the rooms of one tenant may take.
#[derive(Debug)]
pub(crate) struct Allowance {
    tenant: Tenant,
    own: Half,
    all: Arc<Half>,
}

/// Some that were taken. They can be taken again when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Descriptors {
    /// Those of this daemon.
    pub(crate) fn of_daemon() -> Self {
        let most = most_descriptors().and_then(|most| usize::try_from(most).ok()).unwrap_or(DESCRIPTORS);
        Self::new(most.min(DESCRIPTORS))
    }

    /// For a daemon that may have this many.
    pub(crate) fn new(most: usize) -> Self {
        let all = most / PART_OF_ALL;
        let of_agent = (all / PART_OF_AGENT).min(MOST_OF_AGENT);
        Self { of_agent, all: Arc::new(Half::of(all)), tenants: Mutex::default() }
    }

    pub(crate) fn of(&self, tenant: Tenant) -> Arc<Allowance> {
        let mut tenants = lock(&self.tenants);
        if let Some(known) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return known;
        }
        tenants.retain(|_, allowance| allowance.strong_count() > 0);
        let (own, all) = (Half::of(self.of_agent), Arc::clone(&self.all));
        let allowance = Arc::new(Allowance { tenant: tenant.clone(), own, all });
        tenants.insert(tenant, Arc::downgrade(&allowance));
        allowance
    }
}

impl Allowance {
    /// Takes what this many sockets need that listen; none if there are not enough.
    pub(crate) fn listen(&self, count: usize) -> Option<Taken> {
        let count = u32::try_from(count).ok()?;
        let take = |half: &Half| Arc::clone(&half.listeners).try_acquire_many_owned(count).ok();
        Some(Taken { _own: take(&self.own)?, _all: take(&self.all)? })
    }

    /// Takes what a connection needs, once there is enough; none if there never will be.
    pub(crate) async fn connect(&self) -> Option<Taken> {
        let own = Arc::clone(&self.own.connections).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all.connections).acquire_owned().await.ok()?;
        Some(Taken { _own: own, _all: all })
    }

    /// Who has as many connections as may be.
    pub(crate) fn full(&self) -> &'static str {
        match &self.tenant {
            _ if self.own.connections.available_permits() > 0 => "the node's sessions",
            Tenant::Agent(_) => "the sessions of this agent",
            Tenant::Session(_) => "this session",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn take(allowance: &Allowance) -> Option<Taken> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(allowance.connect()).poll(&mut context) {
            std::task::Poll::Ready(taken) => taken,
            std::task::Poll::Pending => None,
        }
    }

    fn agent(name: &str) -> Tenant {
        Tenant::of(&SessionId::parse("s").unwrap(), Some(name))
    }

    /// The limits were those of a session, and an agent had as many sessions as it liked: its connections and the names that
    /// it made up for a pattern took every descriptor of the daemon.
    #[test]
    fn all_sessions_of_an_agent_leave_descriptors_to_others() {
        const MOST: usize = 1024;
        let descriptors = Descriptors::new(MOST);
        let greedy = descriptors.of(agent("greedy"));
        let mut connections: Vec<Taken> = std::iter::from_fn(|| take(&descriptors.of(agent("greedy")))).collect();
        let listeners: Vec<Taken> = std::iter::from_fn(|| greedy.listen(1)).collect();
        let taken = connections.len() * PER_CONNECTION + listeners.len() * PER_LISTENER;
        assert!((MOST / 32..=MOST / PART_OF_ALL / PART_OF_AGENT).contains(&taken), "{taken}");
        assert_eq!(greedy.full(), "the sessions of this agent");
        let other = descriptors.of(agent("other"));
        assert!(take(&other).is_some() && other.listen(3).is_some());
        connections.pop();
        assert!(take(&greedy).is_some());
        // All agents together leave most to shells and callers.
        let mut all = Vec::new();
        for number in 0..100 {
            let allowance = descriptors.of(agent(&number.to_string()));
            all.extend(std::iter::from_fn(|| take(&allowance)).map(|taken| (Arc::clone(&allowance), taken)));
        }
        let taken = (connections.len() + all.len()) * PER_CONNECTION;
        assert!(taken <= MOST / PART_OF_ALL / 2, "{taken}");
        let late = descriptors.of(agent("late"));
        assert!(take(&late).is_none());
        assert_eq!(late.full(), "the node's sessions");
    }

    /// A session without an agent was told of the sessions of its agent.
    #[test]
    fn a_session_without_an_agent_is_told_of_itself() {
        let descriptors = Descriptors::new(1024);
        let alone = descriptors.of(Tenant::of(&SessionId::parse("s").unwrap(), None));
        let _connections: Vec<Taken> = std::iter::from_fn(|| take(&alone)).collect();
        assert_eq!(alone.full(), "this session");
    }

    #[test]
    fn nothing_is_kept_of_an_owner_without_rooms() {
        let descriptors = Descriptors::new(1024);
        drop(descriptors.of(agent("a")));
        let kept = descriptors.of(agent("b"));
        assert_eq!(lock(&descriptors.tenants).len(), 1);
        assert!(Arc::ptr_eq(&kept, &descriptors.of(agent("b"))));
    }
}
