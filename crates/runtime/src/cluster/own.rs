//! What this node has of its own, and asking for sessions in its name.

use super::elsewhere::Elsewhere;
use super::made_alone::MadeAlone;
use crate::checkpoints::Checkpoints;
use crate::names::Names;
use crate::ops::OpError;
use shellkeep_session::ownership::Ask;
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::{ClaimAnswer, ClaimRequest, Create, Down, LEASE, NoClaim, Tier};
use shellkeep_store::Store;
use shellkeep_workspace::Workspaces;
use std::sync::Arc;

/// What this node has of its own.
pub(crate) struct Own {
    pub(crate) store: Store,
    pub(crate) names: Arc<Names>,
    pub(crate) workspaces: Workspaces,
    pub(crate) checkpoints: Arc<Checkpoints>,
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
    /// The shared store knows a session as this node's.
    pub(super) async fn known(&self, id: &SessionId) {
        self.elsewhere.forget(id).await;
        self.made_alone.forget(id).await;
    }

    /// A claim on a session of which this node has a copy, or has none.
    pub(super) fn request(&self, id: &SessionId, local: Option<&SessionState>) -> Result<ClaimRequest, OpError> {
        let (last, owner) = (local.and_then(|state| state.claims.last()), self.elsewhere.owner(id));
        let seen = last.into_iter().chain(&owner).map(|claim| claim.epoch).max().unwrap_or(0);
        // After another owner it does not continue under its last claim, even if the shared store has forgotten that owner.
        let mine = last.filter(|claim| claim.node == self.node && owner.is_none()).cloned();
        let claims = local.map(|state| state.claims.clone()).unwrap_or_default();
        let ask = Ask { node: self.node.clone(), nonce: nonce()?, mine, seen, claims };
        let agent = local.and_then(|state| state.meta.agent.clone());
        Ok(ClaimRequest { session_id: id.clone(), ask, data_dir: self.data_dir.clone(), agent, create: None })
    }

    /// Claims a session of which this node has a copy, or has none. That the store removed an earlier one of its name says nothing
    /// of a session that this node made without the store.
    pub(super) fn claim(&self, tier: &mut dyn Tier, request: &ClaimRequest) -> Result<ClaimAnswer, Down> {
        match tier.claim(request, LEASE)? {
            Err(NoClaim::Removed) if self.made_alone.contains(&request.session_id) => {
                // It was answered, whatever the limit is.
                let create = Some(Create { most_of_agent: u64::MAX });
                tier.claim(&ClaimRequest { create, ..request.clone() }, LEASE)
            }
            answer => Ok(answer),
        }
    }

    /// A claim on a name for a new session.
    pub(super) fn creation(
        &self,
        id: &SessionId,
        agent: Option<&str>,
        create: Create,
    ) -> Result<ClaimRequest, OpError> {
        let agent = agent.map(str::to_owned);
        Ok(ClaimRequest { agent, create: Some(create), ..self.request(id, None)? })
    }
}

/// Random text that makes a claim unique.
fn nonce() -> Result<String, OpError> {
    let mut bytes = [0; 8];
    let unavailable = |error: rustix::io::Errno| OpError::Internal { detail: error.to_string() };
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(unavailable)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::ownership::Claimed;
    use shellkeep_shared::memory::MemoryTier;

    /// The bug: a session that was made while the store was away, under the name of one that had been removed, was taken for that
    /// one when the store was back, and deleted.
    #[tokio::test]
    async fn a_session_that_was_made_alone_is_not_the_one_that_was_removed() {
        let data = tempfile::TempDir::new().unwrap();
        let (elsewhere, made_alone) = (Elsewhere::at(data.path(), "n1").unwrap(), MadeAlone::at(data.path()).unwrap());
        let (elsewhere, made_alone) = (Arc::new(elsewhere), Arc::new(made_alone));
        let (node, data_dir) = ("n1".to_owned(), String::new());
        let asker = Asker { node, data_dir, elsewhere, made_alone };
        let (mut tier, id) = (MemoryTier::default(), SessionId::parse("s").unwrap());
        let request = asker.request(&id, None).unwrap();
        let Ok(Claimed::New(head)) = asker.claim(&mut tier, &request).unwrap() else { panic!("it is new") };
        tier.remove(&id, &head.owner).unwrap();
        assert_eq!(asker.claim(&mut tier, &request).unwrap(), Err(NoClaim::Removed));
        asker.made_alone.note(&id).await;
        assert!(matches!(asker.claim(&mut tier, &request).unwrap(), Ok(Claimed::New(_))));
    }
}
