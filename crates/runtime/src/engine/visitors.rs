//! Who connects to the Unix socket. Its file mode keeps other users out, but the processes of sessions run as the same
//! user as the daemon: such a process is not the host, and gets the rights of its session's agent, or only of its
//! session.

use super::handle::Engine;
use super::identities::{Guest, IdentityOps};
use super::parts::Parts;
use crate::identities::{Revocation, Scope};
use crate::ops::{BoxFuture, OpError};
use shellkeep_process::{Belongs, Peer, is_short_of_descriptors};
use shellkeep_session::SessionId;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Who connected to the Unix socket. Determined once per connection; its rights are checked for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visitor {
    /// A process outside all sessions: the host's.
    Host,
    /// A process of a session.
    Session(FromSession),
    /// A process that may belong to a session, but it is unknown to which, with the reason.
    Unclear(String),
    /// Unknown: the daemon had no descriptor left.
    Unasked,
}

/// The session that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSession {
    pub session_id: SessionId,
    agent: Option<Arc<str>>,
    /// The token that created it.
    by: Option<String>,
}

impl IdentityOps<'_> {
    /// Who is at the other end of a connection.
    pub fn visitor<'a>(&'a self, socket: BorrowedFd<'a>) -> BoxFuture<'a, Visitor> {
        Box::pin(async move {
            let peer = match Peer::of(socket) {
                Ok(peer) => peer,
                Err(_) if is_short_of_descriptors() => return Visitor::Unasked,
                Err(error) => {
                    return Visitor::Unclear(format!("cannot inspect the process that connected: {error}"));
                }
            };
            let parts = self.access.at_large();
            match parts.factory.whose(&peer) {
                Belongs::Outside if parts.ctx.sandboxes.is_of_agent(peer.user()) => Visitor::Unclear(
                    "its user is one that agents have, but it descends from no live session".to_owned(),
                ),
                Belongs::Outside => Visitor::Host,
                // Asked while the peer still has its descriptor: what was missing is the second one.
                Belongs::Unclear(_) if is_short_of_descriptors() => Visitor::Unasked,
                Belongs::Unclear(reason) => Visitor::Unclear(reason.to_owned()),
                Belongs::To(owner) => of_session(self.access.at_large(), &owner).await,
            }
        })
    }

    /// If no descriptor is left for callers, the session that was idle longest drops its shell, which has some.
    pub fn make_room(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if is_short_of_descriptors() {
                self.access.at_large().ctx.shells.evict(None).await;
            }
        })
    }

    /// What a process of a session may do now. Its agent's rights, if the agent has a valid token. A session that was
    /// created with a token gives none when the agent has no token left: revoking them ends the agent's rights.
    pub fn as_session(&self, from: &FromSession) -> Result<Guest, OpError> {
        let identities = &self.access.at_large().identities;
        let by = from.by.as_deref();
        let bearer = from.agent.as_deref().and_then(|agent| identities.rights_of(agent, by));
        match bearer {
            Some(bearer) => {
                Ok(Guest { engine: Engine { access: self.access.scoped(bearer.scope) }, revocation: bearer.revocation })
            }
            None if by.is_some() => Err(OpError::NotAllowed {
                detail: format!(
                    "this request comes from a process of session '{}', whose agent no longer has a valid token",
                    from.session_id
                ),
            }),
            None => {
                let scope = Scope::Session { session_id: from.session_id.clone() };
                Ok(Guest {
                    engine: Engine { access: self.access.scoped(Arc::new(scope)) },
                    revocation: Revocation::never(),
                })
            }
        }
    }
}

async fn of_session(parts: &Parts, name: &str) -> Visitor {
    let gone = || Visitor::Unclear(format!("its session '{name}' is gone"));
    let Ok(session_id) = SessionId::parse(name) else { return gone() };
    match parts.ctx.registry.snapshot(&session_id).await {
        Ok(state) => {
            let agent = state.meta.agent.as_deref().map(Arc::from);
            Visitor::Session(FromSession { session_id, agent, by: state.meta.by })
        }
        Err(_) => gone(),
    }
}
