//! How a session is confined: looked at, and tightened.

use super::access::{Access, Permitted};
use super::handle::Engine;
use crate::actor::{FilesTask, Message};
use crate::ops::{BoxFuture, OpError, SandboxView, SessionError};
use shellkeep_session::{Sandbox, SessionId};

/// Operations on sandboxes.
pub struct SandboxOps<'a> {
    access: &'a Access,
}

impl<'a> SandboxOps<'a> {
    /// Those of an engine.
    pub fn of(engine: &'a Engine) -> Self {
        Self { access: &engine.access }
    }
}

impl SandboxOps<'_> {
    /// How a session is confined.
    pub fn get<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SandboxView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            let state = match parts.ctx.registry.ask_awake(&id, Message::Snapshot).await {
                Some(state) => *state?,
                None => parts.stored.load(&id).await?,
            };
            Ok(parts.ctx.sandboxes.view(&state))
        })
    }

    /// Confines a session more tightly, which anyone may who may use it. Its shell is dropped first; waits for running commands.
    pub fn tighten<'a>(&'a self, id: &'a SessionId, sandbox: Sandbox) -> BoxFuture<'a, Result<SandboxView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            parts.ctx.lifetime.check_accepting()?;
            self.access.audit("tighten", id.as_str());
            if parts.agents.place(&id).work().is_some() {
                return Err(SessionError::SandboxBusy { session_id: id.to_string() }.into());
            }
            let by = self.access.scope().token().map(str::to_owned);
            let tighten = |answer| Message::Files(Box::new(FilesTask::Tighten { sandbox, by, answer }));
            parts.ctx.registry.ask(&id, tighten).await
        })
    }
}
