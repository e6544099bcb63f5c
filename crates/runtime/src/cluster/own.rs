//! What this node has of its own, and asking for sessions in its name.

use super::elsewhere::Elsewhere;
use super::made_alone::MadeAlone;
use super::removals::as_removed;
use crate::checkpoints::Checkpoints;
use crate::names::Names;
use shellkeep_session::ownership::{Ask, Claimed};
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::{ClaimAnswer, ClaimRequest, Create, Down, LEASE, NoClaim, RemovedSession, Tier};
use shellkeep_store::Store;
use shellkeep_workspace::Workspaces;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What this node has of its own.
pub(crate) struct Own {
    pub(crate) store: Store,
    pub(crate) names: Arc<Names>,
    pub(crate) workspaces: Workspaces,
    pub(crate) checkpoints: Arc<Checkpoints>,
}

/// A claim on a session of which this node has a copy, or has none.
pub(super) struct CopyRequest {
    pub(super) claim: ClaimRequest,
    /// The copy, as one of a session that was removed.
    copy: Option<RemovedSession>,
}

/// The node that asks.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    /// This node's name.
    pub(super) node: String,
    pub(super) data_dir: String,
    pub(super) elsewhere: Arc<Elsewhere>,
    pub(super) made_alone: Arc<MadeAlone>,
}

impl Asker {
    /// A node with what it noted in its data directory.
    pub(super) fn at(data_dir: &Path, node: &str) -> io::Result<Self> {
        let (elsewhere, made_alone) = (Arc::new(Elsewhere::at(data_dir, node)?), Arc::new(MadeAlone::at(data_dir)?));
        let data_dir = data_dir.to_string_lossy().into_owned();
        Ok(Self { node: node.to_owned(), data_dir, elsewhere, made_alone })
    }

    /// The shared store knows a session as this node's.
    pub(super) async fn known(&self, id: &SessionId) {
        self.elsewhere.forget(id).await;
        self.made_alone.forget(id).await;
    }

    /// A claim on a session of which this node has a copy, or has none.
    pub(super) fn request(&self, id: &SessionId, local: Option<&SessionState>) -> CopyRequest {
        let (last, owner) = (local.and_then(|state| state.claims.last()), self.elsewhere.owner(id));
        let seen = last.into_iter().chain(&owner).map(|claim| claim.epoch).max().unwrap_or(0);
        // After another owner it does not continue under its last claim, even if the shared store has forgotten that owner.
        let mine = last.filter(|claim| claim.node == self.node && owner.is_none()).cloned();
        let claims = local.map(|state| state.claims.clone()).unwrap_or_default();
        let ask = Ask { node: self.node.clone(), nonce: nonce(), mine, seen, claims };
        let agent = local.and_then(|state| state.meta.agent.clone());
        let claim = ClaimRequest { session_id: id.clone(), ask, data_dir: self.data_dir.clone(), agent, create: None };
        CopyRequest { claim, copy: local.map(|state| as_removed(&state.meta)) }
    }

    /// Claims a session of which this node has a copy, or has none. That the store removed an earlier one of its name says nothing
    /// of a session that this node made without the store.
    pub(super) fn claim(&self, tier: &mut dyn Tier, request: &CopyRequest) -> Result<ClaimAnswer, Down> {
        let CopyRequest { claim, copy } = request;
        match tier.claim(claim, LEASE)? {
            Err(NoClaim::Removed) if self.made_alone.contains(&claim.session_id) => {
                // It was answered, whatever the limit is.
                let create = Some(Create { most_of_agent: u64::MAX });
                tier.claim(&ClaimRequest { create, ..claim.clone() }, LEASE)
            }
            // The store was emptied since the session was removed. Another node may have one that was created under its name since.
            Ok(Claimed::New(head) | Claimed::Kept(head) | Claimed::Taken(head))
                if head.last.seq == 0 && is_marked(tier, copy.as_ref())? =>
            {
                tier.drop_session(&claim.session_id, &head.owner)?;
                Ok(Err(NoClaim::Removed))
            }
            answer => Ok(answer),
        }
    }

    /// A claim on a name for a new session.
    pub(super) fn creation(&self, id: &SessionId, agent: Option<&str>, create: Create) -> ClaimRequest {
        let agent = agent.map(str::to_owned);
        ClaimRequest { agent, create: Some(create), ..self.request(id, None).claim }
    }
}

fn is_marked(tier: &mut dyn Tier, copy: Option<&RemovedSession>) -> Result<bool, Down> {
    copy.map_or(Ok(false), |copy| tier.is_marked(copy))
}

/// Random text that makes a claim unique.
fn nonce() -> String {
    let (_, random) = uuid::Uuid::new_v4().as_u64_pair();
    format!("{random:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Event, Record, SessionMeta, Timestamp};
    use shellkeep_shared::memory::MemoryTier;

    fn created(id: &SessionId, at: Timestamp) -> SessionState {
        let meta = SessionMeta { created_at: at, ..SessionMeta::of_name(id.clone()) };
        let event = Event::SessionCreated { meta: Box::new(meta), shell: Box::default() };
        SessionState::create(&Record { session_id: id.clone(), seq: 1, at, event }).unwrap()
    }

    /// The bug: a store that was emptied took a copy of a removed session from a node that had been down. Another: it then took the next
    /// session of the name, whose node was down, for the removed one.
    #[test]
    fn a_copy_of_a_removed_session_is_not_given_to_a_store_that_was_emptied() {
        let data = tempfile::TempDir::new().unwrap();
        let (asker, mut tier, id) =
            (Asker::at(data.path(), "n1").unwrap(), MemoryTier::default(), SessionId::parse("s").unwrap());
        let (old, new) = (created(&id, Timestamp::UNIX_EPOCH), created(&id, Timestamp::now()));
        tier.mark_removed(&[as_removed(&old.meta)]).unwrap();
        let request = |state: &SessionState| asker.request(&id, Some(state));
        assert_eq!(asker.claim(&mut tier, &request(&old)).unwrap(), Err(NoClaim::Removed));
        assert_eq!(tier.find(&id), Ok(None));
        assert!(tier.removed(std::slice::from_ref(&id)).unwrap().is_empty(), "the name is not marked");
        assert!(matches!(asker.claim(&mut tier, &request(&new)).unwrap(), Ok(Claimed::New(_))));
    }

    /// The bug: a session that was made while the store was away, under the name of one that had been removed, was taken for that
    /// one when the store was back, and deleted.
    #[tokio::test]
    async fn a_session_that_was_made_alone_is_not_the_one_that_was_removed() {
        let data = tempfile::TempDir::new().unwrap();
        let (asker, mut tier, id) =
            (Asker::at(data.path(), "n1").unwrap(), MemoryTier::default(), SessionId::parse("s").unwrap());
        let request = asker.request(&id, None);
        let Ok(Claimed::New(head)) = asker.claim(&mut tier, &request).unwrap() else { panic!("it is new") };
        tier.remove(&id, &head.owner).unwrap();
        assert_eq!(asker.claim(&mut tier, &request).unwrap(), Err(NoClaim::Removed));
        asker.made_alone.note(&id).await;
        assert!(matches!(asker.claim(&mut tier, &request).unwrap(), Ok(Claimed::New(_))));
    }
}
