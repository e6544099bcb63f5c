//! Operations on identities: the host creates and revokes tokens. The token file is synced to disk, which must not block a
//! task.

use super::access::Access;
use super::first_token;
use super::handle::Engine;
use super::parts::Parts;
use crate::cluster::Cluster;
use crate::identities::{Revocation, Scope};
use crate::ops::{BoxFuture, ConsoleRight, IssuedToken, NewToken, OpError, TokenView};
use crate::tasks;
use std::sync::{Arc, Weak};

/// An agent that has shown its token.
pub struct Guest {
    /// The engine with the agent's rights.
    pub engine: Engine,
    /// Ends with the token.
    pub revocation: Revocation,
}

/// Identities: tokens of agents, and processes of sessions.
pub struct IdentityOps<'a> {
    pub(super) access: &'a Access,
}

impl Engine {
    /// Operations about who may come in.
    pub fn identities(&self) -> IdentityOps<'_> {
        IdentityOps { access: &self.access }
    }
}

impl IdentityOps<'_> {
    /// The owner of this secret, if it is a valid token.
    pub fn authenticate(&self, secret: &[u8]) -> Option<Guest> {
        let bearer = self.access.at_large().identities.authenticate(secret)?;
        Some(Guest { engine: Engine { access: self.access.scoped(bearer.scope) }, revocation: bearer.revocation })
    }

    /// A caller whom another node of the cluster has authenticated. That node ends the request with the token.
    pub fn on_behalf(&self, scope: Scope) -> Guest {
        let access = self.access.scoped(Arc::new(scope));
        Guest { engine: Engine { access }, revocation: Revocation::never() }
    }

    /// Creates a token. Host only. Where agents have users of their own, nothing of an agent may run when it gets its first.
    pub fn create_token(&self, request: NewToken) -> BoxFuture<'_, Result<IssuedToken, OpError>> {
        Box::pin(async move {
            let parts = Arc::clone(self.access.as_host()?);
            let expected = first_token::prepare(&parts, &request).await?;
            let issuing = move || {
                let _until_then = expected;
                parts.identities.issue(request)
            };
            let issued = tasks::blocking(issuing).await??;
            let IssuedToken { token, .. } = &issued;
            let whose = token.bearer.describe();
            tracing::info!(token = token.id, whose, "a token was created");
            self.access.audit("create_token", &format!("{} of {whose}", token.id));
            share(self.access.at_large(), &token.id).await;
            Ok(issued)
        })
    }

    /// A code with which a browser gets a token of the console, once and within a minute. Host only.
    pub fn console_code(&self, right: ConsoleRight) -> Result<String, OpError> {
        let code = self.access.as_host()?.identities.console_code(right)?;
        self.access.audit("create_console_code", if right == ConsoleRight::Act { "act" } else { "watch" });
        Ok(code)
    }

    /// The token for a code; `None` if the code is unknown, used or too old. For everybody who has one.
    pub fn console_login<'a>(&'a self, code: &'a str) -> BoxFuture<'a, Result<Option<IssuedToken>, OpError>> {
        Box::pin(async move {
            let (parts, code) = (Arc::clone(self.access.at_large()), code.to_owned());
            let issued = tasks::blocking(move || parts.identities.console_login(&code)).await??;
            if let Some(IssuedToken { token, .. }) = &issued {
                tracing::info!(token = token.id, "the console was opened");
                self.access.audit("create_token", &format!("{} of {}", token.id, token.bearer.describe()));
            }
            Ok(issued)
        })
    }

    /// Revokes the caller's own token, if it is one of the console.
    pub fn console_logout(&self) -> BoxFuture<'_, Result<(), OpError>> {
        Box::pin(async move {
            let parts = Arc::clone(self.access.at_large());
            let token = self.access.scope().token().unwrap_or_default().to_owned();
            let id = token.clone();
            if !tasks::blocking(move || parts.identities.console_logout(&id)).await?? {
                let detail = "this token is not one of the console; the host revokes it".to_owned();
                return Err(OpError::NotAllowed { detail });
            }
            self.access.audit("revoke_token", &token);
            Ok(())
        })
    }

    /// All tokens, including revoked ones. For the host and auditors.
    pub fn tokens(&self) -> BoxFuture<'_, Result<Vec<TokenView>, OpError>> {
        Box::pin(async move {
            let parts = Arc::clone(self.access.as_reader()?);
            Ok(tasks::blocking(move || parts.identities.list()).await?)
        })
    }

    /// Revokes a token: every request with it is rejected, and open ones are ended. What it started keeps
    /// running, except for agents, which would start more. Host only.
    pub fn revoke_token<'a>(&'a self, token_id: &'a str) -> BoxFuture<'a, Result<(), OpError>> {
        Box::pin(async move {
            let parts = Arc::clone(self.access.as_host()?);
            let id = token_id.to_owned();
            let revoked = Arc::clone(&parts);
            tasks::blocking(move || revoked.identities.revoke(&id)).await??;
            parts.agents.stop_by_token(token_id);
            tracing::info!(token = token_id, "a token was revoked");
            self.access.audit("revoke_token", token_id);
            share(&parts, token_id).await;
            Ok(())
        })
    }
}

/// Tells other nodes of a token that was created or revoked.
async fn share(parts: &Parts, token_id: &str) {
    if let (Some(cluster), Some(record)) = (&parts.ctx.cluster, parts.identities.kept_of(token_id)) {
        cluster.tokens().share(vec![record]).await;
    }
}

/// Follows the tokens of all nodes, as long as the engine lives.
pub(super) async fn follow_tokens(parts: Weak<Parts>, cluster: Arc<Cluster>) {
    let (mut changes, mut connections) = (cluster.tokens().changes(), cluster.members().alone().doubts());
    while changes.wait_for(Option::is_some).await.is_ok() {
        let all = cluster.tokens().all().await;
        let Some(parts) = parts.upgrade() else { return };
        let kept = Arc::clone(&parts);
        let adopting = tasks::blocking(move || kept.identities.adopt(all));
        let Ok(revoked) = adopting.await.map_err(OpError::from) else { return };
        revoked.iter().for_each(|token| parts.agents.stop_by_token(token));
        // What was created or revoked here while the shared store was unreachable, or lost there.
        cluster.tokens().share(parts.identities.kept()).await;
        drop(parts);
        let changed = tokio::select! {
            changed = changes.changed() => changed,
            connected = connections.changed() => connected,
        };
        if changed.is_err() {
            return;
        }
    }
}
