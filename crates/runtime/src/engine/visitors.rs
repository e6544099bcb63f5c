//! Who connects to the Unix socket. Its file mode keeps other users out, but the processes of sessions run as the same
//! user as the daemon: such a process is not the host, and gets the rights of its session's agent, or of its session.

use super::handle::Engine;
use super::identities::{Guest, IdentityOps};
use super::inner::Inner;
use crate::identities::{Revocation, Scope};
use crate::ops::{BoxFuture, OpError};
use shellkeep_process::{Belongs, Peer};
use shellkeep_session::SessionId;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Who connected to the Unix socket. Found out once for a connection; what it may do is asked for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visitor {
    /// A process outside all sessions: the host's.
    Host,
    /// A process of a session.
    Session(FromSession),
    /// A process that may be of a session, though it cannot be told of which, for this reason.
    Unclear(String),
    /// Nobody could be asked about it: the daemon had no descriptor left.
    Unasked,
}

/// The session that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSession {
    /// Its name.
    pub session_id: SessionId,
    agent: Option<Arc<str>>,
    /// The token that made it.
    by: Option<String>,
}

impl IdentityOps<'_> {
    /// Who is at the other end of a connection.
    pub fn visitor<'a>(&'a self, socket: BorrowedFd<'a>) -> BoxFuture<'a, Visitor> {
        Box::pin(async move {
            let peer = match Peer::of(socket) {
                Ok(peer) => peer,
                Err(error) => {
                    return Visitor::Unclear(format!("the process that connected cannot be asked about: {error}"));
                }
            };
            match self.access.at_large().factory.whose(&peer) {
                Belongs::Outside => Visitor::Host,
                Belongs::Unclear(reason) => Visitor::Unclear(reason.to_owned()),
                Belongs::To(owner) => of_session(self.access.at_large(), &owner).await,
            }
        })
    }

    /// What a process of a session may do now. Its agent's rights, if the agent has a token in force. A session that was
    /// made with a token gives none when the agent has none left: to revoke them is to end the agent's rights.
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
                    "this request comes from a process of session '{}', whose agent has no token in force any more",
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

async fn of_session(inner: &Inner, name: &str) -> Visitor {
    let gone = || Visitor::Unclear(format!("its session '{name}' is gone"));
    let Ok(session_id) = SessionId::parse(name) else { return gone() };
    match inner.ctx.registry.snapshot(&session_id).await {
        Ok(state) => {
            let agent = state.meta.agent.as_deref().map(Arc::from);
            Visitor::Session(FromSession { session_id, agent, by: state.meta.by })
        }
        Err(_) => gone(),
    }
}
