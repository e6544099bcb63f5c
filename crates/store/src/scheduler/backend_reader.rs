//! The backend as a reader of the journal: it applies a stretch when it is given it.

use super::shared::Shared;
use crate::backend::{Backend, Entry, Mark};
use crate::fault::Point;
use crate::problems::Part;
use crate::reader::Reader;
use crate::tail::Batch;
use std::sync::Arc;

/// The backend, and where to report what it says.
pub(crate) struct BackendReader {
    pub backend: Box<dyn Backend>,
    pub shared: Arc<Shared>,
}

impl Reader for BackendReader {
    fn mark(&self) -> Mark {
        self.backend.applied()
    }

    fn apply(&mut self, batch: &Arc<Batch>) -> Result<(), String> {
        self.apply_entries(&batch.entries, batch.mark)?;
        self.shared.feed.wake();
        for reason in &batch.unreadable {
            self.shared.problems.unreadable(reason.clone());
        }
        Ok(())
    }

    fn apply_early(&mut self, entries: &[Entry]) -> Result<(), String> {
        self.apply_entries(entries, self.mark())
    }
}

impl BackendReader {
    /// Applies entries; everything before the mark counts as applied then.
    pub(super) fn apply_entries(&mut self, entries: &[Entry], mark: Mark) -> Result<(), String> {
        // If the backend were on disk before the journal, a power failure could leave records that only the backend
        // has.
        if let Err(error) = self.shared.journal.sync_ahead() {
            self.shared.problems.failed(Part::Sync, &error.to_string());
        }
        let fault = self.shared.faults.check(Point::BackendApply).map_err(|error| error.to_string());
        fault.and_then(|()| self.backend.apply(entries, mark).map_err(|error| error.to_string()))?;
        metrics::counter!("shellkeep_store_applied_total").increment(entries.len() as u64);
        self.shared.problems.recovered(Part::Backend);
        self.shared.requests_waiting.applied(entries);
        Ok(())
    }
}
