//! Sessions that this node creates: a name is claimed where all nodes see it before anything is recorded.

use super::arrive;
use super::look::{away, emptied, unreachable};
use super::own::Asker;
use super::removals::Removals;
use crate::names::not_found;
use crate::ops::{ClusterError, OpError};
use shellkeep_session::ownership::{Claim, Claimed};
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::{Create, LEASE, Lacking, NoClaim, Ship, Start};
use std::sync::Arc;
use std::time::Duration;

/// How long a session may take to appear that another node is creating, and how long between two looks.
const CREATE_WAIT: Duration = Duration::from_secs(2);
const CREATE_PAUSE: Duration = Duration::from_millis(20);

/// A session that this node was asked to create.
pub(crate) enum Creation {
    /// It is this node's: its records follow.
    Mine {
        claim: Claim,
        /// Whether it was checked that its agent may have one more; not while the shared store is unreachable.
        is_counted: bool,
    },
    /// Its agent has this many sessions, which is all it may have.
    Full { used: u64 },
    /// It exists.
    Exists(Box<SessionState>),
}

/// Claims the names of new sessions.
pub(super) struct Creations {
    ship: Arc<Ship>,
    asker: Asker,
    removals: Arc<Removals>,
}

impl Creations {
    pub(super) fn new(ship: Arc<Ship>, asker: Asker, removals: Arc<Removals>) -> Self {
        Self { ship, asker, removals }
    }

    /// Claims a name, if its agent has fewer than `most`.
    pub(super) async fn claim(&self, id: &SessionId, agent: Option<&str>, most: u64) -> Result<Creation, OpError> {
        if self.removals.is_waiting(id) {
            return Err(ClusterError::NameInUse { session_id: id.to_string() }.into());
        }
        let request = self.asker.creation(id, agent, Create { most_of_agent: most })?;
        let (nonce, alone) = (request.ask.nonce.clone(), self.ship.alone());
        let asked = self.ship.ask(move |tier| match alone.lacking(tier)? {
            // One of them may have a session of this name. Those that are gone are not waited for.
            Some(lacking) if !lacking.alive.is_empty() => Ok(Err(lacking)),
            _ => Ok(Ok(tier.claim(&request, LEASE)?)),
        });
        let claimed = match asked.await {
            Ok(Err(lacking)) => return Err(emptied(&Lacking { gone: Vec::new(), ..lacking })),
            Ok(Ok(claimed)) => Ok(claimed),
            Err(down) => Err(down),
        };
        let (claim, known) = match claimed {
            Ok(Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head))) => (head.owner, Some(head.last)),
            Ok(Ok(Claimed::Held(by))) => return self.existing(id, &by).await,
            Ok(Err(NoClaim::Full { used })) => return Ok(Creation::Full { used }),
            Ok(Err(NoClaim::Removed)) => return Err(not_found(id)),
            Err(_) => (Claim { epoch: 1, node: self.asker.node.clone(), nonce }, None),
        };
        self.ship.drop_left(id);
        self.asker.known(id).await;
        let is_counted = known.is_some();
        if !is_counted {
            self.asker.made_alone.note(id).await;
        }
        let start = Start { claim: claim.clone(), created_at: None, from: 2, known, seq: 0 };
        let claim = match is_counted {
            true => {
                self.ship.begin(id, start, |_| None);
                claim
            }
            // Another caller may be creating it, and has recorded its claim.
            false => self.ship.begin_unless_open(id, start),
        };
        Ok(Creation::Mine { claim, is_counted })
    }

    /// A session that another node has, or is about to have.
    async fn existing(&self, id: &SessionId, by: &Claim) -> Result<Creation, OpError> {
        let deadline = tokio::time::Instant::now() + CREATE_WAIT;
        loop {
            let asked = id.clone();
            let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
            if let Some(state) = arrive::fold(id, None, &loaded.lines, |_| Ok(()))? {
                return Ok(Creation::Exists(Box::new(state)));
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(unreachable(id, &by.node));
            }
            tokio::time::sleep(CREATE_PAUSE).await;
        }
    }
}
