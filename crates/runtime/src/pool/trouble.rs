//! Failed starts of shells: how long to pause, what to answer in the meantime, and how often to log.

use crate::sync::lock;
use shellkeep_process::StartError;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The pause after the first failed start. Short: most shortages end when a few connections close.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause. A client that retries after a second benefits from a new attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// At most one log line in this time, with the number of failures since the last one.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Why there is no shell.
#[derive(Debug, Clone)]
pub struct NoShell {
    /// The system's reason, and what to do about it.
    pub reason: Arc<str>,
    /// Whether a resource ran out that other shells may release.
    pub is_shortage: bool,
}

/// Failed starts since the last one that worked.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failing: Option<Failing>,
    /// The last failure, which may be over: callers that waited get it as the reason.
    last: Option<NoShell>,
    /// When a failure was last logged, and how many were not since. Kept when a start works: one may work occasionally
    /// while most fail.
    logged: Option<Instant>,
    unlogged: u64,
}

#[derive(Debug)]
struct Failing {
    pause: Duration,
    until: Instant,
    is_logged: bool,
}

impl Trouble {
    /// A start failed: notes and returns the reason.
    pub(super) fn failed(&self, error: &StartError) -> NoShell {
        let reason = format!("{error}; {}", error.advice());
        let last = NoShell { reason: reason.into(), is_shortage: error.is_shortage() };
        let now = Instant::now();
        let mut state = self.lock();
        let is_logged = state.log(&last, now);
        let before = state.failing.take();
        let pause = before.as_ref().map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
        let is_logged = is_logged || before.is_some_and(|before| before.is_logged);
        state.failing = Some(Failing { pause, until: now + pause, is_logged });
        state.last = Some(last.clone());
        last
    }

    /// A start worked. Returns whether others had failed before it.
    pub(super) fn is_over(&self) -> bool {
        let Some(failing) = self.lock().failing.take() else { return false };
        if failing.is_logged {
            tracing::info!("shells can be started again");
        }
        true
    }

    /// A resource was released: the next start need not wait for the end of the pause.
    pub(super) fn may_try_again(&self) {
        if let Some(failing) = &mut self.lock().failing {
            failing.until = Instant::now();
        }
    }

    /// The reason, during a pause.
    pub(super) fn now(&self) -> Option<NoShell> {
        let state = self.lock();
        state.failing.as_ref().filter(|failing| Instant::now() < failing.until).and(state.last.clone())
    }

    /// The reason of the last failure, if there ever was one.
    pub(super) fn last(&self) -> Option<NoShell> {
        self.lock().last.clone()
    }

    /// What is left of the pause.
    pub(super) fn pause(&self) -> Option<Duration> {
        let until = self.lock().failing.as_ref()?.until;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Logs a failure, unless one was just logged. Returns whether it did.
    fn log(&mut self, why: &NoShell, now: Instant) -> bool {
        if self.logged.is_some_and(|at| now.duration_since(at) < LOG_EVERY) {
            self.unlogged += 1;
            return false;
        }
        tracing::warn!(reason = %why.reason, unlogged = self.unlogged, "a shell could not be started");
        (self.logged, self.unlogged) = (Some(now), 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_descriptors() -> StartError {
        // EMFILE
        StartError::System(std::io::Error::from_raw_os_error(24))
    }

    #[test]
    fn pauses_grow_to_a_bound_and_end_with_a_start_that_works() {
        let trouble = Trouble::default();
        assert!(trouble.now().is_none() && trouble.pause().is_none());
        for _ in 0..12 {
            assert!(trouble.failed(&no_descriptors()).is_shortage);
        }
        let pause = trouble.pause().unwrap();
        assert!(pause <= LONGEST_PAUSE && pause > FIRST_PAUSE, "{pause:?}");
        assert!(trouble.now().unwrap().reason.contains("os error 24"));
        trouble.may_try_again();
        assert!(trouble.now().is_none() && trouble.pause().is_none() && trouble.last().is_some());
        assert!(trouble.is_over() && !trouble.is_over());
        assert!(trouble.last().is_some(), "a caller that waited gets the reason");
    }
}
