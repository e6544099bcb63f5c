//! How long the next command waits until the files of the previous one are saved.

use std::time::Duration;
use tokio::time::Instant;

/// How long a command waits until the files of the previous one are saved. With this wait, an answer still comes within
/// its timeout plus one second.
pub(super) const AFTER_RUN: Duration = Duration::from_millis(800);
/// How long the first command in a directory that the host named waits until the existing files are saved. It counts as
/// part of the command's timeout.
pub(super) const BEFORE_FIRST: Duration = Duration::from_secs(20);
/// A longer wait is deducted from the command's timeout.
const FREE_WAIT: Duration = Duration::from_secs(1);
/// A command that would expire starts a little before it does.
const BEFORE_EXPIRY: Duration = Duration::from_millis(20);

/// How long the next command waits, and the result of earlier waits.
#[derive(Debug, Default)]
pub(super) struct FilesWait {
    current: Option<Current>,
    /// How long the last wait was.
    waited: Duration,
    /// Whether a command started without waiting to the end.
    overtaken: bool,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    since: Instant,
    most: Duration,
}

impl FilesWait {
    /// The next command waits, from now on and at most this long.
    pub(super) fn begin(&mut self, most: Duration) {
        self.current = Some(Current { since: Instant::now(), most });
    }

    /// The same, unless it waits already.
    pub(super) fn begin_if_none(&mut self, most: Duration) {
        self.current.get_or_insert(Current { since: Instant::now(), most });
    }

    /// No command waits any longer.
    pub(super) fn release(&mut self) {
        if let Some(current) = self.current.take() {
            self.waited = current.since.elapsed();
        }
    }

    /// A command starts. If `is_busy`, the files of the previous one may not be saved yet.
    pub(super) fn overtake(&mut self, is_busy: bool) {
        self.overtaken |= is_busy && self.current.is_some();
        self.release();
        self.waited = Duration::ZERO;
    }

    /// Whether a command started without waiting to the end, since this was last asked.
    pub(super) fn take_overtaken(&mut self) -> bool {
        std::mem::take(&mut self.overtaken)
    }

    /// Until when the next command waits. `expires` is when it would be rejected.
    pub(super) fn until(&self, expires: Option<Instant>) -> Option<Instant> {
        let Current { since, most } = self.current?;
        let until = since + most;
        Some(expires.map_or(until, |expires| until.min(expires - BEFORE_EXPIRY)))
    }

    /// The timeout of a command that would expire at `expires`: a long wait is deducted.
    pub(super) fn timeout_left(&self, timeout: Duration, expires: Instant) -> Duration {
        if self.waited <= FREE_WAIT {
            return timeout;
        }
        timeout.min(expires.saturating_duration_since(Instant::now()).max(FREE_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_wait_shortens_the_timeout() {
        let (timeout, most) = (Duration::from_secs(30), Duration::from_secs(20));
        for (waited, left) in [(0, 30), (1, 30), (12, 18), (29, 1)] {
            let expires = Instant::now() + timeout;
            let mut wait = FilesWait::default();
            wait.begin(most);
            tokio::time::advance(Duration::from_secs(waited)).await;
            wait.release();
            assert_eq!(wait.timeout_left(timeout, expires), Duration::from_secs(left), "after {waited} s");
            wait.overtake(false);
            assert_eq!(wait.timeout_left(timeout, expires), timeout, "the wait of an earlier command");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_goes_on_before_it_expires() {
        let now = Instant::now();
        let mut wait = FilesWait::default();
        assert_eq!(wait.until(None), None);
        wait.begin(AFTER_RUN);
        wait.begin_if_none(BEFORE_FIRST);
        assert_eq!(wait.until(None), Some(now + AFTER_RUN));
        assert_eq!(wait.until(Some(now + Duration::from_millis(100))), Some(now + Duration::from_millis(80)));
    }

    #[test]
    fn a_command_overtakes_only_what_it_should_have_waited_for() {
        for (waits, is_busy, overtaken) in [(true, true, true), (true, false, false), (false, true, false)] {
            let mut wait = FilesWait::default();
            if waits {
                wait.begin(AFTER_RUN);
            }
            wait.overtake(is_busy);
            assert_eq!((wait.take_overtaken(), wait.take_overtaken()), (overtaken, false));
            assert_eq!(wait.until(None), None, "nobody waits any longer");
        }
    }
}
