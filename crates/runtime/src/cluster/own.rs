//! What this node has of its own, and asking for sessions in its name.

use super::elsewhere::Elsewhere;
use crate::checkpoints::Checkpoints;
use crate::names::Names;
use crate::ops::OpError;
use shellkeep_session::ownership::Ask;
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::{ClaimRequest, Create};
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
}

impl Asker {
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
