//! Removing sessions: by the host for good, by an agent so that its trail stays. What is begun is written down first, so
//! that the next start finishes it before anybody can use the name again.

use super::{Engine, Inner, lock};
use crate::deleted::{self, DeletedSession};
use crate::engine::scope::{Permitted, only_its_own};
use crate::identities::Scope;
use crate::ops::{OpError, SessionView};
use crate::owner::Message;
use crate::pending::{Deletion, Pending};
use shellkeep_session::{ByteString, Record, SessionId, SessionMeta, Timestamp};
use shellkeep_store::AppendError;

/// What becomes of a session's trail when the session is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is kept.
    Purge,
    /// The recording is kept until the host's retention ends.
    Keep {
        /// The id of the agent's token that asks.
        by: String,
    },
}

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
        inner.stop_agents("the session was removed", |other| *other == *id).await;
        inner.stop_services_of(&id).await;
        let asked = removal.clone();
        let destroyed = match inner.ask(&id, |answer| Message::Destroy { removal: asked, answer }).await {
            // A full disk is no reason to keep what could make room on it.
            Err(OpError::Damaged { .. } | OpError::StoreUnavailable { .. }) => inner.destroy_unread(&id, removal).await,
            other => other,
        };
        if destroyed.is_ok() {
            inner.stop_latecomers(&id).await;
        }
        destroyed
    }

    /// Sessions that agents removed and whose recordings are kept, by name. The host's right.
    pub fn deleted(&self) -> Result<Vec<SessionView>, OpError> {
        let inner = self.as_host()?;
        Ok(deleted::list(&inner.config.data_dir).into_iter().map(view).collect())
    }

    /// A removed session, for the host.
    pub(super) fn deleted_session(&self, id: &SessionId) -> Option<DeletedSession> {
        self.as_host().ok()?.deleted_session(id)
    }

    fn purge_deleted(&self, session: &DeletedSession) -> Result<(), OpError> {
        self.audit("purge", session.kept_as.as_str());
        let purged = deleted::purge(&self.as_host()?.config.data_dir, &session.kept_as);
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

impl Inner {
    /// A removed session by the name under which it is kept. A session that is there comes first.
    pub(super) fn deleted_session(&self, id: &SessionId) -> Option<DeletedSession> {
        if !deleted::is_name(id) || lock(&self.known).contains_key(id) {
            return None;
        }
        deleted::find(&self.config.data_dir, id)
    }

    /// Writes down that a session is being removed. Without that a crash would leave its files to the next of its name.
    pub(crate) fn begin_deletion(&self, deletion: &Deletion) -> Option<Pending> {
        let noted = Pending::deletion(&self.config.data_dir, deletion, self.store.survives_power());
        noted.inspect_err(|error| tracing::warn!(session = %deletion.id, %error, "a removal could not be noted")).ok()
    }

    /// Removes a session's name and files, after its end is recorded.
    pub(crate) async fn finish_deletion(&self, deletion: Deletion, pending: Option<Pending>) {
        let id = deletion.id.clone();
        // What ran in the background was killed; nobody is left to say so.
        self.runs().retain(|(session, _), cell| *session != id || !cell.is_detached());
        self.disk.forget(&self.config.data_dir, &id);
        self.thin_book.forget(&id);
        self.forget_secrets(&id);
        if deletion.kept.is_some() {
            // Until then lines may be written for which outputs are looked at.
            let _ = self.store.flush_about(&id).await;
        }
        let (data_dir, workspaces) = (self.config.data_dir.clone(), self.workspaces.clone());
        let checkpoints = self.checkpoints.home(&id);
        let removal = tokio::task::spawn_blocking(move || deletion.remove_files(&data_dir, &workspaces, &checkpoints));
        let _ = removal.await;
        if let Some(pending) = pending {
            pending.done();
        }
        // The last thing: a new session of this name must not find anything of the old one.
        lock(&self.known).remove(&id);
    }

    /// A session that cannot be read can still be ended.
    pub(super) async fn destroy_unread(&self, id: &SessionId, removal: Removal) -> Result<(), OpError> {
        let agent = lock(&self.known).get(id).cloned().flatten();
        let meta = SessionMeta {
            session_id: id.clone(),
            agent: agent.as_deref().map(str::to_owned),
            agent_config: serde_json::Value::Null,
            created_at: Timestamp::UNIX_EPOCH,
            workspace: self.workspaces.of(id),
            by: None,
            forked_from: None,
        };
        // A number beyond all others: which one was the last is not known.
        let deletion = Deletion::new(&meta, u64::MAX, removal);
        let pending = self.begin_deletion(&deletion);
        let record = Record { session_id: id.clone(), seq: u64::MAX, at: Timestamp::now(), event: deletion.event() };
        match self.store.append(&record) {
            // Kept in memory until the disk takes it; removing the files may be what it needs.
            Ok(()) | Err(AppendError::Retrying { .. }) => {}
            Err(error) => {
                if let Some(pending) = pending {
                    pending.done();
                }
                return Err(OpError::StoreUnavailable { reason: error.to_string() });
            }
        }
        self.finish_deletion(deletion, pending).await;
        Ok(())
    }

    /// Removes the recordings of removed sessions that were kept for as long as the host wants them.
    pub(crate) fn purge_expired(&self) {
        let (data_dir, now) = (&self.config.data_dir, self.config.senses.now());
        for session in deleted::list(data_dir) {
            let age = std::time::Duration::try_from(now.duration_since(session.deleted_at)).unwrap_or_default();
            if age < self.config.keep_deleted {
                continue;
            }
            match deleted::purge(data_dir, &session.kept_as) {
                Ok(()) => tracing::info!(recording = %session.kept_as, "a removed session's recording has expired"),
                Err(error) => tracing::warn!(recording = %session.kept_as, %error, "could not be removed"),
            }
        }
    }
}
