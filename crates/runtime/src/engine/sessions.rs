//! Sessions: looked at, put to sleep and restarted.

use super::access::Permitted;
use super::delete;
use super::handle::Engine;
use crate::actor::Message;
use crate::identities::Scope;
use crate::ops::*;
use crate::stored::asleep;
use shellkeep_session::{SessionId, ShellState};

impl Engine {
    pub fn get<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            if let Some(deleted) = self.access.deleted_session(id) {
                return Ok(delete::view(deleted));
            }
            let Permitted { parts, id } = self.access.over(id)?;
            match parts.ctx.registry.ask_awake(&id, Message::View).await {
                Some(view) => view,
                None => parts.stored.load(&id).await.map(|state| asleep(state, &parts.ctx.sandboxes)),
            }
        })
    }

    /// The state of its shell.
    pub fn state<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<ShellState, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            match parts.ctx.registry.ask_awake(&id, Message::State).await {
                Some(state) => state,
                None => parts.stored.load(&id).await.map(|state| parts.ctx.sandboxes.placed(&state).into_owned()),
            }
        })
    }

    /// Drops the shell and keeps the session. Waits for running commands.
    pub fn hibernate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            self.access.audit("hibernate", id.as_str());
            match parts.ctx.registry.ask_awake(&id, Message::Hibernate).await {
                Some(view) => view,
                None => parts.stored.load(&id).await.map(|state| asleep(state, &parts.ctx.sandboxes)),
            }
        })
    }

    /// Kills what runs and gives the session a clean shell with its initial state. For the host, and for an agent whose
    /// token allows it.
    pub fn restart<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            let Permitted { parts, id } = self.access.over(id)?;
            if let Scope::Agent { may_restart: false, .. } | Scope::Session { .. } = self.access.scope() {
                let detail = format!(
                    "session '{id}' was not restarted: this agent may not restart its shell, only the host may. The shell \
                 still works: reset what is in the way (cd, unset, trap), interrupt a run that hangs, or ask the host"
                );
                return Err(OpError::NotAllowed { detail });
            }
            self.access.audit("restart", id.as_str());
            parts.ctx.registry.ask(&id, Message::Restart).await
        })
    }
}
