//! The agents that have a token or had one. Somebody outside holds it, so their sessions are confined even if the host's
//! are not.

use crate::sync::{read, write};
use shellkeep_store::{TokenBearer, TokenRecord};
use std::collections::HashSet;
use std::sync::RwLock;

/// Names of agents. None is removed: a revoked token must not make a sandbox looser.
#[derive(Debug, Default)]
pub(crate) struct TokenHolders {
    agents: RwLock<HashSet<String>>,
}

impl TokenHolders {
    /// Those of these tokens, revoked ones included.
    pub(crate) fn of<'a>(tokens: impl Iterator<Item = &'a TokenRecord>) -> Self {
        let holders = Self::default();
        for token in tokens {
            holders.add(token);
        }
        holders
    }

    /// Adds the agent of a token, if it is one of an agent. Returns whether it was not known before.
    pub(crate) fn add(&self, token: &TokenRecord) -> bool {
        match &token.bearer {
            TokenBearer::Agent { agent, .. } => write(&self.agents).insert(agent.clone()),
            TokenBearer::Reader { .. } | TokenBearer::Console { .. } => false,
        }
    }

    /// Whether this agent has or had a token.
    pub(crate) fn contains(&self, agent: &str) -> bool {
        read(&self.agents).contains(agent)
    }
}
