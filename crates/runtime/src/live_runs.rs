//! The runs of all sessions that have not ended, so that watchers find them.

use crate::cell::{RunCell, RunControl};
use crate::sync::lock;
use crate::tasks;
use shellkeep_session::{RunId, RunKey, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc::error::TrySendError;

type Cells = HashMap<(SessionId, RunId), Arc<RunCell>>;

/// The runs that have not ended.
#[derive(Default)]
pub(crate) struct LiveRuns {
    cells: Mutex<Cells>,
}

impl LiveRuns {
    fn cells(&self) -> MutexGuard<'_, Cells> {
        lock(&self.cells)
    }

    /// One run.
    pub(crate) fn get(&self, id: &SessionId, run_id: &RunId) -> Option<Arc<RunCell>> {
        self.cells().get(&(id.clone(), run_id.clone())).cloned()
    }

    /// A run has started.
    pub(crate) fn insert(&self, id: &SessionId, run_id: RunId, cell: Arc<RunCell>) {
        self.cells().insert((id.clone(), run_id), cell);
    }

    /// A run has ended.
    pub(crate) fn remove(&self, id: &SessionId, run_id: RunId) {
        self.cells().remove(&(id.clone(), run_id));
    }

    /// Forgets the commands in the background of a deleted session: their end will not be reported.
    pub(crate) fn forget_detached(&self, id: &SessionId) {
        self.cells().retain(|(session, _), cell| session != id || !cell.is_detached());
    }

    /// Commands in the background that run, of the sessions that `wanted` selects.
    pub(crate) fn detached(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<(SessionId, Arc<RunCell>)> {
        self.cells()
            .iter()
            .filter(|((id, _), cell)| cell.is_detached() && !cell.is_finished() && wanted(id))
            .map(|((id, _), cell)| (id.clone(), Arc::clone(cell)))
            .collect()
    }

    /// The runs that started first, at most `limit` of them, the oldest first.
    pub(crate) fn longest(&self, limit: usize) -> Vec<(SessionId, Arc<RunCell>)> {
        let unfinished = |cell: &Arc<RunCell>| !cell.is_finished();
        let mut runs: Vec<_> = self
            .cells()
            .iter()
            .filter(|(_, cell)| unfinished(cell))
            .map(|((id, _), cell)| (id.clone(), Arc::clone(cell)))
            .collect();
        runs.sort_by_key(|(_, cell)| cell.started);
        runs.truncate(limit);
        runs
    }

    /// The runs that have not ended of those that `wanted` selects by their session and the record of their start.
    pub(crate) fn keys(&self, wanted: impl Fn(&SessionId, u64) -> bool) -> Vec<RunKey> {
        let cells = self.cells();
        let wanted = cells.iter().filter(|((id, _), cell)| !cell.is_finished() && wanted(id, cell.start.seq));
        let key = |id: &SessionId, cell: &RunCell| RunKey {
            started_at: cell.start.started_at,
            session_id: id.clone(),
            seq: cell.start.seq,
        };
        wanted.map(|((id, _), cell)| key(id, cell)).collect()
    }

    /// Kills the runs of the sessions that `wanted` selects, in the background too. Does not wait: a run whose queue is full
    /// of input may itself be waiting for the session that calls this.
    pub(crate) fn kill(&self, wanted: impl Fn(&SessionId) -> bool) {
        for cell in self.unfinished(wanted) {
            if let Err(TrySendError::Full(kill)) = cell.control.try_send(RunControl::Kill) {
                tasks::spawn(async move { drop(cell.control.send(kill).await) });
            }
        }
    }

    /// Ends every run because the daemon stops.
    pub(crate) async fn cut_off(&self) {
        for cell in self.unfinished(|_| true) {
            let _ = cell.control.send(RunControl::DaemonStops).await;
        }
    }

    /// How many runs have not ended.
    pub(crate) fn count(&self) -> usize {
        self.unfinished(|_| true).len()
    }

    /// Returns when no run is left.
    pub(crate) async fn all_ended(&self) {
        loop {
            let left = self.unfinished(|_| true);
            if left.is_empty() {
                return;
            }
            for cell in left {
                cell.finished().await;
            }
        }
    }

    fn unfinished(&self, wanted: impl Fn(&SessionId) -> bool) -> Vec<Arc<RunCell>> {
        let cells = self.cells();
        let wanted = cells.iter().filter(|((id, _), cell)| !cell.is_finished() && wanted(id));
        wanted.map(|(_, cell)| Arc::clone(cell)).collect()
    }
}
