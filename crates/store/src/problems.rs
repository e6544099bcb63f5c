//! Current problems of the store, as sentences, and rate-limited warnings in the log.

use crate::lock::hold;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A failing disk fails thousands of times a second; the log needs only an occasional line.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// Unreadable journal lines that are listed one by one; the others are in the log.
const UNREADABLE_LIMIT: usize = 16;

/// The parts that can fail apart from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Writing the journal.
    Journal,
    /// Applying to the backend.
    Backend,
    /// Forcing the journal to disk.
    Sync,
}

#[derive(Debug, Default)]
struct Inner {
    journal: Option<String>,
    backend: Option<String>,
    sync: Option<String>,
    recordings: Option<String>,
    unreadable: Vec<String>,
    warned_at: Option<Instant>,
}

/// The present problems.
#[derive(Debug, Default)]
pub(crate) struct Problems(Mutex<Inner>);

impl Problems {
    /// Notes a failure, counts it, and logs it if nothing was logged recently.
    pub(crate) fn failed(&self, part: Part, reason: &str) {
        metrics::counter!("shellkeep_store_failures_total").increment(1);
        let mut inner = hold(&self.0);
        *inner.slot(part) = Some(reason.to_owned());
        let now = Instant::now();
        if inner.warned_at.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
            inner.warned_at = Some(now);
            tracing::warn!(part = ?part, reason, "the store failed and will try again");
        }
    }

    /// Notes that a part works again.
    pub(crate) fn recovered(&self, part: Part) {
        let mut inner = hold(&self.0);
        if inner.slot(part).take().is_some() {
            inner.warned_at = None;
            tracing::info!(part = ?part, "the store works again");
        }
    }

    /// Notes which recordings cannot be written, as a sentence; none if all can.
    pub(crate) fn recordings(&self, sentence: Option<String>) {
        hold(&self.0).recordings = sentence;
    }

    /// Notes an unreadable journal line; this stays until the daemon ends.
    pub(crate) fn unreadable(&self, reason: String) {
        metrics::counter!("shellkeep_store_failures_total").increment(1);
        tracing::error!(reason, "the journal has an unreadable line");
        let mut inner = hold(&self.0);
        if inner.unreadable.len() < UNREADABLE_LIMIT {
            inner.unreadable.push(reason);
        }
    }

    /// All of them, as sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let inner = hold(&self.0);
        let journal = inner.journal.iter().map(|reason| {
            format!("The journal cannot be written ({reason}); new records are kept in memory and retried.")
        });
        let backend = inner.backend.iter().map(|reason| {
            format!("The store's backend does not accept records ({reason}); the journal keeps them until it does.")
        });
        let sync = inner.sync.iter().map(|reason| {
            format!(
                "The journal cannot be synced to disk ({reason}); everything since the last sync is being \
                rewritten, and a power failure before that loses it."
            )
        });
        let recordings = inner.recordings.iter().cloned();
        journal.chain(backend).chain(sync).chain(recordings).chain(inner.unreadable.iter().cloned()).collect()
    }
}

impl Inner {
    fn slot(&mut self, part: Part) -> &mut Option<String> {
        match part {
            Part::Journal => &mut self.journal,
            Part::Backend => &mut self.backend,
            Part::Sync => &mut self.sync,
        }
    }
}
