//! The handle that a door holds: an engine and a scope.

use super::access::Access;
use super::config::OnStop;
use super::parts::Parts;
use crate::actor::Message;
use crate::identities::Scope;
use crate::ops::{BoxFuture, OpError};
use crate::services::ServiceStop;
use crate::shares::{Lent, Share};
use crate::tasks;
use shellkeep_shared::Closing;
use std::sync::Arc;
use std::time::Duration;

/// Runs sessions. Cheap to clone; all clones are the same engine, each with the rights of its scope.
#[derive(Clone)]
pub struct Engine {
    pub(super) access: Access,
}

impl Engine {
    /// The host's handle.
    pub(super) fn of(parts: Arc<Parts>) -> Self {
        Self { access: Access::of_host(parts) }
    }

    /// The same engine with another scope.
    pub fn scoped(&self, scope: impl Into<Arc<Scope>>) -> Self {
        Self { access: self.access.scoped(scope.into()) }
    }

    /// The same engine, used through this door.
    pub fn at_door(&self, door: &'static str) -> Self {
        Self { access: self.access.at_door(door) }
    }

    /// The caller's scope.
    pub fn scope(&self) -> &Scope {
        self.access.scope()
    }

    /// Writes a rejected request to the audit trail. `who` is its caller, if it differs from this handle's.
    pub fn audit_refusal(&self, who: Option<String>, request: &str, code: &str, reason: Option<&str>) {
        self.access.audit_refusal(who, request, code, reason);
    }

    /// Whether a model that works with this handle may ask for a clean shell: an agent if its token says so, a model
    /// with the host's handle if the host allows it for all.
    pub fn may_restart(&self) -> bool {
        match self.access.scope() {
            Scope::Host | Scope::Console { .. } => self.access.at_large().config.agent_may_restart,
            Scope::Agent { may_restart, .. } => *may_restart,
            Scope::Auditor { .. } | Scope::Metrics { .. } | Scope::Session { .. } => false,
        }
    }

    /// Whether a model is offered tools for checkpoints: if checkpoints are on, unless the host turned them off.
    pub fn offers_undo(&self) -> bool {
        let parts = self.access.at_large();
        parts.config.mcp_undo && parts.ctx.checkpoints.config.on
    }

    /// Takes a share of a limited resource; dropping it releases it.
    pub fn lend(&self, what: Lent, amount: u64) -> Result<Share, OpError> {
        Ok(self.access.at_large().shares.take(what, self.access.scope().agent(), amount)?)
    }

    /// Ends every shell after saving; no operation is accepted afterwards. Host only.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(parts) = self.access.as_host() else { return };
            parts.ctx.lifetime.stop();
            parts.ctx.admission.close();
            let ids = parts.ctx.registry.ids();
            parts.ctx.runs.cut_off().await;
            parts.agents.stop("the daemon stops", |_| true).await;
            if parts.ctx.is_draining() {
                // Others take its sessions at once. What the drain did not end in time is killed.
                parts.ctx.services.stop(Duration::ZERO, ServiceStop::NodeDrained, |_| true).await;
            } else {
                parts.ctx.services.leave(parts.config.services_on_stop == OnStop::Stop).await;
            }
            for id in ids {
                let _ = parts.ctx.registry.ask_awake(&id, Message::Hibernate).await;
            }
            if let Some(files) = parts.ctx.cluster.as_ref().and_then(|cluster| cluster.files()) {
                files.finish().await;
            }
            close_pool(parts).await;
            let _ = parts.ctx.store.flush_backend().await;
        })
    }

    /// Closes the store, after [`Engine::shutdown`] and when no answer is in progress. An error says what is lost.
    pub fn close_store(&self, closing: Closing) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let Ok(parts) = self.access.as_host() else { return Ok(()) };
            let (store, cluster) = (parts.ctx.store.clone(), parts.ctx.cluster.clone());
            let closing = tasks::blocking(move || {
                let leave = || cluster.iter().for_each(|cluster| cluster.close(closing));
                if closing == Closing::Stop {
                    leave();
                }
                if let Err(problem) = store.close() {
                    tracing::warn!(%problem, "the store was closed while something was wrong with it");
                }
                // Closing the store can take as long as a lease, so leases are renewed until then.
                if closing == Closing::Restart {
                    leave();
                }
                store.unwritten()
            });
            match closing.await {
                Ok(0) => Ok(()),
                Ok(lost) => Err(format!("the last {lost} records could not be written and are lost")),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// Ends every shell that is left, but no service. Ending waits for the kernel, so it has a thread of its own.
async fn close_pool(parts: &Parts) {
    let keep = parts.ctx.services.cage_names();
    let pool = Arc::clone(&parts.ctx.pool);
    let _ = tasks::blocking(move || pool.close(&keep)).await;
}
