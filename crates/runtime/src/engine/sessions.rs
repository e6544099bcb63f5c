//! Sessions: looked at, listed, put to sleep and restarted.

use super::access::Permitted;
use super::delete;
use super::handle::Engine;
use crate::actor::Message;
use crate::identities::Scope;
use crate::ops::*;
use crate::stored::asleep;
use shellkeep_session::{SessionId, ShellState};
use shellkeep_store::ReadError;
use std::sync::atomic::Ordering;

/// Most sessions on one page.
pub const MAX_PAGE: usize = 1000;

impl Engine {
    pub fn get<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            if let Some(deleted) = self.access.deleted_session(id) {
                return Ok(delete::view(deleted));
            }
            let Permitted { inner, id } = self.access.over(id)?;
            match inner.ctx.registry.ask_awake(&id, Message::View).await {
                Some(view) => view,
                None => inner.stored.load(&id).await.map(asleep),
            }
        })
    }

    /// Sessions by name, a page at a time. An agent sees its own.
    pub fn list<'a>(
        &'a self,
        agent: Option<&'a str>,
        after: Option<&'a SessionId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<SessionPage, OpError>> {
        Box::pin(async move {
            let limit = limit.clamp(1, MAX_PAGE);
            if let Some(own) = self.access.scope().only_session() {
                let is_past = after.is_some_and(|after| after >= own) || agent.is_some();
                let sessions = if is_past { Vec::new() } else { vec![self.get(own).await?] };
                return Ok(SessionPage { sessions, next: None });
            }
            let inner = self.access.at_large();
            let agent = match (self.access.scope().agent(), agent) {
                (Some(own), Some(asked)) if own != asked => {
                    return Ok(SessionPage { sessions: Vec::new(), next: None });
                }
                (own, asked) => own.or(asked),
            };
            let unavailable = |error: ReadError| OpError::StoreUnavailable { reason: error.to_string() };
            let mut found = match agent {
                Some(agent) => inner.ctx.store.list_of(agent, inner.ctx.names.of_agent(agent), after, limit + 1).await,
                None => inner.ctx.store.list(None, after, limit + 1).await,
            }
            .map_err(unavailable)?;
            let has_more = found.len() > limit;
            found.truncate(limit);
            let next = if has_more { found.last().map(|last| last.meta.session_id.clone()) } else { None };
            // A session that was just deleted may still be in the store briefly.
            if agent.is_some() {
                found.retain(|summary| inner.ctx.names.contains(&summary.meta.session_id));
            }
            let view = |summary: shellkeep_store::SessionSummary| {
                let slot = inner.ctx.registry.slot(&summary.meta.session_id);
                let shell_pid = slot.map(|slot| slot.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0);
                SessionView {
                    meta: summary.meta,
                    last_active_at: summary.last_active_at,
                    cwd: summary.cwd,
                    live: shell_pid.is_some(),
                    shell_pid,
                    generation: summary.generation,
                    seq: summary.seq,
                    deleted: None,
                    hold: None,
                }
            };
            Ok(SessionPage { sessions: found.into_iter().map(view).collect(), next })
        })
    }

    /// The state of its shell.
    pub fn state<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<ShellState, OpError>> {
        Box::pin(async move {
            let Permitted { inner, id } = self.access.over(id)?;
            match inner.ctx.registry.ask_awake(&id, Message::State).await {
                Some(state) => state,
                None => inner.stored.load(&id).await.map(|state| inner.ctx.sandboxes.placed(&state).into_owned()),
            }
        })
    }

    /// Drops the shell and keeps the session. Waits for running commands.
    pub fn hibernate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            let Permitted { inner, id } = self.access.over(id)?;
            self.access.audit("hibernate", id.as_str());
            match inner.ctx.registry.ask_awake(&id, Message::Hibernate).await {
                Some(view) => view,
                None => inner.stored.load(&id).await.map(asleep),
            }
        })
    }

    /// Kills what runs and gives the session a clean shell with its initial state. For the host, and for an agent whose
    /// token allows it.
    pub fn restart<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionView, OpError>> {
        Box::pin(async move {
            let Permitted { inner, id } = self.access.over(id)?;
            if let Scope::Agent { may_restart: false, .. } | Scope::Session { .. } = self.access.scope() {
                let detail = format!(
                    "session '{id}' was not restarted: this agent may not restart its shell, only the host may. The shell \
                 still works: reset what is in the way (cd, unset, trap), interrupt a run that hangs, or ask the host"
                );
                return Err(OpError::NotAllowed { detail });
            }
            self.access.audit("restart", id.as_str());
            inner.ctx.registry.ask(&id, Message::Restart).await
        })
    }
}
