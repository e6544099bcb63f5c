//! The runs that have not ended, of all sessions, by which their watchers find them.

use crate::cell::{RunCell, RunControl};
use crate::sync::lock;
use shellkeep_session::{RunId, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

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

    /// Forgets the commands in the background of a session that was removed: nobody is left to report their end.
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

    /// Kills the runs of the sessions that `wanted` selects, in the background too.
    pub(crate) async fn kill(&self, wanted: impl Fn(&SessionId) -> bool) {
        let cells: Vec<_> =
            self.cells().iter().filter(|((id, _), _)| wanted(id)).map(|(_, cell)| Arc::clone(cell)).collect();
        for cell in cells {
            let _ = cell.control.send(RunControl::Kill).await;
        }
    }
}
