//! Lists sessions, a page at a time: all of them from the store, and those that have a shell or run something from memory.

use super::handle::Engine;
use super::parts::Parts;
use crate::cluster::Cluster;
use crate::ops::*;
use shellkeep_session::{SessionId, StoredRun};
use shellkeep_store::{Candidate, Find, ReadError, SessionFilter, SessionOrder, SessionSummary, last_runs};
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering;

/// Most sessions on one page.
pub const MAX_PAGE: usize = 1000;

/// Sessions whose last commands are read with one request to the store.
const AT_ONCE: usize = 256;

impl Engine {
    /// Sessions, a page at a time. An agent sees its own.
    pub fn list<'a>(&'a self, query: &'a SessionQuery) -> BoxFuture<'a, Result<SessionPage, OpError>> {
        Box::pin(async move {
            let (scope, parts) = (self.access.scope(), self.access.at_large());
            if let Some(own) = scope.only_session() {
                let is_listed = !query.running || in_use(parts, query).contains(own);
                let own = is_listed.then(|| own.clone()).into_iter().collect();
                return few(self, own, query.agent.as_deref(), query).await;
            }
            let agent = match (scope.agent(), query.agent.as_deref()) {
                (Some(own), Some(asked)) if own != asked => return Ok(SessionPage::default()),
                (own, asked) => own.or(asked),
            };
            if query.live || query.running {
                return few(self, in_use(parts, query), agent, query).await;
            }
            stored(parts, agent, query).await
        })
    }
}

/// A page from the store.
async fn stored(parts: &Parts, agent: Option<&str>, query: &SessionQuery) -> Result<SessionPage, OpError> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let is_plain = query.filter.is_empty() && query.order == SessionOrder::Id;
    let (mut found, next) = match agent.filter(|_| is_plain) {
        // Only this agent's records need to be in the store for it.
        Some(agent) => {
            let after = query.after.as_ref().map(|after| &after.session_id);
            let own = parts.ctx.names.of_agent(agent);
            let mut listed = parts.ctx.store.list_of(agent, own, after, limit + 1).await.map_err(unavailable)?;
            let has_more = listed.len() > limit;
            listed.truncate(limit);
            let next = listed.last().filter(|_| has_more).map(|last| last.meta.session_id.clone().into());
            (listed, next)
        }
        None => {
            let (agent, after) = (agent.map(str::to_owned), query.after.clone());
            let find = Find { agent, filter: query.filter.clone(), order: query.order, after, limit };
            let found = find.search(&parts.ctx.store).await.map_err(unavailable)?;
            (found.sessions, found.next)
        }
    };
    // A session that was just deleted may still be in the store briefly.
    if agent.is_some() {
        found.retain(|summary| parts.ctx.names.contains(&summary.meta.session_id));
    }
    if let Some(cluster) = &parts.ctx.cluster {
        // This node may have a copy of one that another node removed.
        let ids = found.iter().map(|summary| summary.meta.session_id.clone()).collect();
        let removed = cluster.removals().removed(ids).await;
        found.retain(|summary| !removed.contains(&summary.meta.session_id));
        let gone = lost(cluster, query.order, &found).await;
        found.retain(|summary| !gone.contains(&summary.meta.session_id));
    }
    Ok(SessionPage { sessions: found.into_iter().map(|summary| view(parts, summary)).collect(), next })
}

/// Those of which this node has a copy and another node lists the session. By activity, a copy has another place than the session,
/// so that it is left out also if its owner cannot list it.
async fn lost(cluster: &Cluster, order: SessionOrder, found: &[SessionSummary]) -> HashSet<SessionId> {
    let owner = |summary: &SessionSummary| {
        Some((summary.meta.session_id.clone(), cluster.elsewhere().owner(&summary.meta.session_id)?.node))
    };
    let lost: Vec<(SessionId, String)> = found.iter().filter_map(owner).collect();
    let is_by_activity = order == SessionOrder::Active;
    let alive = if lost.is_empty() || is_by_activity {
        Vec::new()
    } else {
        cluster.members().others().await.unwrap_or_default()
    };
    let is_listed = |node: &str| is_by_activity || alive.iter().any(|other| other.name == node);
    lost.into_iter().filter(|(_, node)| is_listed(node)).map(|(id, _)| id).collect()
}

/// A page of these few sessions.
async fn few(
    engine: &Engine,
    ids: BTreeSet<SessionId>,
    agent: Option<&str>,
    query: &SessionQuery,
) -> Result<SessionPage, OpError> {
    let parts = engine.access.at_large();
    let mut sessions = Vec::new();
    for id in ids {
        // Another's, which may be stored under what the caller calls one of its own.
        if engine.access.over_stored(&id).is_err() {
            continue;
        }
        // One that is gone by now is not listed.
        let Ok(view) = engine.get(&id).await else { continue };
        let of_agent = agent.is_none_or(|agent| view.meta.agent.as_deref() == Some(agent));
        if of_agent && (view.live || !query.live) {
            sessions.push(view);
        }
    }
    if !query.filter.is_empty() {
        sessions = kept(parts, sessions, &query.filter).await?;
    }
    if query.order == SessionOrder::Active {
        // Those of the same time stay ordered by id.
        sessions.sort_by_key(|view| std::cmp::Reverse(view.last_active_at));
    }
    Ok(page(sessions, query))
}

/// Those that a filter keeps.
async fn kept(parts: &Parts, sessions: Vec<SessionView>, filter: &SessionFilter) -> Result<Vec<SessionView>, OpError> {
    let mut last = Vec::with_capacity(sessions.len());
    for some in sessions.chunks(AT_ONCE) {
        let ids = some.iter().map(|view| view.meta.session_id.clone()).collect();
        last.extend(last_runs(&parts.ctx.store, ids).await.map_err(unavailable)?);
    }
    let keeps = |view: &SessionView, last: Option<&StoredRun>| {
        let SessionView { meta, cwd, .. } = view;
        filter.keeps(&Candidate::new(&meta.session_id, meta.agent.as_deref(), cwd, last))
    };
    let kept = sessions.into_iter().zip(last).filter(|(view, last)| keeps(view, last.as_ref()));
    Ok(kept.map(|(view, _)| view).collect())
}

fn unavailable(error: ReadError) -> OpError {
    OpError::StoreUnavailable { reason: error.to_string() }
}

/// The sessions that have a shell, or in which a command runs.
fn in_use(parts: &Parts, query: &SessionQuery) -> BTreeSet<SessionId> {
    if query.running {
        return parts.ctx.runs.longest(usize::MAX).into_iter().map(|(id, _)| id).collect();
    }
    let mut live = BTreeSet::new();
    parts.ctx.registry.for_each(|id, slot| {
        if slot.pid.load(Ordering::Relaxed) != 0 {
            live.insert(id.clone());
        }
    });
    live
}

/// The page of a list that begins after the query's session.
fn page(mut sessions: Vec<SessionView>, query: &SessionQuery) -> SessionPage {
    let place = |view: &SessionView| query.order.place(&view.meta.session_id, view.last_active_at);
    if let Some(after) = &query.after {
        let start = match (query.order, after.last_active_at) {
            (SessionOrder::Active, None) => {
                sessions.iter().position(|view| view.meta.session_id == after.session_id).map_or(0, |at| at + 1)
            }
            (SessionOrder::Active, Some(_)) => sessions.partition_point(|view| place(view).order() <= after.order()),
            (SessionOrder::Id, _) => sessions.partition_point(|view| view.meta.session_id <= after.session_id),
        };
        sessions.drain(..start);
    }
    let limit = query.limit.clamp(1, MAX_PAGE);
    let has_more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| has_more).map(place);
    SessionPage { sessions, next }
}

/// A session as the list of the store has it, with its shell.
fn view(parts: &Parts, summary: SessionSummary) -> SessionView {
    let slot = parts.ctx.registry.slot(&summary.meta.session_id);
    let least = parts.ctx.sandboxes.least_of(summary.meta.agent.as_deref());
    let shell_pid = slot.map(|slot| slot.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0);
    SessionView {
        meta: summary.meta,
        last_active_at: summary.last_active_at,
        cwd: summary.cwd,
        live: shell_pid.is_some(),
        shell_pid,
        generation: summary.generation,
        seq: summary.seq,
        deleted: None,
        hold: HeldBy::of(summary.hold.as_deref()),
        sandbox: Some(least.max(summary.sandbox)),
    }
}
