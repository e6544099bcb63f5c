//! Limited resources of the node: memory for bodies, streams, MCP clients, searches. Each is counted per agent, so that
//! one agent cannot use up what others need; the host has its own share that agents cannot use.

use crate::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is not counted of a body: nearly all bodies are shorter, and arrive together with their head.
pub const UNCOUNTED_BODY: usize = 64 << 10;

/// The limits of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For one agent.
    pub agent: u64,
    /// For all agents together.
    pub agents: u64,
    /// For the host, in addition to that of the agents.
    pub host: u64,
}

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lent {
    /// Bytes of request bodies: those that are being read, commands that wait, and input that was not read.
    BodyBytes,
    /// Streams of events, logs and runs.
    Followers,
    McpClients,
    /// Authenticated connections.
    Connections,
    /// Searches and other reading that keeps a processor busy: those that run and those that wait.
    Searches,
}

impl Lent {
    const ALL: [Self; 5] = [Self::BodyBytes, Self::Followers, Self::McpClients, Self::Connections, Self::Searches];

    /// How much there is of it.
    pub fn limits(self) -> Limits {
        match self {
            // They are counted while they are read, and what is kept of one while it waits for its command.
            // A run's body may have 64 MiB, so an agent may send one such and some smaller ones; all together are well
            // below the memory of a small node.
            Self::BodyBytes => Limits { agent: 96 << 20, agents: 288 << 20, host: 256 << 20 },
            // A stream costs a task and about 200 KiB while its client does not read. The host's are people with `top`
            // and programs without a token.
            Self::Followers => Limits { agent: 64, agents: 512, host: 256 },
            // Each costs a task and some 50 KiB. An agent needs one, and some for clients that forgot to close theirs.
            Self::McpClients => Limits { agent: 256, agents: 4096, host: 4096 },
            // Each costs a descriptor and some 10 KiB.
            Self::Connections => Limits { agent: 1024, agents: 6144, host: 6144 },
            // Few run at a time; those that wait cost their connection.
            Self::Searches => Limits { agent: 32, agents: 512, host: 128 },
        }
    }

    /// The error code.
    pub fn code(self) -> &'static str {
        match self {
            Self::BodyBytes => "too_much_in_flight",
            Self::Followers => "too_many_followers",
            Self::McpClients => "too_many_clients",
            Self::Connections => "too_many_connections",
            Self::Searches => "too_many_searches",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::BodyBytes => "bytes of request bodies",
            Self::Followers => "streams",
            Self::McpClients => "MCP clients",
            Self::Connections => "connections",
            Self::Searches => "searches",
        }
    }

    /// What to do when it is used up.
    pub fn advice(self) -> &'static str {
        match self {
            Self::BodyBytes => "send large bodies one after the other, or put the data into a file",
            Self::Followers => "close one that is not read, or read pages instead",
            Self::McpClients => "close one that is not used",
            Self::Connections => "close some, or send several requests over one",
            Self::Searches => "wait for some to finish",
        }
    }
}

/// A limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Which resource.
    pub what: Lent,
    /// How much there is.
    pub limit: u64,
    /// Whether it is the limit of all callers together; otherwise the caller's own.
    pub by_all: bool,
}

/// All limited resources.
#[derive(Debug)]
pub struct Shares {
    books: [Arc<Book>; Lent::ALL.len()],
}

#[derive(Debug)]
struct Book {
    what: Lent,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    agents: u64,
    by: HashMap<Option<Arc<str>>, u64>,
}

/// A share of a resource; released when dropped.
#[derive(Debug)]
pub struct Share {
    book: Arc<Book>,
    agent: Option<Arc<str>>,
    amount: u64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { books: Lent::ALL.map(|what| Arc::new(Book { what, used: Mutex::default() })) }
    }
}

impl Shares {
    /// Takes a share for an agent, or for the host.
    pub fn take(&self, what: Lent, agent: Option<&str>, amount: u64) -> Result<Share, Full> {
        let book = Arc::clone(&self.books[what as usize]);
        let mut share = Share { book, agent: agent.map(Arc::from), amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes a share for what is kept of a body; none if it is small.
    pub fn take_body(&self, agent: Option<&str>, bytes: usize) -> Result<Option<Share>, Full> {
        (bytes > UNCOUNTED_BODY).then(|| self.take(Lent::BodyBytes, agent, bytes as u64)).transpose()
    }
}

impl Share {
    /// Takes more of the same.
    pub fn grow(&mut self, amount: u64) -> Result<(), Full> {
        let limits = self.book.what.limits();
        let mut used = self.book.used();
        let own = used.by.get(&self.agent).copied().unwrap_or_default().saturating_add(amount);
        let all = used.agents.saturating_add(amount);
        let full = |limit, by_all| Err(Full { what: self.book.what, limit, by_all });
        match &self.agent {
            None if own > limits.host => return full(limits.host, false),
            None => {}
            Some(_) if own > limits.agent => return full(limits.agent, false),
            Some(_) if all > limits.agents => return full(limits.agents, true),
            Some(_) => used.agents = all,
        }
        used.by.insert(self.agent.clone(), own);
        self.amount += amount;
        Ok(())
    }
}

impl Book {
    fn used(&self) -> MutexGuard<'_, Used> {
        lock(&self.used)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.book.used();
        if self.agent.is_some() {
            used.agents = used.agents.saturating_sub(self.amount);
        }
        if let Some(own) = used.by.get_mut(&self.agent) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                used.by.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_leaves_the_rest_to_others() {
        let shares = Shares::default();
        let limits = Lent::Followers.limits();
        let take = |agent| shares.take(Lent::Followers, agent, 1);
        let mut held: Vec<Share> = (0..limits.agent).map(|_| take(Some("a")).unwrap()).collect();
        let refused = take(Some("a")).unwrap_err();
        assert_eq!((refused.limit, refused.by_all), (limits.agent, false));
        assert!(take(Some("b")).is_ok() && take(None).is_ok());
        assert!(shares.take(Lent::McpClients, Some("a"), 1).is_ok());
        held.pop();
        assert!(take(Some("a")).is_ok());
    }

    #[test]
    fn all_agents_together_leave_the_hosts_part() {
        let shares = Shares::default();
        let limits = Lent::Followers.limits();
        let agents = limits.agents / limits.agent;
        let take = |agent: &str| shares.take(Lent::Followers, Some(agent), limits.agent);
        let held: Vec<Share> = (0..agents).map(|number| take(&number.to_string()).unwrap()).collect();
        assert!(take("late").unwrap_err().by_all);
        assert!(shares.take(Lent::Followers, None, limits.host).is_ok());
        drop(held);
        assert!(take("late").is_ok());
        assert!(shares.books.iter().all(|book| book.used().by.is_empty() && book.used().agents == 0));
    }
}
