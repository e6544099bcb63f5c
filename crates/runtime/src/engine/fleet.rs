//! All sessions, followed: which of them have changed, as it happens.

use super::access::Access;
use super::handle::Engine;
use crate::ops::{OpError, SessionError, SessionView};
use shellkeep_session::SessionId;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// How long changes gather before they are looked at: a command has several within a few milliseconds.
const GATHER: Duration = Duration::from_millis(50);
/// Most sessions of one change. Where more have changed, looking at the whole list is cheaper.
const MOST_CHANGED: usize = 200;

/// Sessions that have changed.
#[derive(Debug)]
pub enum FleetChange {
    /// These, and those that are gone.
    Some { sessions: Vec<SessionView>, gone: Vec<SessionId> },
    /// More than are listed: read the list again.
    Many,
}

/// All sessions that the caller may see, followed.
pub struct FleetStream {
    access: Access,
    changed: broadcast::Receiver<SessionId>,
}

impl FleetStream {
    pub(super) fn start(access: &Access) -> Self {
        let changed = access.at_large().ctx.store.followers().follow_all();
        Self { access: access.clone(), changed }
    }

    /// The next changes; waits for them. Those of sessions that the caller may not see are none. Cancel-safe: a change that
    /// was received and not returned is lost, so a caller that cancels looks at the whole list.
    pub async fn next(&mut self) -> Result<FleetChange, OpError> {
        loop {
            let Some(changed) = self.gather().await? else { return Ok(FleetChange::Many) };
            if changed.len() > MOST_CHANGED {
                return Ok(FleetChange::Many);
            }
            let (sessions, gone) = self.look_at(changed).await;
            if !sessions.is_empty() || !gone.is_empty() {
                return Ok(FleetChange::Some { sessions, gone });
            }
        }
    }

    /// The sessions that have changed, as far as the caller may know of them. None if there were too many to remember.
    async fn gather(&mut self) -> Result<Option<BTreeSet<SessionId>>, OpError> {
        let mut changed = BTreeSet::new();
        match self.changed.recv().await {
            Ok(id) => drop(changed.insert(id)),
            Err(RecvError::Lagged(_)) => return Ok(None),
            Err(RecvError::Closed) => return Err(OpError::ShuttingDown),
        }
        tokio::time::sleep(GATHER).await;
        loop {
            match self.changed.try_recv() {
                Ok(id) => drop(changed.insert(id)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Err(TryRecvError::Lagged(_)) => return Ok(None),
            }
        }
        let is_reader = self.access.as_reader().is_ok();
        // Another agent's session is not the caller's to know, not even that it is gone. These are the names by which sessions
        // are stored, and one may be what the caller calls a session of its own.
        changed.retain(|id| is_reader || self.access.over_stored(id).is_ok());
        Ok(Some(changed))
    }

    async fn look_at(&self, changed: BTreeSet<SessionId>) -> (Vec<SessionView>, Vec<SessionId>) {
        let engine = Engine { access: self.access.clone() };
        let (mut sessions, mut gone) = (Vec::new(), Vec::new());
        for id in changed {
            match engine.get(&id).await {
                Ok(view) => sessions.push(view),
                Err(OpError::Session(SessionError::NotFound { .. })) if self.access.as_reader().is_ok() => {
                    gone.push(id)
                }
                Err(_) => {}
            }
        }
        (sessions, gone)
    }
}
