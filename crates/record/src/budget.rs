//! How long a reader may continue: until its caller is gone, and in a search, until its time is used up. Reading a long
//! recording or matching a regular expression cannot be interrupted from outside, so it checks regularly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a reader may continue. All clones share the budget.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    until: Option<Instant>,
    gone: Arc<AtomicBool>,
}

/// The time of a search was used up, or its caller is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent;

impl Budget {
    /// This much time from now on.
    pub fn of(time: Duration) -> Self {
        Self { until: Instant::now().checked_add(time), gone: Arc::default() }
    }

    /// Unlimited time, for a caller that may disconnect.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// The caller is gone.
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
