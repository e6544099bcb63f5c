//! Copies that this node has of sessions that went on elsewhere: those that were removed there, or replaced by others of the
//! same name, are deleted here too.

use super::inner::Inner;
use crate::cluster::{Cluster, Whose};
use crate::ops::OpError;
use crate::stored::read_error;
use shellkeep_session::ownership::Head;
use shellkeep_session::{SessionId, SessionState};
use shellkeep_store::ReadError;
use std::sync::Weak;
use std::time::Duration;

/// How often to look whether sessions that this node lost were removed. Whoever creates one of the name looks at once.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Whether the session of a name that this node knows is another node's, or was removed by one. Then this node's copy says
/// nothing; one that was removed is deleted.
pub(super) async fn is_stale(inner: &Inner, id: &SessionId) -> bool {
    let Some(cluster) = inner.ctx.cluster.as_deref().filter(|cluster| !cluster.members().works_with(id)) else {
        return false;
    };
    match cluster.diverged().whose(id).await {
        Ok(Whose::Anothers(head)) => {
            remove_if_replaced(inner, cluster, id, &head).await;
            true
        }
        Ok(Whose::Nobodys) => remove_if_removed(inner, cluster, id).await,
        Ok(Whose::Own) | Err(_) => false,
    }
}

/// Deletes this node's copy of a session if another node's session of that name was made after this one was removed.
async fn remove_if_replaced(inner: &Inner, cluster: &Cluster, id: &SessionId, head: &Head) {
    let is_replaced = |state: SessionState| state.claims.was_replaced_by(&head.claims);
    if inner.ctx.store.load(id).await.is_ok_and(|state| state.is_some_and(is_replaced)) {
        let removing = inner.ctx.registry.while_asleep(id, remove(inner, cluster, id));
        if let Some(Err(error)) = removing.await {
            tracing::warn!(session = %id, %error, "the copy of a session that another node removed is not deleted");
        }
    }
}

/// Deletes this node's copy of a session if another node removed the session. Returns whether one did.
pub(super) async fn remove_if_removed(inner: &Inner, cluster: &Cluster, id: &SessionId) -> bool {
    let is_here = inner.ctx.registry.is_awake(id) || cluster.removals().is_waiting(id);
    if is_here || cluster.removals().removed(vec![id.clone()]).await.is_empty() {
        return false;
    }
    let removing = inner.ctx.registry.while_asleep(id, remove(inner, cluster, id));
    match removing.await {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            tracing::warn!(session = %id, %error, "the copy of a session that another node removed is not deleted");
            true
        }
        None => false,
    }
}

/// Deletes what is left here under a name that this node has claimed for a new session.
pub(super) async fn clear(inner: &Inner, id: &SessionId, is_sure: bool) -> Result<(), OpError> {
    let Some(cluster) = &inner.ctx.cluster else { return Ok(()) };
    let clearing = async {
        // Without the shared store, another caller may have created it meanwhile.
        if is_sure || !inner.ctx.names.contains(id) { remove(inner, cluster, id).await } else { Ok(()) }
    };
    inner.ctx.registry.while_asleep(id, clearing).await.unwrap_or(Ok(()))
}

async fn remove(inner: &Inner, cluster: &Cluster, id: &SessionId) -> Result<(), OpError> {
    let copies = cluster.diverged().copies();
    match inner.ctx.store.load(id).await {
        Ok(Some(state)) => copies.remove(&state).await?,
        Ok(None) => copies.clear(id).await,
        // Its record of creation begins it anew.
        Err(ReadError::Damaged { .. }) => copies.clear(id).await,
        Err(error) => return Err(read_error(id, error)),
    }
    inner.ctx.secrets.forget(id);
    inner.ctx.thinning.forget(id);
    inner.ctx.names.remove(id);
    inner.ctx.store.followers().changed(id);
    Ok(())
}

/// Looks from time to time at the sessions that this node lost to others, as long as the engine lives.
pub(super) async fn look(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(lost) = inner.upgrade().and_then(|inner| Some(inner.ctx.cluster.as_ref()?.elsewhere().lost())) else {
            return;
        };
        for id in lost {
            let Some(inner) = inner.upgrade() else { return };
            if inner.ctx.names.contains(&id) {
                is_stale(&inner, &id).await;
            }
        }
    }
}
