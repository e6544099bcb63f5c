//! MCP sessions over HTTP, and who made each.

use shellkeep_runtime::{Engine, Lent, OpError, Scope, Share};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The MCP sessions of a door, and whose they are.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<HashMap<String, Weak<Bound>>>>);

/// An MCP session's place, and who made it. It lives as long as the session.
pub struct Bound {
    by: Scope,
    _share: Share,
}

impl Bound {
    /// For the caller that makes the session.
    pub fn new(engine: &Engine) -> Result<Arc<Self>, OpError> {
        let share = engine.lend(Lent::McpClients, 1)?;
        Ok(Arc::new(Self { by: engine.scope().clone(), _share: share }))
    }
}

impl Sessions {
    /// Whether the caller made this session.
    pub fn is_of(&self, id: &str, engine: &Engine) -> bool {
        let bound = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made_by = bound.get(id).and_then(Weak::upgrade);
        made_by.is_some_and(|made_by| made_by.by == *engine.scope())
    }

    /// Remembers who made a session.
    pub fn bind(&self, id: &str, to: &Arc<Bound>) {
        let mut bound = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten when there might be as many of them as of the others.
        if bound.len() == bound.capacity() {
            bound.retain(|_, made_by| made_by.strong_count() > 0);
        }
        bound.insert(id.to_owned(), Arc::downgrade(to));
    }
}
