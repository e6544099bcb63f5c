//! Removing sessions: by the host for good, by an agent so that its trail stays. What is begun is written down first, so
//! that the next start finishes it before anybody can use the name again.

use super::Engine;
use super::scope::{Permitted, only_its_own};
use super::services::{stop_latecomers, stop_services_of};
use crate::deleted::{self, DeletedSession};
use crate::identities::Scope;
use crate::ops::{OpError, SessionView};
use crate::owner::Message;
use crate::pending::Removal;
use shellkeep_session::{ByteString, SessionId, SessionMeta};

impl Engine {
    /// Ends a session: its processes, its state, its files. The host's word is for good. What an agent removes is gone for
    /// the agent; the recording stays with the host. With the name of such a recording the host removes that.
    pub async fn destroy(&self, id: &SessionId) -> Result<(), OpError> {
        if let Some(deleted) = self.deleted_session(id) {
            return self.purge_deleted(&deleted);
        }
        let Permitted { inner, id } = self.over(id)?;
        if let Some(own) = self.scope().only_session() {
            return Err(only_its_own(own));
        }
        self.audit("destroy", id.as_str());
        let removal = match self.scope() {
            Scope::Agent { token, .. } if !inner.config.keep_deleted.is_zero() => Removal::Keep { by: token.clone() },
            Scope::Agent { .. } | Scope::Session { .. } | Scope::Host => Removal::Purge,
        };
        if let Scope::Agent { agent, token, .. } = self.scope() {
            let kept = removal != Removal::Purge;
            tracing::info!(session = %id, agent, token, recording_kept = kept, "an agent removes its session");
        }
        inner.agents.stop("the session was removed", |other| *other == *id).await;
        stop_services_of(inner, &id).await;
        let asked = removal.clone();
        let destroyed = match inner.ctx.registry.ask(&id, |answer| Message::Destroy { removal: asked, answer }).await {
            // A full disk is no reason to keep what could make room on it.
            Err(OpError::Damaged { .. } | OpError::StoreUnavailable { .. }) => {
                inner.ctx.remover.destroy_unread(&id, removal).await
            }
            other => other,
        };
        if destroyed.is_ok() {
            stop_latecomers(inner, &id).await;
        }
        destroyed
    }

    /// Sessions that agents removed and whose recordings are kept, by name. The host's right.
    pub fn deleted(&self) -> Result<Vec<SessionView>, OpError> {
        let inner = self.as_host()?;
        Ok(deleted::list(inner.ctx.data_dir.root()).into_iter().map(view).collect())
    }

    /// A removed session, for the host.
    pub(super) fn deleted_session(&self, id: &SessionId) -> Option<DeletedSession> {
        self.as_host().ok()?.recordings.deleted(id)
    }

    fn purge_deleted(&self, session: &DeletedSession) -> Result<(), OpError> {
        self.audit("purge", session.kept_as.as_str());
        let purged = deleted::purge(self.as_host()?.ctx.data_dir.root(), &session.kept_as);
        purged.map_err(|error| OpError::StoreUnavailable { reason: format!("the recording was not removed: {error}") })
    }
}

/// A removed session as callers see it.
pub(super) fn view(deleted: DeletedSession) -> SessionView {
    SessionView {
        meta: SessionMeta {
            session_id: deleted.kept_as.clone(),
            agent: deleted.agent.clone(),
            agent_config: serde_json::Value::Null,
            created_at: deleted.created_at,
            workspace: ByteString::default(),
            by: None,
            forked_from: None,
        },
        last_active_at: deleted.deleted_at,
        cwd: ByteString::default(),
        live: false,
        shell_pid: None,
        generation: 0,
        seq: deleted.seq,
        deleted: Some(deleted),
    }
}
