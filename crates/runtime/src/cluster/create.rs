//! Sessions that this node creates, also as forks: a name is claimed where all nodes see it before anything is recorded.

use super::arrive::{self, NOT_SHARED, stands_for};
use super::look::{away, emptied};
use super::own::Asker;
use super::removals::Removals;
use crate::names::not_found;
use crate::ops::{ClusterError, OpError};
use shellkeep_session::ownership::{Claim, Claimed, Point};
use shellkeep_session::{Event, Record, SessionId, SessionState};
use shellkeep_shared::{ClaimAnswer, ClaimRequest, Create, Down, LEASE, Lacking, NoClaim, Ship, Start};
use std::sync::Arc;
use std::time::Duration;

/// How long a session may take to appear that another node is creating, and how long between two looks.
const CREATE_WAIT: Duration = Duration::from_secs(2);
const CREATE_PAUSE: Duration = Duration::from_millis(20);

/// A session that this node was asked to create.
pub(crate) enum Creation {
    /// It is this node's: its records follow.
    Mine {
        name: ClaimedName,
        /// Whether it was checked that its agent may have one more; not while the shared store is unreachable.
        is_counted: bool,
    },
    /// Its agent has this many sessions, which is all it may have.
    Full { used: u64 },
    /// It exists.
    Exists(Box<SessionState>),
    /// A caller at this node has claimed the name, and has recorded nothing yet.
    Busy { node: String },
}

/// The name of a new session, which this node has claimed. It is given back unless it is kept: whoever uses it next would wait for a
/// session that nobody creates.
pub(crate) struct ClaimedName {
    ship: Arc<Ship>,
    id: SessionId,
    claim: Claim,
    /// The last record in the shared store, which is none; not known if the store did not confirm the claim.
    known: Option<Point>,
    /// Not if another caller creates the session under the same claim.
    gives_back: bool,
}

impl ClaimedName {
    /// The session exists. Gives its second record.
    pub(crate) fn keep(mut self) -> Event {
        self.gives_back = false;
        self.owned()
    }

    /// The claim.
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Whether the shared store did not confirm the claim.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.known.is_none()
    }

    /// The second record of the session: who owns it.
    pub(crate) fn owned(&self) -> Event {
        Event::Owned { claim: self.claim.clone(), because: "created".to_owned(), state: None }
    }

    /// The session exists with these records, which are all that it has: they are sent together. If the node dies meanwhile, the
    /// shared store has all of them or none, as far as they fit into one append.
    pub(crate) fn send(mut self, state: &SessionState, records: &[Record]) {
        self.gives_back = false;
        let start = |known: Option<Point>| Start { seq: 0, ..Start::of(state, self.claim.clone(), 2, known) };
        // Nothing is sent under a claim that is not confirmed.
        self.ship.begin(&self.id, start(None), |_| None);
        records.iter().for_each(|record| self.ship.offer(record));
        let start = Start { seq: state.seq, ..start(self.known.clone()) };
        self.ship.begin(&self.id, start, |after| Some(stands_for(state, after + 1, NOT_SHARED)));
    }
}

impl Drop for ClaimedName {
    fn drop(&mut self) {
        if self.gives_back {
            self.ship.give_back(&self.id, &self.claim);
        }
    }
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

    /// Claims a name, if its agent has fewer than `most`. One that another caller has claimed is waited for: it is soon that of a
    /// session, or free again.
    pub(super) async fn claim(&self, id: &SessionId, agent: Option<&str>, most: u64) -> Result<Creation, OpError> {
        if self.removals.is_waiting(id) {
            return Err(ClusterError::NameInUse { session_id: id.to_string() }.into());
        }
        let request = self.asker.creation(id, agent, Create { most_of_agent: most });
        let (deadline, mut is_held) = (tokio::time::Instant::now() + CREATE_WAIT, false);
        loop {
            let by = match self.ask(&request).await? {
                Ok(Ok(Claimed::Held(by))) => by,
                Ok(Err(NoClaim::Full { used })) => return Ok(Creation::Full { used }),
                Ok(Err(NoClaim::Removed)) => return Err(not_found(id)),
                Ok(Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head))) => {
                    return Ok(self.begin(id, head.owner, Some(head.last)).await);
                }
                Err(down) if is_held => return Err(away(down)),
                Err(_) => {
                    let claim = Claim { epoch: 1, node: self.asker.node.clone(), nonce: request.ask.nonce };
                    return Ok(self.begin(id, claim, None).await);
                }
            };
            let asked = id.clone();
            let loaded = self.ship.ask(move |tier| tier.load(&asked)).await.map_err(away)?;
            if let Some(state) = arrive::fold(id, None, &loaded.lines, |_| Ok(()))? {
                return Ok(Creation::Exists(Box::new(state)));
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(Creation::Busy { node: by.node });
            }
            is_held = true;
            tokio::time::sleep(CREATE_PAUSE).await;
        }
    }

    /// Asks the shared store for a name. An error if the store was emptied and may lack the session that has it.
    async fn ask(&self, request: &ClaimRequest) -> Result<Result<ClaimAnswer, Down>, OpError> {
        let (request, alone) = (request.clone(), self.ship.alone());
        let asked = self.ship.ask(move |tier| match alone.lacking(tier)? {
            // One of them may have a session of this name. Those that are gone are not waited for.
            Some(lacking) if !lacking.alive.is_empty() => Ok(Err(lacking)),
            _ => Ok(Ok(tier.claim(&request, LEASE)?)),
        });
        match asked.await {
            Ok(Err(lacking)) => Err(emptied(&Lacking { gone: Vec::new(), ..lacking })),
            Ok(Ok(claimed)) => Ok(Ok(claimed)),
            Err(down) => Ok(Err(down)),
        }
    }

    /// The name is this node's: by the shared store, or because that does not answer.
    async fn begin(&self, id: &SessionId, claim: Claim, known: Option<Point>) -> Creation {
        self.ship.drop_left(id);
        self.asker.known(id).await;
        let is_counted = known.is_some();
        if !is_counted {
            self.asker.made_alone.note(id).await;
        }
        let start = Start { claim: claim.clone(), created_at: None, from: 2, known: known.clone(), seq: 0 };
        let open = match is_counted {
            true => {
                self.ship.begin(id, start, |_| None);
                claim.clone()
            }
            // Another caller may be creating it, and has recorded its claim.
            false => self.ship.begin_unless_open(id, start),
        };
        let (gives_back, ship) = (open == claim, Arc::clone(&self.ship));
        let name = ClaimedName { ship, id: id.clone(), claim: open, known, gives_back };
        Creation::Mine { name, is_counted }
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_memory;
    use super::super::removal_notes::RemovalNotes;
    use super::*;
    use shellkeep_shared::memory::MemoryTier;
    use shellkeep_shared::{Closing, Tier};
    use std::collections::HashSet;
    use tempfile::TempDir;
    use tokio::time::timeout;

    /// Far more than anything here takes.
    const LONG: Duration = Duration::from_secs(60);

    fn creations(data: &TempDir, tier: &MemoryTier) -> Creations {
        let ship = in_memory::ship(tier);
        let removals = Removals::new(Arc::clone(&ship), "n1", RemovalNotes::at(data.path()).unwrap(), None);
        Creations::new(ship, Asker::at(data.path(), "n1").unwrap(), removals)
    }

    async fn claimed(creations: &Creations, id: &SessionId) -> ClaimedName {
        match creations.claim(id, None, 9).await {
            Ok(Creation::Mine { name, .. }) => name,
            _ => panic!("it is this node's"),
        }
    }

    /// The bug: a creation that found its name taken kept the lease, and renewed it for as long as the node lived.
    #[tokio::test]
    async fn a_name_that_is_not_used_is_given_back() {
        let (data, tier, id) = (TempDir::new().unwrap(), MemoryTier::default(), SessionId::parse("s").unwrap());
        let creations = creations(&data, &tier);
        let lease = || tier.clone().find(&id).unwrap().and_then(|found| found.lease);
        let name = claimed(&creations, &id).await;
        assert!(lease().is_some());
        let drain = creations.ship.drain();
        assert!(drain.begin(HashSet::new()));
        drain.free();
        drop(name);
        assert!(timeout(LONG, drain.until_left(&[&id])).await.expect("it is given back"));
        assert_eq!(lease(), None);
        let Event::Owned { claim, .. } = claimed(&creations, &id).await.keep() else { panic!("it names the owner") };
        assert!(creations.ship.is_open(&id) && lease() == Some(claim));
        creations.ship.close(Closing::Stop);
    }

    /// The bug: a creation that met one which failed waited for its session, and was refused when that did not appear.
    #[tokio::test]
    async fn who_waits_for_a_name_has_it_when_it_is_given_back() {
        let (data, tier, id) = (TempDir::new().unwrap(), MemoryTier::default(), SessionId::parse("s").unwrap());
        let creations = creations(&data, &tier);
        let first = claimed(&creations, &id).await;
        let (second, ()) = tokio::join!(claimed(&creations, &id), async { drop(first) });
        assert!(creations.ship.is_open(&id));
        drop(second);
        creations.ship.close(Closing::Stop);
    }

    /// The claim of one that creates a session while the store is away is not given back by another.
    #[tokio::test]
    async fn a_claim_that_another_uses_is_not_given_back() {
        let (data, tier, id) = (TempDir::new().unwrap(), MemoryTier::default(), SessionId::parse("s").unwrap());
        let creations = creations(&data, &tier);
        tier.set_down(true);
        let (first, second) = (claimed(&creations, &id).await, claimed(&creations, &id).await);
        drop(second);
        assert!(creations.ship.is_open(&id));
        drop(first);
        assert!(!creations.ship.is_open(&id));
        creations.ship.close(Closing::Stop);
    }
}
