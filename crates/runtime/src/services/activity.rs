//! When a service last did something: wrote, computed, or talked to anybody.

use shellkeep_session::Timestamp;
use shellkeep_session::service::Sample;
use std::time::Duration;

/// What is known of a service's doings.
#[derive(Debug)]
pub(super) struct Activity {
    /// When it last did something.
    pub(super) last_active: Timestamp,
    sampled_at: Timestamp,
    sample: Option<Sample>,
}

impl Activity {
    pub(super) fn begin(now: Timestamp) -> Self {
        Self { last_active: now, sampled_at: now, sample: None }
    }

    /// When it last did something, if its log ends here now: what it wrote since the last look was just now.
    pub(super) fn last_active_with(&mut self, log_end: u64) -> Timestamp {
        if let Some(sample) = self.sample.as_mut().filter(|sample| sample.log_end != log_end) {
            sample.log_end = log_end;
            self.last_active = self.last_active.max(Timestamp::now());
        }
        self.last_active
    }

    /// Takes a look that was made now.
    pub(super) fn take(&mut self, sample: Sample, now: Timestamp) {
        let elapsed = Duration::try_from(now.duration_since(self.sampled_at)).unwrap_or_default();
        if self.sample.as_ref().is_none_or(|before| sample.shows_activity_since(before, elapsed)) {
            self.last_active = now;
        }
        self.sample = Some(sample);
        self.sampled_at = now;
    }
}
