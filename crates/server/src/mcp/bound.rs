//! MCP sessions over HTTP, their owners, and the sessions of those that name none.

use crate::sync::lock;
use shellkeep_runtime::{Engine, Lent, OpError, Scope, Share};
use shellkeep_session::SessionId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The MCP sessions of a daemon, and their owners.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<HashMap<String, Weak<Bound>>>>);

/// An MCP session's owner and its share of the limit. Lives as long as the session.
pub struct Bound {
    by: Scope,
    /// Its own session, which requests mean that name none: the one that the first request named, or one for the client. Known
    /// once it has an id.
    own: OnceLock<SessionId>,
    _share: Share,
}

impl Bound {
    /// For the caller that creates the session.
    pub fn new(engine: &Engine) -> Result<Arc<Self>, OpError> {
        let share = engine.lend(Lent::McpClients, 1)?;
        Ok(Arc::new(Self { by: engine.scope().clone(), own: OnceLock::new(), _share: share }))
    }
}

impl Sessions {
    /// Whether the caller owns this session.
    pub fn is_of(&self, id: &str, engine: &Engine) -> bool {
        let bound = lock(&self.0);
        let made_by = bound.get(id).and_then(Weak::upgrade);
        made_by.is_some_and(|made_by| made_by.by == *engine.scope())
    }

    /// The session that requests of an MCP session mean that name none.
    pub fn own(&self, id: &str) -> Option<SessionId> {
        lock(&self.0).get(id).and_then(Weak::upgrade)?.own.get().cloned()
    }

    /// Remembers the owner of a session, and its own session.
    pub fn bind(&self, id: &str, to: &Arc<Bound>, own: Option<SessionId>) {
        if let Some(own) = own {
            // It is bound once.
            let _ = to.own.set(own);
        }
        let mut bound = lock(&self.0);
        // Ended ones are dropped when they may be as many as the live ones.
        if bound.len() == bound.capacity() {
            bound.retain(|_, made_by| made_by.strong_count() > 0);
        }
        bound.insert(id.to_owned(), Arc::downgrade(to));
    }
}
