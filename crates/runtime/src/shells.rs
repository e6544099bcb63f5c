//! Shells for sessions: from the pool, or taken from an idle session.

use crate::actor::Message;
use crate::ops::{OpError, QuotaMet, RunError};
use crate::pool::{Pool, PooledShell};
use crate::registry::Registry;
use shellkeep_session::{QuotaName, SessionId};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where sessions get their shells.
pub(crate) struct Shells {
    pool: Arc<Pool>,
    registry: Arc<Registry>,
}

impl Shells {
    /// Shells of `pool`; sessions in `registry` can be asked to drop theirs.
    pub(crate) fn new(pool: Arc<Pool>, registry: Arc<Registry>) -> Self {
        Self { pool, registry }
    }

    /// A shell for a session: a spare, a new one, or one in place of the session that was idle longest. `None` if every
    /// shell belongs to a busy session, or the machine lacks a resource.
    pub(crate) async fn take(&self, id: &SessionId, agent: Option<&str>) -> Result<Option<PooledShell>, OpError> {
        // A start that fails for one agent's limit must not look like a shortage, which delays the shells of all.
        if let Some(agent) = agent
            && let Some(used) = self.pool.full(agent)
        {
            return Err(self.agent_is_full(agent, used));
        }
        let mut is_second_try = false;
        loop {
            match self.pool.try_take(agent).await {
                Ok(Some(pooled)) => {
                    pooled.shell.assign(id.as_str());
                    return Ok(Some(pooled));
                }
                // Dropping an idle session's shell may free what is missing; one is enough to tell.
                Err(why) if why.is_shortage => {
                    if std::mem::replace(&mut is_second_try, true) {
                        return Ok(None);
                    }
                }
                Err(why) => return Err(OpError::Run(RunError::ShellUnavailable { reason: why.reason.to_string() })),
                Ok(None) => {}
            }
            if !self.evict(Some(id)).await {
                return Ok(None);
            }
        }
    }

    fn agent_is_full(&self, agent: &str, used: u64) -> OpError {
        let (quota, limit) = (QuotaName::ProcessesPerAgent, self.pool.processes_per_agent());
        OpError::QuotaExceeded(Box::new(QuotaMet {
            quota,
            limit,
            used,
            agent: Some(agent.to_owned()),
            services: Vec::new(),
            elsewhere: Vec::new(),
        }))
    }

    /// Makes a session drop its shell, the longest idle one first, but not `except`. Returns whether one did.
    pub(crate) async fn evict(&self, except: Option<&SessionId>) -> bool {
        for mailbox in self.registry.evictable(except) {
            let (answer, waiting) = oneshot::channel();
            let Some(mailbox) = mailbox.upgrade() else { continue };
            let sent = mailbox.send(Message::Evict(answer)).await;
            drop(mailbox);
            if sent.is_ok() && waiting.await.unwrap_or(false) {
                metrics::counter!("shellkeep_evictions_total").increment(1);
                return true;
            }
        }
        false
    }

    /// There are no pipes for a command. If that may pass, the command waits as if there were no shell.
    pub(crate) fn no_pipes<T>(&self, error: std::io::Error) -> Result<Option<T>, OpError> {
        let why = self.pool.failed(&shellkeep_process::StartError::System(error));
        if why.is_shortage {
            Ok(None)
        } else {
            Err(OpError::Run(RunError::ShellUnavailable { reason: why.reason.to_string() }))
        }
    }

    /// Why a command waits for a shell: none can be started, or every shell is busy.
    pub(crate) fn why_none(&self) -> OpError {
        if let Some(why) = self.pool.trouble() {
            return OpError::Run(RunError::ShellUnavailable { reason: why.reason.to_string() });
        }
        let limit = self.pool.limit() as u64;
        OpError::QuotaExceeded(Box::new(QuotaMet {
            quota: QuotaName::LiveShells,
            limit,
            used: limit,
            agent: None,
            services: Vec::new(),
            elsewhere: Vec::new(),
        }))
    }
}
