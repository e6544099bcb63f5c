//! When to try again what failed.

use std::time::{Duration, Instant};

/// First and longest pause between attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The pause after a failure; it doubles with each one in a row.
pub(super) struct Retry {
    backoff: Duration,
    at: Option<Instant>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { backoff: BACKOFF.0, at: None }
    }
}

impl Retry {
    /// When to try again; none if nothing has failed.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    pub(super) fn is_time(&self) -> bool {
        self.at.is_none_or(|at| at <= Instant::now())
    }

    /// Everything works.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Something failed.
    pub(super) fn failed(&mut self) {
        self.at = Some(Instant::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
    }

    /// Another failure: retry after the current pause, or earlier.
    pub(super) fn try_soon(&mut self) {
        let at = Instant::now() + self.backoff;
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }
}
