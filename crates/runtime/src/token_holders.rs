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
    pub(crate) fn of(tokens: &[TokenRecord]) -> Self {
        let holders = Self::default();
        tokens.iter().for_each(|token| holders.add(token));
        holders
    }

    /// Adds the agent of a token, if it is one of an agent.
    pub(crate) fn add(&self, token: &TokenRecord) {
        if let TokenBearer::Agent { agent, .. } = &token.bearer {
            write(&self.agents).insert(agent.clone());
        }
    }

    /// Whether this agent has or had a token.
    pub(crate) fn contains(&self, agent: &str) -> bool {
        read(&self.agents).contains(agent)
    }
}
