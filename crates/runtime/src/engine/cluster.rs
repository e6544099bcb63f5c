//! This node among others: where a session is, and which nodes there are.

use super::access::{Access, Permitted};
use super::copies;
use super::drain;
use super::node::NodeOps;
use super::parts::Parts;
use crate::actor::{Message, copy_later};
use crate::cluster::{Cluster, Elsewhere, Sought, Uncopied, Whose};
use crate::context::SessionContext;
use crate::identities::bound;
use crate::ops::{BoxFuture, ClusterError, NodeEntry, OpError, Reaches, SessionError, Whereabouts};
use crate::services::ServiceStop;
use crate::tasks;
use shellkeep_session::ownership::{Head, Meeting, meet};
use shellkeep_session::{SessionId, SessionState};
use shellkeep_shared::{Alone, ForkNote, Moved};
use shellkeep_store::deleted;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long services have to end by themselves when their session is another node's: it may already start them anew.
const MOVED_GRACE: Duration = Duration::from_millis(500);

/// After how long the shared store is asked again for a session that it gave no answer for, or is given one again that it could
/// not be given.
const GIVE_PAUSE: Duration = Duration::from_secs(1);

/// Operations on the cluster.
pub struct ClusterOps<'a> {
    access: &'a Access,
    cluster: &'a Cluster,
}

impl<'a> NodeOps<'a> {
    /// Operations on the cluster, if this node is part of one.
    pub fn cluster(&self) -> Option<ClusterOps<'a>> {
        let access = self.access;
        let cluster = access.at_large().ctx.cluster.as_deref()?;
        Some(ClusterOps { access, cluster })
    }
}

/// Where a session is, by what this node knows.
struct Located {
    whereabouts: Whereabouts,
    /// Why it may be elsewhere: this node does not know it, and another cannot be asked.
    unsure: Option<OpError>,
}

impl Located {
    fn surely(whereabouts: Whereabouts) -> Self {
        Self { whereabouts, unsure: None }
    }
}

impl ClusterOps<'_> {
    /// Where a session is. This node takes over one that has no node. An error if this node does not know the session
    /// and cannot know whether another has it.
    pub fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Whereabouts, OpError>> {
        Box::pin(async move {
            let Located { whereabouts, unsure } = self.seek(id).await?;
            unsure.map_or(Ok(whereabouts), Err)
        })
    }

    /// The same for a session that is created if there is none.
    pub fn locate_or_place<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<Whereabouts, OpError>> {
        Box::pin(async move { Ok(self.seek(id).await?.whereabouts) })
    }

    async fn seek(&self, id: &SessionId) -> Result<Located, OpError> {
        if self.has_open(id) && self.cluster.members().served_by()?.is_none() {
            return Ok(Located::surely(Whereabouts::Here));
        }
        let bound = self.access.scope().agent().and_then(|agent| bound(agent, id));
        let (mut why, mut is_sure) = (None, false);
        for id in std::iter::once(id).chain(&bound) {
            let Sought { whereabouts, must_take, unsure } = self.cluster.locate(id).await?;
            if must_take {
                let registry = &self.access.at_large().ctx.registry;
                let taken = match registry.ask(id, Message::View).await {
                    // This node had known it as another agent's.
                    Err(OpError::Cluster(ClusterError::Moved { .. })) => registry.ask(id, Message::View).await,
                    taken => taken,
                };
                if let Err(error) = taken {
                    return self.after_another(id, error).await;
                }
            }
            if let Whereabouts::There(_) = whereabouts {
                return Ok(Located::surely(whereabouts));
            }
            // Of the two names that an agent's session may have, one is not known.
            is_sure |= unsure.is_none();
            why = unsure.or(why);
        }
        Ok(Located { whereabouts: Whereabouts::Here, unsure: why.filter(|_| !is_sure) })
    }

    /// Where a session is that this node could not take: another may have been faster.
    async fn after_another(&self, id: &SessionId, error: OpError) -> Result<Located, OpError> {
        if let OpError::Cluster(ClusterError::OwnerUnreachable { .. }) = &error
            && let Sought { whereabouts: there @ Whereabouts::There(_), .. } = self.cluster.locate(id).await?
        {
            return Ok(Located::surely(there));
        }
        Err(error)
    }

    /// Whether this node works with the session that the caller means. Another's session that has the short name of an
    /// agent's does not count.
    fn has_open(&self, id: &SessionId) -> bool {
        self.access.over(id).is_ok_and(|Permitted { id, .. }| self.cluster.members().works_with(&id))
    }

    /// Whether this node works with a session.
    pub fn works_with(&self, id: &SessionId) -> bool {
        let bound = self.access.scope().agent().and_then(|agent| bound(agent, id));
        std::iter::once(id).chain(&bound).any(|id| self.cluster.members().works_with(id))
    }

    /// Whether a name is that of a deleted session of which this node keeps nothing, and the caller may read what is kept.
    pub fn lacks_deleted(&self, id: &SessionId) -> bool {
        let is_here = || self.access.deleted_session(id).is_some() || self.access.over(id).is_ok();
        deleted::is_name(id) && self.access.as_reader().is_ok() && !is_here()
    }

    /// Whether a node still has a session. While the shared store is unreachable, nothing says otherwise. `None` if the shared
    /// store does not know the session: it lost it, and the node gives it again if it lives.
    pub fn is_with<'a>(&'a self, id: &'a SessionId, node: &'a str) -> BoxFuture<'a, Option<bool>> {
        Box::pin(async move {
            let bound = self.access.scope().agent().and_then(|agent| bound(agent, id));
            let mut known = None;
            for id in std::iter::once(id).chain(&bound) {
                // Of the two names that an agent's session may have, one is not known.
                known = known.max(self.cluster.is_with(id, node).await);
            }
            known
        })
    }

    /// Returns when the shared store is unreachable.
    pub fn until_away(&self) -> BoxFuture<'static, ()> {
        let alone = self.cluster.members().alone();
        Box::pin(async move { alone.until_away().await })
    }

    /// The other nodes while the shared store is unreachable.
    pub fn neighbours(&self) -> Vec<NodeEntry> {
        self.cluster.members().neighbours()
    }

    /// The other nodes that are alive and can be asked.
    pub fn others(&self) -> BoxFuture<'_, Result<Vec<NodeEntry>, OpError>> {
        Box::pin(self.cluster.members().others())
    }

    /// What another node, asked at `asked`, said about the shared store.
    pub fn heard(&self, node: &str, asked: Instant, reaches: Reaches) {
        let alone = self.cluster.members().alone();
        match reaches {
            Reaches::Store => alone.reached_by(node),
            Reaches::Nothing => alone.promised(node, asked),
        }
    }

    /// Where a session is to be created.
    pub fn place(&self) -> BoxFuture<'_, Result<Whereabouts, OpError>> {
        Box::pin(self.cluster.members().place())
    }

    /// This node.
    pub fn own(&self) -> NodeEntry {
        self.cluster.members().own()
    }

    /// A node by its name. The host's right.
    pub fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<NodeEntry, OpError>> {
        Box::pin(async move {
            self.access.as_reader()?;
            self.cluster.members().node(name).await
        })
    }

    /// A node that a caller's own request leads to; `None` if it is not alive.
    pub fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<NodeEntry>, OpError>> {
        Box::pin(async move {
            match self.cluster.members().node(name).await {
                Ok(node) => Ok(Some(node)),
                Err(OpError::Cluster(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Whether a node is alive, as far as is known.
    pub fn is_alive<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { !matches!(self.find(name).await, Ok(None)) })
    }

    /// Drains this node: it takes no more sessions, stops its services, and lets go of each session when its commands have
    /// ended. Waits for that, at most for `wait`. Host only.
    pub fn drain(&self, wait: Duration) -> BoxFuture<'_, Result<NodeEntry, OpError>> {
        Box::pin(async move {
            let parts = self.access.as_host()?;
            let drain = self.cluster.members().drain();
            if drain.begin(parts.ctx.services.sessions()) {
                self.access.audit("drain_node", &self.cluster.members().own().name);
                tasks::spawn(drain::release(Arc::clone(parts), self.cluster.members().drain()));
            }
            let _ = tokio::time::timeout(wait, drain.until_over()).await;
            Ok(self.cluster.members().own())
        })
    }

    /// Whether this node takes no more sessions.
    pub fn is_draining(&self) -> bool {
        self.cluster.members().is_draining()
    }

    /// Waits until this node, which is drained, has let go of a session, for `wait` at most and while the shared store answers.
    /// Returns whether it has.
    pub fn until_left<'a>(&'a self, id: &'a SessionId, wait: Duration) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let bound = self.access.scope().agent().and_then(|agent| bound(agent, id));
            let drain = self.cluster.members().drain();
            let ids: Vec<_> = std::iter::once(id).chain(&bound).collect();
            tokio::time::timeout(wait, drain.until_left(&ids)).await == Ok(true)
        })
    }

    /// The nodes that are alive. The host's right.
    pub fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeEntry>, OpError>> {
        Box::pin(async move {
            self.access.as_reader()?;
            self.cluster.members().nodes().await
        })
    }
}

/// What a node does from its start on because there are others.
pub(super) fn begin(parts: &Arc<Parts>, cluster: &Cluster, moved: mpsc::UnboundedReceiver<Moved>) {
    tasks::spawn(follow(Arc::downgrade(parts), moved));
    tasks::spawn(guard(cluster.members().alone(), Arc::clone(cluster.elsewhere())));
    tasks::spawn(look_around(Arc::downgrade(parts), cluster.members().alone()));
    tasks::spawn(copies::look(Arc::downgrade(parts)));
    if let Some(files) = cluster.files() {
        tasks::spawn(copy_noted(Arc::downgrade(&parts.ctx), Arc::clone(files.uncopied())));
        files.go_on();
    }
}

/// Copies keyed stores for other nodes that are noted: those that an earlier process could not copy, and those of sessions that
/// keep what only this node has.
async fn copy_noted(ctx: Weak<SessionContext>, uncopied: Arc<Uncopied>) {
    loop {
        let noted = uncopied.noted().unwrap_or_else(|error| {
            tracing::warn!(%error, "which keyed stores are not copied for other nodes cannot be read");
            Vec::new()
        });
        for id in noted {
            let Some(ctx) = ctx.upgrade() else { return };
            // For one that was noted earlier a task waits already.
            copy_later(&ctx, &id).await;
        }
        uncopied.until_noted().await;
    }
}

/// Ends this node's sessions when it is cut off from the shared store and other nodes may take them.
async fn guard(alone: Alone, elsewhere: Arc<Elsewhere>) {
    loop {
        alone.until_away().await;
        match alone.stops_at() {
            // There is no other node.
            None => alone.until_reached().await,
            Some(_) if alone.stop_if_over() => {
                elsewhere.tell();
                alone.until_reached().await;
            }
            // Others may extend the deadline meanwhile.
            Some(at) => tokio::time::sleep_until(at.into()).await,
        }
    }
}

/// Does what the shared store asks for, as long as the engine lives.
async fn follow(parts: Weak<Parts>, mut news: mpsc::UnboundedReceiver<Moved>) {
    while let Some(moved) = news.recv().await {
        let Some(parts) = parts.upgrade() else { return };
        match moved {
            Moved::Away(id, owner) => {
                tasks::spawn(async move {
                    if let (Some(cluster), Some(owner)) = (&parts.ctx.cluster, owner) {
                        cluster.elsewhere().note(&id, &owner).await;
                    }
                    let_go(parts, id).await;
                });
            }
            Moved::Reclaim(id) => {
                tasks::spawn(reclaim(Arc::downgrade(&parts), id));
            }
            Moved::Forked(id, forks) => {
                tasks::spawn(record_forks(parts, id, forks));
            }
        }
    }
}

/// Another node owns the session: nothing of it may run here.
async fn let_go(parts: Arc<Parts>, id: SessionId) {
    tracing::warn!(session = %id, "another node owns this session; what it ran here is ended");
    leave(parts, id).await;
}

/// Ends what a session runs here, and keeps what only this node has of it.
async fn leave(parts: Arc<Parts>, id: SessionId) {
    parts.ctx.registry.tell_awake(&id, Message::Moved).await;
    parts.ctx.services.stop(MOVED_GRACE, ServiceStop::SessionEnded, |seen| seen.session_id == id).await;
    let weak = Arc::downgrade(&parts);
    drop(parts);
    copies::compare(weak, id).await;
}

/// Other nodes wrote what is not part of a session: its history says so.
async fn record_forks(parts: Arc<Parts>, id: SessionId, forks: Vec<ForkNote>) {
    let Some(cluster) = &parts.ctx.cluster else { return };
    // One that sleeps records it when it wakes.
    let recording = parts.ctx.registry.ask_awake(&id, |answer| Message::Forked { forks, answer });
    if let Some(Ok(forks)) = recording.await {
        cluster.diverged().recorded(&id, forks).await;
    }
}

/// Looks for sessions of this node that other nodes took, whenever they may have: after a start, when the shared store
/// was connected anew and may have lost what it confirmed or was emptied, and when this node renewed its leases too
/// late. They are ended here, and what only this node has of them is kept apart. Those that the shared store has lost
/// are given again.
async fn look_around(parts: Weak<Parts>, alone: Alone) {
    let mut doubts = alone.doubts();
    while doubts.wait_for(|doubts| *doubts > 0).await.is_ok() {
        let (gaps, incarnation) = (alone.gaps(), alone.incarnation());
        // What this node gives is compared with what was removed.
        let Some(mut has_told) = copies::tell_removals(&parts).await else { return };
        let Some(ids) = copies::to_look_at(&parts) else { return };
        let Some(mut left) = look_at(&parts, ids).await else { return };
        alone.looked(gaps);
        // With a new doubt, all are looked at again.
        while !(has_told && left.is_empty()) && doubts.has_changed().is_ok_and(|has_changed| !has_changed) {
            alone.until_reached().await;
            tokio::time::sleep(GIVE_PAUSE).await;
            if !has_told {
                let Some(has_now) = copies::tell_removals(&parts).await else { return };
                has_told = has_now;
            }
            let Some(still_left) = look_at(&parts, left).await else { return };
            left = still_left;
        }
        if has_told && left.is_empty() {
            incarnation.iter().for_each(|incarnation| alone.gave(incarnation));
        }
        if doubts.changed().await.is_err() {
            return;
        }
    }
}

/// The shared store does not know a session, or lacks its last records: if it was this node's, it lost them. Waking the
/// session gives it again.
/// Returns whether nothing is left to do: the shared store has it, or it is not this node's to give.
async fn give_again(parts: Arc<Parts>, id: &SessionId) -> bool {
    let Some(cluster) = &parts.ctx.cluster else { return true };
    match give(&parts, cluster, id).await {
        Given::Done => true,
        Given::NotYet => false,
        Given::NotOurs => {
            copies::remove_if_removed(&parts, cluster, id).await;
            true
        }
    }
}

/// What became of a session that was to be given to the shared store again.
enum Given {
    /// The shared store has it, or it is damaged here.
    Done,
    /// It is tried again.
    NotYet,
    /// It is not this node's to give: it may have been removed, and have no name here any more.
    NotOurs,
}

async fn give(parts: &Arc<Parts>, cluster: &Cluster, id: &SessionId) -> Given {
    let is_gone = |error: &OpError| matches!(error, OpError::Session(SessionError::NotFound { .. }));
    let state = match parts.stored.load_patiently(id).await {
        Ok(state) => state,
        Err(OpError::StoreUnavailable { .. }) => return Given::NotYet,
        Err(error) if is_gone(&error) => return Given::NotOurs,
        Err(_) => return Given::Done,
    };
    if !cluster.diverged().was_own(&state) {
        return Given::NotOurs;
    }
    if cluster.members().works_with(id) {
        reclaim(Arc::downgrade(parts), id.clone()).await;
    } else if let Err(error) = parts.ctx.registry.ask(id, Message::View).await {
        tracing::debug!(session = %id, %error, "not given to the shared store yet");
        return if is_gone(&error) { Given::NotOurs } else { Given::NotYet };
    }
    let settled = cluster.settle(id, state.seq).await;
    match settled {
        Ok(None) | Err(OpError::Cluster(ClusterError::Moved { .. })) => Given::Done,
        _ => Given::NotYet,
    }
}

/// Whether the shared store lacks records of a session that sleeps here, because it fell back to an older copy of itself. One that
/// is awake finds out with its next renewal.
async fn is_behind(parts: &Parts, cluster: &Cluster, id: &SessionId, head: &Head) -> bool {
    // Of nearly all sessions it has the last number, and their states would be much to read after each reconnect.
    if cluster.members().works_with(id) || parts.stored.last_seq(id).await.is_ok_and(|seq| seq <= head.last.seq) {
        return false;
    }
    match parts.stored.load_patiently(id).await {
        Ok(state) => matches!(meet(&state.claims, state.seq, head), Meeting::TierLacks { .. }),
        // It is looked at again.
        Err(error) => matches!(error, OpError::StoreUnavailable { .. }),
    }
}

/// Looks at sessions of this node. Returns those that could not be given again; `None` if the engine has ended, or is about to.
async fn look_at(parts: &Weak<Parts>, ids: Vec<SessionId>) -> Option<Vec<SessionId>> {
    let mut left = Vec::new();
    for id in ids {
        loop {
            let strong = parts.upgrade()?;
            let cluster = strong.ctx.cluster.clone()?;
            match cluster.diverged().whose(&id).await {
                Ok(Whose::Anothers(_)) => break leave(strong, id).await,
                Ok(Whose::Own(head)) if !is_behind(&strong, &cluster, &id, &head).await => break,
                Ok(Whose::Own(_) | Whose::Nobodys) => {
                    let is_given = give_again(strong, &id).await;
                    break left.extend((!is_given).then_some(id));
                }
                Err(_) => {
                    let alone = cluster.members().alone();
                    drop((strong, cluster));
                    if !may_answer(&alone).await {
                        return None;
                    }
                }
            }
        }
    }
    Some(left)
}

/// Returns when the shared store may answer what it did not. Not if the node is stopping.
async fn may_answer(alone: &Alone) -> bool {
    if alone.is_closing() {
        return false;
    }
    // One that answers with an error is not away.
    tokio::time::sleep(GIVE_PAUSE).await;
    alone.until_reached().await;
    true
}

/// The shared store lost the session, or never had it. One that is being deleted is not given again.
async fn reclaim(parts: Weak<Parts>, id: SessionId) {
    let Some((parts, state)) = when_read(&parts, &id).await else { return };
    let Some(cluster) = &parts.ctx.cluster else { return };
    if cluster.removals().is_waiting(&id) {
        return;
    }
    if !cluster.reclaim(&state).await {
        return let_go(Arc::clone(&parts), id).await;
    }
    parts.ctx.registry.left_asleep(&id, None).await;
}

/// A session as this node's store has it: its task may be waiting for the shared store itself, and would answer only afterwards.
/// Waits while the store does not answer, because nothing asks for this again. `None` if it has no such session, or the node is
/// stopping.
async fn when_read(parts: &Weak<Parts>, id: &SessionId) -> Option<(Arc<Parts>, SessionState)> {
    loop {
        let parts = parts.upgrade()?;
        match parts.stored.load_patiently(id).await {
            Ok(state) => return Some((parts, state)),
            Err(OpError::StoreUnavailable { .. }) if !parts.ctx.lifetime.is_stopping() => {}
            Err(_) => return None,
        }
        tracing::warn!(session = %id, "a session waits to be given to the shared store again: it cannot be read here");
        drop(parts);
        tokio::time::sleep(GIVE_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RunReply;
    use crate::cluster::in_memory;
    use crate::engine::{Engine, EngineConfig};
    use crate::ops::{CreateSession, RunCommand};
    use shellkeep_shared::Closing;
    use shellkeep_shared::memory::MemoryTier;
    use shellkeep_store::{Durability, Store};
    use std::path::PathBuf;
    use tokio::time::timeout;

    fn has_moved<T>(answer: Result<T, OpError>) -> bool {
        matches!(answer, Err(OpError::Cluster(ClusterError::Moved { .. })))
    }

    /// The bug: a request that came while the session's task ended its command was refused with `session_not_found`. An MCP
    /// client then created the session anew.
    #[tokio::test]
    async fn who_asks_a_session_that_moves_meanwhile_is_told_that_it_moved() {
        let directory = tempfile::tempdir().unwrap();
        let bash = PathBuf::from(std::env::var_os("SHELLKEEP_BASH").unwrap_or_else(|| "/bin/bash".into()));
        let store = Store::open("memory://", directory.path(), Durability::Process).unwrap();
        let config = EngineConfig { spare_shells: 0, ..EngineConfig::new(directory.path().to_owned(), bash) };
        let engine = Engine::start(config, store).await.unwrap();
        let id = SessionId::parse("s").unwrap();
        let request = CreateSession { session_id: Some(id.clone()), ..CreateSession::default() };
        engine.create(request).await.unwrap();
        // With its shell it stays awake.
        engine.run(&id, RunCommand::new("true")).await.unwrap();
        let registry = &engine.access.at_large().ctx.registry;
        // All of these are in the mailbox before its task runs: the test has one thread.
        registry.tell_awake(&id, Message::Moved).await;
        let view = registry.ask(&id, Message::View);
        let run = registry.ask(&id, |answer| Message::Run {
            command: Box::new(RunCommand::new("echo late")),
            share: None,
            reply: RunReply::AtEnd(answer),
        });
        let (view, run) = tokio::join!(view, run);
        assert!(has_moved(view) && has_moved(run));
        engine.shutdown().await;
    }

    /// The bug: a store that answered with an error was asked again at once, and so was that of a node that was stopping.
    #[tokio::test]
    async fn a_store_that_gave_no_answer_is_asked_again_after_a_pause() {
        let ship = in_memory::ship(&MemoryTier::default());
        let alone = ship.alone();
        assert!(timeout(GIVE_PAUSE / 2, may_answer(&alone)).await.is_err(), "it pauses");
        ship.close(Closing::Stop);
        assert!(!may_answer(&alone).await);
    }
}
