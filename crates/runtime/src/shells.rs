//! Shells for sessions: from the pool, or taken from an idle session.

use crate::actor::{Message, RestReason};
use crate::ops::{OpError, QuotaMet, RunError};
use crate::pool::{Pool, PooledShell};
use crate::registry::Registry;
use shellkeep_process::{Ends, StartError};
use shellkeep_session::{QuotaName, Sandbox, SessionId, SessionMeta};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// Idle sessions that drop their shells for the pipes of one command. One has as many descriptors as the pipes need, but
/// others want them too.
const DROPPED_FOR_PIPES: usize = 3;

/// How long an idle session may take to drop its shell before the next one is asked. One that just became busy answers when
/// it has finished what it does.
const EVICTS_WITHIN: Duration = Duration::from_millis(100);

/// How many idle sessions are looked for before all are put in order.
const ASKED_FIRST: usize = 8;

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

    /// A shell for a session: a spare, a new one, or one in place of the session that was idle longest. It may be prepared
    /// for `sandbox`; without one it is not prepared. `None` if every shell belongs to a busy session, or the machine lacks a
    /// resource.
    pub(crate) async fn take(
        &self,
        session: &SessionMeta,
        sandbox: Option<Sandbox>,
    ) -> Result<Option<PooledShell>, OpError> {
        let (id, agent) = (&session.session_id, session.agent.as_deref());
        // A start that fails for one agent's limit must not look like a shortage, which delays the shells of all.
        if let Some(agent) = agent
            && let Some(used) = self.pool.full(agent)
        {
            return Err(self.agent_is_full(agent, used));
        }
        let mut is_second_try = false;
        loop {
            match self.pool.try_take(agent, sandbox).await {
                Ok(Some(pooled)) => return Ok(Some(pooled)),
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
        let met = QuotaMet { agent: Some(agent.to_owned()), ..QuotaMet::new(quota, limit, used) };
        OpError::QuotaExceeded(Box::new(met))
    }

    /// Makes a session drop its shell, the longest idle one first, but not `except`. Returns whether one did.
    pub(crate) async fn evict(&self, except: Option<&SessionId>) -> bool {
        // The first one nearly always does.
        let mut asked_before: Vec<SessionId> = Vec::new();
        for most in [ASKED_FIRST, usize::MAX] {
            let mut evictable = self.registry.evictable(except, most);
            let is_all = evictable.len() < most;
            evictable.retain(|(id, _)| !asked_before.contains(id));
            for (id, mailbox) in evictable {
                asked_before.push(id);
                let (answer, waiting) = oneshot::channel();
                let Some(mailbox) = mailbox.upgrade() else { continue };
                let asked = async move {
                    let sent = mailbox.send(Message::Evict { why: RestReason::Idle, answer }).await;
                    drop(mailbox);
                    sent.is_ok() && waiting.await.unwrap_or(false)
                };
                if tokio::time::timeout(EVICTS_WITHIN, asked).await.unwrap_or(false) {
                    metrics::counter!("shellkeep_evictions_total").increment(1);
                    return true;
                }
            }
            if is_all {
                break;
            }
        }
        false
    }

    /// The pipes for a command of a session that has a shell. If a resource is missing for them, idle sessions drop their
    /// shells, a few at most. `None` if that does not help: the command waits as if there were no shell.
    pub(crate) async fn pipes(
        &self,
        id: &SessionId,
        prepare: impl Fn() -> std::io::Result<Ends> + Send,
    ) -> Result<Option<Ends>, OpError> {
        let mut dropped = 0;
        loop {
            let error = match prepare() {
                Ok(ends) => return Ok(Some(ends)),
                Err(error) => StartError::System(error),
            };
            if error.is_shortage() && dropped < DROPPED_FOR_PIPES {
                // No session may ask this one for its shell while this one asks: both would wait forever.
                if let Some(slot) = self.registry.slot(id) {
                    slot.pid.store(0, Ordering::Relaxed);
                }
                if self.evict(Some(id)).await {
                    dropped += 1;
                    continue;
                }
            }
            let why = self.pool.failed(&error);
            return match why.is_shortage {
                true => Ok(None),
                false => Err(OpError::Run(RunError::ShellUnavailable { reason: why.reason.to_string() })),
            };
        }
    }

    /// Why a command waits for a shell: none can be started, or every shell is busy.
    pub(crate) fn why_none(&self) -> OpError {
        if let Some(why) = self.pool.trouble() {
            return OpError::Run(RunError::ShellUnavailable { reason: why.reason.to_string() });
        }
        let limit = self.pool.limit() as u64;
        OpError::QuotaExceeded(Box::new(QuotaMet::new(QuotaName::LiveShells, limit, limit)))
    }
}
