//! Operations on services.

use super::Engine;
use crate::ops::*;
use shellkeep_session::{ServiceId, SessionId};
use std::time::Duration;

/// A service's log as it grows.
pub struct LogStream;

impl LogStream {
    /// The next bytes; `None` when the service has ended and everything was given.
    pub async fn next(&mut self) -> Option<Result<LogPage, OpError>> {
        None
    }
}

#[allow(unused_variables, clippy::unused_async)]
impl Engine {
    /// Starts a service with the session's directory, variables and functions.
    pub async fn start_service(&self, id: &SessionId, request: StartService) -> Result<ServiceView, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// Stops a service and everything it has started: politely, and after `grace` by force.
    pub async fn stop_service(
        &self,
        id: &SessionId,
        service_id: &ServiceId,
        grace: Duration,
    ) -> Result<ServiceView, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// A session's services: those that run, and those that ended lately, in the order they were started.
    pub async fn services(&self, id: &SessionId) -> Result<Vec<ServiceView>, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// One service; waits up to `wait` until it is ready or has ended.
    pub async fn service(
        &self,
        id: &SessionId,
        service_id: &ServiceId,
        wait: Duration,
    ) -> Result<ServiceView, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// Services that run, of all sessions; an agent sees its own. `agent` narrows it down.
    pub async fn all_services(&self, agent: Option<&str>) -> Result<Vec<ServiceView>, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// Reads a service's log.
    pub async fn service_log(
        &self,
        id: &SessionId,
        service_id: &ServiceId,
        query: LogQuery,
    ) -> Result<LogPage, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// Follows a service's log from `offset`, or from the last `tail` bytes.
    pub async fn follow_log(
        &self,
        id: &SessionId,
        service_id: &ServiceId,
        offset: u64,
        tail: Option<u64>,
    ) -> Result<LogStream, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// The agent is done: its services are stopped, its shells given up, its sessions may be reclaimed later. The
    /// host's right.
    pub async fn end_agent(&self, agent: &str) -> Result<EndedAgent, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// One session is done, likewise. The host's right.
    pub async fn end_session(&self, id: &SessionId) -> Result<SessionView, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// The quotas and their use. An agent sees the limits and its own use.
    pub async fn quotas(&self) -> QuotasView {
        QuotasView { quotas: Vec::new(), changes: Vec::new() }
    }

    /// Changes quotas; kept over restarts. The host's right.
    pub async fn set_quotas(&self, changes: QuotaChanges) -> Result<QuotasView, OpError> {
        Err(OpError::ShuttingDown)
    }

    /// How the node stands. The host's to see.
    pub async fn node(&self) -> Result<NodeView, OpError> {
        Err(OpError::ShuttingDown)
    }
}
