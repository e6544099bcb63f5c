//! Lists of runs: of one session, and of all. No session is woken, and what is not listed is not read: the store finds
//! the newest runs of all sessions by an index, and the runs that have not ended are in memory.

use super::access::{Access, Permitted};
use super::parts::Parts;
use super::past::Past;
use super::run_summary::{has_failed, summary};
use crate::ops::*;
use crate::stored::read_error;
use shellkeep_session::{RunKey, SessionId, StoredRun};
use shellkeep_store::{AllRuns, ReadError};
use std::collections::BTreeSet;

/// Most runs that are read for one page. With a filter, a page may have none of them.
const MAX_READ: usize = 1000;
/// Runs of one session that are read at a time while a filter selects some of them.
const STEP: usize = 200;
/// Runs of all sessions asked for at a time.
const KEYS: usize = 1000;
/// Most runs of all sessions that are looked at for one page. Of an agent, it may have none of them.
const MAX_KEYS: usize = 10_000;

/// Lists of runs.
pub struct RunListOps<'a> {
    pub(super) access: &'a Access,
}

impl RunListOps<'_> {
    /// The runs of a session, newest first. A place in the list is the number of the record that started a run.
    pub fn of<'a>(&'a self, id: &'a SessionId, query: ListRuns<u64>) -> BoxFuture<'a, Result<RunPage<u64>, OpError>> {
        Box::pin(async move {
            let Ok(Permitted { parts, id }) = self.access.over(id) else {
                return Past::of(self.access, id).await?.runs(query).await;
            };
            if query.filter == RunFilter::Running {
                let is_before = |seq| query.before.is_none_or(|before| seq < before);
                let mut keys = parts.ctx.runs.keys(|session, seq| session == &*id && is_before(seq));
                keys.sort_unstable_by(|one, other| other.cmp(one));
                let page = running(parts, keys, query.limit).await?;
                return Ok(RunPage { runs: page.runs, next: page.next.map(|key| key.seq), origin: Origin::Node });
            }
            let mut page = Gathered::new(query);
            loop {
                // One more than there is room for shows whether there is another page.
                let count = if page.filter == RunFilter::All { page.limit + 1 } else { STEP };
                let found = parts.stored.runs(&id, page.last.unwrap_or(u64::MAX), count).await?;
                let is_end = found.len() < count;
                for run in found {
                    if page.is_full() {
                        return Ok(page.with_next());
                    }
                    page.add(run.seq, &id, run, parts);
                }
                if is_end {
                    return Ok(page.complete());
                }
            }
        })
    }

    /// The runs of all sessions that the caller may see, newest first.
    pub fn of_all<'a>(&'a self, query: ListRuns<RunKey>) -> BoxFuture<'a, Result<RunPage<RunKey>, OpError>> {
        Box::pin(async move {
            let page = self.page_of_all(query).await?;
            Ok(RunPage { runs: self.without_removed(page.runs).await, ..page })
        })
    }

    /// Those whose sessions no other node has removed: this node may have copies of them.
    async fn without_removed(&self, mut runs: Vec<RunSummary>) -> Vec<RunSummary> {
        if let Some(cluster) = &self.access.at_large().ctx.cluster {
            let sessions: BTreeSet<SessionId> = runs.iter().map(|run| run.session_id.clone()).collect();
            let removed = cluster.removals().removed(sessions.into_iter().collect()).await;
            runs.retain(|run| !removed.contains(&run.session_id));
        }
        runs
    }

    async fn page_of_all(&self, query: ListRuns<RunKey>) -> Result<RunPage<RunKey>, OpError> {
        let parts = self.access.at_large();
        if query.filter == RunFilter::Running {
            let mut keys = parts.ctx.runs.keys(|session, _| self.access.over_stored(session).is_ok());
            keys.retain(|key| query.before.as_ref().is_none_or(|before| key < before));
            keys.sort_unstable_by(|one, other| other.cmp(one));
            return running(parts, keys, query.limit).await;
        }
        let mut page = Gathered::new(query);
        let mut about = self.own_sessions();
        for _ in 0..MAX_KEYS / KEYS {
            let found = AllRuns::of(&parts.ctx.store).keys(about, page.last.clone(), KEYS).await;
            let keys = found.map_err(|error| OpError::StoreUnavailable { reason: error.to_string() })?;
            if keys.is_empty() {
                return Ok(page.complete());
            }
            // It need not wait again.
            about = Some(Vec::new());
            for key in keys {
                if page.is_full() {
                    return Ok(page.with_next());
                }
                // Those of others count as seen, so that the next page does not begin with them again.
                let is_own = self.access.over_stored(&key.session_id).is_ok();
                let run = if is_own { stored(parts, &key).await? } else { None };
                match run {
                    Some(run) => page.add(key.clone(), &key.session_id, run, parts),
                    None => page.last = Some(key),
                }
            }
        }
        Ok(page.with_next())
    }

    /// The sessions whose records must be in the store before a list of all runs; `None` means all. An agent does not wait
    /// for those of others.
    fn own_sessions(&self) -> Option<Vec<SessionId>> {
        match (self.access.scope().agent(), self.access.scope().only_session()) {
            (Some(agent), _) => Some(self.access.at_large().ctx.names.of_agent(agent)),
            (None, own) => own.map(|id| vec![id.clone()]),
        }
    }
}

/// A page that is being filled.
struct Gathered<K> {
    limit: usize,
    filter: RunFilter,
    runs: Vec<RunSummary>,
    /// The run that was looked at last.
    last: Option<K>,
    /// How many runs were read.
    read: usize,
}

impl<K> Gathered<K> {
    fn new(query: ListRuns<K>) -> Self {
        let ListRuns { before, limit, filter } = query;
        Self { limit: limit.clamp(1, MAX_RUN_PAGE), filter, runs: Vec::new(), last: before, read: 0 }
    }

    fn is_full(&self) -> bool {
        self.runs.len() >= self.limit || self.read >= MAX_READ.max(self.limit)
    }

    fn add(&mut self, key: K, id: &SessionId, run: StoredRun, parts: &Parts) {
        (self.last, self.read) = (Some(key), self.read + 1);
        if self.filter == RunFilter::All || has_failed(&run) {
            let cell = parts.ctx.runs.get(id, &run.run_id);
            self.runs.push(summary(id, run, cell.as_deref()));
        }
    }

    /// There are more runs.
    fn with_next(self) -> RunPage<K> {
        RunPage { runs: self.runs, next: self.last, origin: Origin::Node }
    }

    /// There are no more runs.
    fn complete(self) -> RunPage<K> {
        RunPage { runs: self.runs, next: None, origin: Origin::Node }
    }
}

/// A page of runs that have not ended.
async fn running(parts: &Parts, keys: Vec<RunKey>, limit: usize) -> Result<RunPage<RunKey>, OpError> {
    let limit = limit.clamp(1, MAX_RUN_PAGE);
    let next = if keys.len() > limit { keys.get(limit - 1).cloned() } else { None };
    let mut runs = Vec::new();
    for key in keys.into_iter().take(limit) {
        if let Some(run) = stored(parts, &key).await?.filter(|run| run.result.is_none()) {
            let cell = parts.ctx.runs.get(&key.session_id, &run.run_id);
            runs.push(summary(&key.session_id, run, cell.as_deref()));
        }
    }
    Ok(RunPage { runs, next, origin: Origin::Node })
}

/// A run of any session. `None` if its session was just deleted or is damaged: a list has the others.
async fn stored(parts: &Parts, key: &RunKey) -> Result<Option<StoredRun>, OpError> {
    let found = parts.ctx.store.runs(&key.session_id, key.seq.saturating_add(1), 1).await;
    match found {
        Ok(runs) => Ok(runs.into_iter().next().filter(|run| run.seq == key.seq)),
        Err(ReadError::Damaged { .. }) => Ok(None),
        Err(error) => Err(read_error(&key.session_id, error)),
    }
}
