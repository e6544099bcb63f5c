//! How long a reader may go on: until its caller is gone, and where it searches, until its time is used up. Reading a
//! long recording or matching a regular expression cannot be interrupted from outside, so it asks now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a reader may go on. All clones are the same budget.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    until: Option<Instant>,
    gone: Arc<AtomicBool>,
}

/// The time of a search was used up, or its caller is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent;

impl Budget {
    /// So much time from now on.
    pub fn of(time: Duration) -> Self {
        Self { until: Instant::now().checked_add(time), gone: Arc::default() }
    }

    /// As much time as it takes, for a caller who may go away.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// The caller is gone: nobody needs the answer.
    pub fn cancel(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether the caller is gone.
    pub fn is_cancelled(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether the time is used up or the caller gone.
    pub fn is_spent(&self) -> bool {
        self.is_cancelled() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}
