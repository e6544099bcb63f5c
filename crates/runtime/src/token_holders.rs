//! The agents that have a token or had one. Somebody outside holds it, so their sessions are confined even if the host's
//! are not.

use crate::sync::{read, write};
use shellkeep_store::{TokenBearer, TokenRecord};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

/// Names of agents. None is removed: a revoked token must not make a sandbox looser.
#[derive(Debug, Default)]
pub(crate) struct TokenHolders {
    agents: RwLock<HashSet<String>>,
    /// Those that are about to get their first token, and how many times.
    expected: RwLock<HashMap<String, usize>>,
}

/// An agent that is about to get its first token. Until this is dropped, its sessions are confined as if it had one.
#[derive(Debug)]
pub(crate) struct Expected {
    holders: Arc<TokenHolders>,
    agent: String,
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut expected = write(&self.holders.expected);
        if let Some(count) = expected.get_mut(&self.agent) {
            *count -= 1;
            if *count == 0 {
                expected.remove(&self.agent);
            }
        }
    }
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

    /// Whether this agent has or had a token, or is about to get one.
    pub(crate) fn contains(&self, agent: &str) -> bool {
        read(&self.agents).contains(agent) || read(&self.expected).contains_key(agent)
    }

    /// An agent is about to get a token; `None` if it has or had one.
    pub(crate) fn expect(self: Arc<Self>, agent: &str) -> Option<Expected> {
        let is_first = !read(&self.agents).contains(agent);
        is_first.then(|| {
            *write(&self.expected).entry(agent.to_owned()).or_default() += 1;
            Expected { holders: self, agent: agent.to_owned() }
        })
    }
}
