//! Deletes sessions: by the host with their recording, by an agent without it. A deletion is noted first, so that the
//! next start completes it before the name can be used again.

use super::access::{Access, Permitted, only_its_own};
use super::handle::Engine;
use super::services::{stop_latecomers, stop_services_of};
use crate::actor::Message;
use crate::identities::Scope;
use crate::ops::{BoxFuture, OpError, SessionError, SessionView};
use crate::pending::Removal;
use crate::tasks;
use shellkeep_session::{ByteString, SessionId, SessionMeta};
use shellkeep_store::deleted::{self, DeletedSession};
use std::sync::Arc;

impl Engine {
    /// Deletes a session: its processes, its state, its files. When the host deletes it, the recording is deleted too.
    /// When an agent deletes it, it is gone for the agent, and the host keeps the recording. With the name of such a
    /// recording, the host deletes that.
    pub fn destroy<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            if let Some(deleted) = self.access.deleted_session(id) {
                return purge_deleted(&self.access, deleted).await;
            }
            let Permitted { parts, id } = self.access.over(id)?;
            if let Some(own) = self.access.scope().only_session() {
                return Err(only_its_own(own));
            }
            self.access.audit("destroy", id.as_str());
            let removal = match self.access.scope() {
                Scope::Agent { token, .. } if !parts.config.keep_deleted.is_zero() => {
                    Removal::Keep { by: token.clone() }
                }
                Scope::Auditor { .. } | Scope::Metrics { .. } => {
                    self.access.as_host()?;
                    Removal::Purge
                }
                Scope::Agent { .. } | Scope::Session { .. } | Scope::Host | Scope::Console { .. } => Removal::Purge,
            };
            if let Scope::Agent { agent, token, .. } = self.access.scope() {
                let kept = removal != Removal::Purge;
                tracing::info!(session = %id, agent, token, recording_kept = kept, "an agent deletes its session");
            }
            parts.agents.stop("the session was deleted", |other| *other == *id).await;
            stop_services_of(parts, &id).await;
            let asked = removal.clone();
            let destroyed =
                match parts.ctx.registry.ask(&id, |answer| Message::Destroy { removal: asked, answer }).await {
                    // A full disk must not prevent freeing space on it.
                    Err(
                        OpError::Session(SessionError::Damaged { .. })
                        | OpError::StoreUnavailable { .. }
                        | OpError::StoreFull { .. },
                    ) => {
                        let (parts, id) = (Arc::clone(parts), id.clone().into_owned());
                        // To its end, even if the caller goes away: half-way, nobody can use the name.
                        tasks::spawn(async move { parts.ctx.remover.destroy_unread(&id, removal).await }).await?
                    }
                    other => other,
                };
            if destroyed.is_ok() {
                stop_latecomers(parts, &id).await;
            }
            destroyed
        })
    }
}

async fn purge_deleted(access: &Access, session: DeletedSession) -> Result<(), OpError> {
    access.audit("purge", session.kept_as.as_str());
    let ctx = Arc::clone(&access.as_host()?.ctx);
    let purged = tasks::blocking(move || deleted::purge(ctx.data_dir.root(), &session.kept_as));
    purged
        .await?
        .map_err(|error| OpError::StoreUnavailable { reason: format!("the recording was not deleted: {error}") })
}

/// A deleted session as callers see it.
pub(super) fn view(deleted: DeletedSession) -> SessionView {
    SessionView {
        meta: SessionMeta {
            agent: deleted.agent.clone(),
            created_at: deleted.created_at,
            ..SessionMeta::of_name(deleted.kept_as.clone())
        },
        last_active_at: deleted.deleted_at,
        cwd: ByteString::default(),
        live: false,
        shell_pid: None,
        generation: 0,
        seq: deleted.seq,
        deleted: Some(deleted),
        hold: None,
        sandbox: None,
    }
}
