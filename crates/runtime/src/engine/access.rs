//! Who uses an engine, and what they may access. What all handles share is private to this file, so that every
//! operation goes through one of the checks here.

use super::parts::Parts;
use crate::identities::{Scope, bound};
use crate::names::not_found;
use crate::ops::{OpError, QuotaMet};
use crate::past_sessions::{PastSession, ReadBack};
use shellkeep_session::{Author, QuotaName, SessionId, Source};
use shellkeep_store::DeletedSession;
use std::borrow::Cow;
use std::sync::Arc;

/// The rights of one caller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Access {
    parts: Arc<Parts>,
    scope: Arc<Scope>,
    /// The door it is used through, for the audit trail.
    door: &'static str,
}

/// A session that the caller may access.
pub(super) struct Permitted<'a> {
    /// The shared handles.
    pub(super) parts: &'a Arc<Parts>,
    /// The name by which it is stored.
    pub(super) id: Cow<'a, SessionId>,
}

impl Access {
    /// The host's rights.
    pub(super) fn of_host(parts: Arc<Parts>) -> Self {
        Self { parts, scope: Arc::new(Scope::Host), door: "daemon" }
    }

    /// The rights of another scope.
    pub(super) fn scoped(&self, scope: Arc<Scope>) -> Self {
        Self { parts: Arc::clone(&self.parts), scope, door: self.door }
    }

    /// The same rights, used through this door.
    pub(super) fn at_door(&self, door: &'static str) -> Self {
        Self { door, ..self.clone() }
    }

    /// Writes into the audit trail who does what.
    pub(super) fn audit(&self, operation: &'static str, object: &str) {
        self.parts.audit.note(self.door, &self.scope, operation, object);
    }

    /// Writes a rejected request to the audit trail. `who` is its caller, if it differs from this handle's.
    pub(super) fn audit_refusal(&self, who: Option<String>, request: &str, code: &str, reason: Option<&str>) {
        self.parts.audit.refusal(self.door, &self.scope, who, request, code, reason);
    }

    /// A session that its agent deleted, for the host.
    pub(super) fn deleted_session(&self, id: &SessionId) -> Option<DeletedSession> {
        self.as_reader().ok()?.recordings.deleted(id)
    }

    /// The caller's scope.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// How many sessions there may be before the caller can create another for its agent. The host has no limit.
    pub(super) fn most_sessions(&self) -> u64 {
        match &*self.scope {
            Scope::Agent { .. } => self.parts.ctx.quotas.get(QuotaName::SessionsPerAgent),
            _ => u64::MAX,
        }
    }

    /// Whether the caller may create another session.
    pub(super) async fn check_sessions(&self) -> Result<(), OpError> {
        let Scope::Agent { agent, .. } = &*self.scope else { return Ok(()) };
        let on_all_nodes = self.parts.ctx.used_by(agent).await;
        let used = on_all_nodes.map_or_else(|| self.parts.ctx.names.count_of(agent), |used| used.sessions);
        if used < self.most_sessions() { Ok(()) } else { Err(self.too_many_sessions(used)) }
    }

    /// The caller's agent has this many sessions and may not create another.
    pub(super) fn too_many_sessions(&self, used: u64) -> OpError {
        let (quota, limit) = (QuotaName::SessionsPerAgent, self.most_sessions());
        let agent = self.scope.agent().map(str::to_owned);
        OpError::QuotaExceeded(Box::new(QuotaMet { agent, ..QuotaMet::new(quota, limit, used) }))
    }

    /// The author of what is posted with these rights.
    pub(super) fn author(&self) -> Author {
        match &*self.scope {
            Scope::Console { token } => Author { source: Source::Host, by: Some(token.clone()) },
            scope => Author::caller(scope.token()),
        }
    }

    /// The one check before every operation on a session that the caller names. Another agent's session is treated as one that does not
    /// exist, from memory, so that neither the text nor the time of the answer differs.
    pub(super) fn over<'a>(&'a self, id: &'a SessionId) -> Result<Permitted<'a>, OpError> {
        match self.find(id) {
            Some(id) => Ok(Permitted { parts: &self.parts, id }),
            None => Err(not_found(id)),
        }
    }

    /// The same for a session by the name by which it is stored, as lists and records have it. The short names that an agent
    /// may use do not count: another agent's session may be stored under one of them.
    pub(super) fn over_stored<'a>(&'a self, id: &'a SessionId) -> Result<Permitted<'a>, OpError> {
        let is_permitted = match &*self.scope {
            Scope::Metrics { .. } => false,
            Scope::Agent { agent, .. } => self.parts.ctx.names.are_of(agent, [Some(id), None])[0],
            scope => scope.only_session().is_none_or(|own| own == id) && self.parts.ctx.names.contains(id),
        };
        if is_permitted { Ok(Permitted { parts: &self.parts, id: Cow::Borrowed(id) }) } else { Err(not_found(id)) }
    }

    /// [`Self::over`] for reading what is recorded, which the host may also do for a session that its agent deleted.
    pub(super) fn over_recorded<'a>(&'a self, id: &'a SessionId) -> Result<Permitted<'a>, OpError> {
        match self.deleted_session(id) {
            Some(_) => Ok(Permitted { parts: &self.parts, id: Cow::Borrowed(id) }),
            None => self.over(id),
        }
    }

    /// The check for reading a session that this node does not have. The database is asked in the same way whether or not
    /// another agent has such a session.
    pub(super) async fn over_past(&self, id: &SessionId) -> Result<(&Arc<Parts>, &ReadBack, PastSession), OpError> {
        let Some(back) = &self.parts.read_back else { return Err(not_found(id)) };
        let (ids, agent) = match &*self.scope {
            Scope::Host | Scope::Console { .. } | Scope::Auditor { .. } => (vec![id.clone()], None),
            Scope::Agent { agent, .. } => {
                (std::iter::once(id.clone()).chain(bound(agent, id)).collect(), Some(agent.to_string()))
            }
            Scope::Session { .. } | Scope::Metrics { .. } => return Err(not_found(id)),
        };
        let asking = agent.clone();
        let found = back.ask(asking.as_deref(), move |past| past.find(&ids, agent.as_deref())).await?;
        found.map(|session| (&self.parts, back, session)).ok_or_else(|| not_found(id))
    }

    /// What only the host may do.
    pub(super) fn as_host(&self) -> Result<&Arc<Parts>, OpError> {
        match &*self.scope {
            Scope::Host | Scope::Console { .. } => Ok(&self.parts),
            Scope::Agent { .. } => {
                let detail = "permission denied: this needs the host token; ask the host";
                Err(OpError::NotAllowed { detail: detail.to_owned() })
            }
            Scope::Auditor { .. } | Scope::Metrics { .. } => {
                let detail = "permission denied: this token is read-only; use the host token, or ask the host";
                Err(OpError::NotAllowed { detail: detail.to_owned() })
            }
            Scope::Session { session_id } => Err(only_its_own(session_id)),
        }
    }

    /// What the host and auditors may see.
    pub(super) fn as_reader(&self) -> Result<&Arc<Parts>, OpError> {
        match &*self.scope {
            Scope::Auditor { .. } | Scope::Metrics { .. } => Ok(&self.parts),
            Scope::Host | Scope::Console { .. } | Scope::Agent { .. } | Scope::Session { .. } => self.as_host(),
        }
    }

    /// Operations that are not about one session. The caller checks the scope itself.
    pub(super) fn at_large(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// The name by which a session of the caller is stored. An agent may omit the prefix with its own name.
    fn find<'a>(&self, id: &'a SessionId) -> Option<Cow<'a, SessionId>> {
        if let Scope::Metrics { .. } = &*self.scope {
            return None;
        }
        let Scope::Agent { agent, .. } = &*self.scope else {
            let is_permitted = self.scope.only_session().is_none_or(|own| own == id);
            return (is_permitted && self.parts.ctx.names.contains(id)).then_some(Cow::Borrowed(id));
        };
        let bound = bound(agent, id);
        // Both are always looked up, so that the answer takes the same time whether or not another agent has one of
        // them.
        let [as_given, is_bound_own] = self.parts.ctx.names.are_of(agent, [Some(id), bound.as_ref()]);
        if as_given { Some(Cow::Borrowed(id)) } else { bound.filter(|_| is_bound_own).map(Cow::Owned) }
    }
}

/// A session's own process may not do this.
pub(super) fn only_its_own(session_id: &SessionId) -> OpError {
    OpError::NotAllowed {
        detail: format!(
            "this request comes from a process of session '{session_id}', which may use only that session and may not \
                delete it. For other sessions pass an agent's token (SHELLKEEP_TOKEN), or ask the host"
        ),
    }
}
