//! Copies that this node has of sessions that went on elsewhere: those that were removed there, or replaced by others of the
//! same name, are deleted here too.

use super::parts::Parts;
use crate::cluster::{Cluster, Compared, Whose};
use crate::context::SessionContext;
use crate::ops::{OpError, SessionError};
use crate::stored::in_time;
use shellkeep_session::ownership::Head;
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::LEASE;
use std::sync::Weak;
use std::time::Duration;

/// How long after the start to look whether sessions that this node lost were removed, which it also does when it starts. The
/// next pauses are twice as long each.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// The longest of these pauses. Whoever creates a session of the name looks at once.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// How often to look whether another node goes on with a session that it has claimed. If it does not, this node's copy stays
/// as it is.
const UNDECIDED: u32 = 3;

/// Whether the session of a name that this node knows is another node's, or was removed by one. Then this node's copy says
/// nothing; one that was removed is deleted.
pub(super) async fn is_stale(parts: &Parts, id: &SessionId) -> bool {
    let Some(cluster) = parts.ctx.cluster.as_deref().filter(|cluster| !cluster.members().works_with(id)) else {
        return false;
    };
    match cluster.diverged().whose(id).await {
        Ok(Whose::Anothers(head)) => {
            remove_if_replaced(parts, cluster, id, &head).await;
            true
        }
        Ok(Whose::Nobodys) => remove_if_removed(parts, cluster, id).await,
        Ok(Whose::Own(_)) | Err(_) => false,
    }
}

/// Deletes this node's copy of a session if another node's session of that name was made after this one was removed.
async fn remove_if_replaced(parts: &Parts, cluster: &Cluster, id: &SessionId, head: &Head) {
    let removing = async {
        let Some(state) = load(parts, id).await? else { return Ok(()) };
        match cluster.diverged().was_replaced(&state, head).await? {
            true => delete(parts, cluster, id, Some(&state)).await,
            false => Ok(()),
        }
    };
    if let Some(Err(error)) = parts.ctx.registry.while_asleep(id, removing).await {
        tracing::warn!(session = %id, %error, "the copy of a session that another node removed is not deleted");
    }
}

/// Deletes this node's copy of a session if another node removed the session. Returns whether it is gone.
pub(super) async fn remove_if_removed(parts: &Parts, cluster: &Cluster, id: &SessionId) -> bool {
    if parts.ctx.registry.is_awake(id) || cluster.removals().is_waiting(id) {
        return false;
    }
    let removing = async {
        if parts.ctx.names.is_forking(id) {
            return Ok(false);
        }
        // Whoever creates one of the name claims it first, and then waits for this to end.
        let has_name = !cluster.removals().removed(vec![id.clone()]).await.is_empty();
        let state = load(parts, id).await?;
        // What was made here while the shared store was away is not what it removed.
        let is_of_name = has_name && !cluster.diverged().was_made_alone(id);
        let is_marked = match &state {
            Some(state) => cluster.removals().is_marked(&state.meta).await,
            None => false,
        };
        let is_removed = is_of_name || is_marked;
        if is_removed {
            delete(parts, cluster, id, state.as_ref()).await?;
        }
        // The name alone does not say which session of it was removed.
        if let Some(state) = state.filter(|_| is_marked) {
            cluster.removals().note(&state.meta).await;
        }
        Ok::<_, OpError>(is_removed)
    };
    match parts.ctx.registry.while_asleep(id, removing).await {
        Some(Ok(is_gone)) => is_gone,
        Some(Err(error)) => {
            tracing::warn!(session = %id, %error, "the copy of a session that another node removed is not deleted");
            false
        }
        None => false,
    }
}

/// Tells a shared store that was emptied of removals, which it does not know any more. Returns whether it was told all of them; `None`
/// if the engine has ended.
pub(super) async fn tell_removals(parts: &Weak<Parts>) -> Option<bool> {
    let cluster = parts.upgrade()?.ctx.cluster.clone()?;
    Some(cluster.members().alone().has_given() || cluster.removals().give_again().await)
}

/// The sessions of this node, also those without a name. `None` if the engine has ended.
pub(super) fn to_look_at(parts: &Weak<Parts>) -> Option<Vec<SessionId>> {
    let parts = parts.upgrade()?;
    Some(parts.ctx.cluster.as_ref()?.removals().with_unnamed(&parts.ctx.names))
}

/// Deletes what is left here under a name that this node has claimed for a new session, and adds that session. Nobody comes
/// between the two: another creation of the name would delete what this one has added.
pub(super) async fn replace<T>(
    parts: &Parts,
    id: &SessionId,
    add: impl Fn() -> Result<T, OpError>,
) -> Result<T, OpError> {
    let Some(cluster) = &parts.ctx.cluster else { return add() };
    let replacing = async {
        // Another caller may have created it meanwhile, or be about to fork a session under this name.
        if !parts.ctx.names.contains(id) && !parts.ctx.names.is_forking(id) {
            let state = load(parts, id).await?;
            delete(parts, cluster, id, state.as_ref()).await?;
        }
        add()
    };
    match parts.ctx.registry.while_asleep(id, replacing).await {
        Some(added) => added,
        None => add(),
    }
}

/// The session that this node has under a name, if it has one.
async fn load(parts: &Parts, id: &SessionId) -> Result<Option<SessionState>, OpError> {
    in_time(id, parts.ctx.store.load(id)).await
}

/// Deletes what this node has under a name: a session, or what else is left. Nobody may wake the session meanwhile.
async fn delete(parts: &Parts, cluster: &Cluster, id: &SessionId, state: Option<&SessionState>) -> Result<(), OpError> {
    let copies = cluster.diverged().copies();
    match state {
        Some(state) => copies.remove(state).await?,
        None => copies.clear(id).await,
    }
    forget(&parts.ctx, id);
    parts.ctx.names.remove(id);
    parts.ctx.store.followers().changed(id);
    // Who took the session that is gone says nothing of the next one.
    cluster.elsewhere().forget(id).await;
    Ok(())
}

/// Keeps what this node has of a session that another node may have continued without it, as soon as that can be known.
pub(super) async fn compare(parts: Weak<Parts>, id: SessionId) {
    let mut undecided = 0;
    while undecided < UNDECIDED {
        let Some(alone) = parts.upgrade().and_then(|parts| Some(parts.ctx.cluster.as_ref()?.members().alone())) else {
            return;
        };
        alone.until_reached().await;
        let Some(parts) = parts.upgrade() else { return };
        let Some(cluster) = &parts.ctx.cluster else { return };
        let work = async { cluster.diverged().compare(&parts.stored.load(&id).await?).await };
        match parts.ctx.registry.while_asleep(&id, work).await {
            Some(Ok(Compared::Undecided)) => {
                undecided += 1;
                tokio::time::sleep(LEASE).await;
            }
            // The shared store went away meanwhile.
            Some(Err(OpError::StoreUnavailable { .. })) if cluster.members().is_away() => {}
            Some(Ok(Compared::Done)) => return compared(&parts, cluster, &id).await,
            None => return,
            // What it has may have no name any more.
            Some(Err(OpError::Session(SessionError::NotFound { .. }))) => {
                remove_if_removed(&parts, cluster, &id).await;
                return;
            }
            Some(Err(error)) => {
                return tracing::error!(session = %id, %error, "what only this node has of a session is not kept apart");
            }
        }
    }
}

/// A copy that sleeps was compared with what is shared of its session. That may have been removed, or the copy is kept under another
/// name.
async fn compared(parts: &Parts, cluster: &Cluster, id: &SessionId) {
    if parts.ctx.names.contains(id) {
        remove_if_removed(parts, cluster, id).await;
    } else {
        forget(&parts.ctx, id);
    }
}

/// Forgets what was found out about a copy that is gone. The next session of its name is perhaps another agent's.
fn forget(ctx: &SessionContext, id: &SessionId) {
    ctx.secrets.forget(id);
    ctx.thinning.forget(id);
    ctx.disk.forget(id);
}

/// Looks from time to time at the sessions that this node lost to others, as long as the engine lives.
pub(super) async fn look(parts: Weak<Parts>) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        pause = LOOK_AGAIN.min(pause * 2);
        let Some(lost) = parts.upgrade().and_then(|parts| Some(parts.ctx.cluster.as_ref()?.elsewhere().lost())) else {
            return;
        };
        for id in lost {
            let Some(parts) = parts.upgrade() else { return };
            // Its name may be gone already: who asked for the session was told that there is none.
            is_stale(&parts, &id).await;
        }
    }
}
