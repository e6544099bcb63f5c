//! When a service was last active: wrote output, used the processor, or had a connection.

use shellkeep_session::Timestamp;
use shellkeep_session::service::Sample;
use std::time::Duration;

/// The activity of a service.
#[derive(Debug)]
pub(super) struct Activity {
    /// When it was last active.
    pub(super) last_active: Timestamp,
    sampled_at: Timestamp,
    sample: Option<Sample>,
}

impl Activity {
    pub(super) fn begin(now: Timestamp) -> Self {
        Self { last_active: now, sampled_at: now, sample: None }
    }

    /// When it was last active, if its log ends here now: what it wrote since the last check counts as now.
    pub(super) fn last_active_with(&mut self, log_end: u64) -> Timestamp {
        if let Some(sample) = self.sample.as_mut().filter(|sample| sample.log_end != log_end) {
            sample.log_end = log_end;
            self.last_active = self.last_active.max(Timestamp::now());
        }
        self.last_active
    }

    /// Applies a new measurement.
    pub(super) fn take(&mut self, sample: Sample, now: Timestamp) {
        let elapsed = Duration::try_from(now.duration_since(self.sampled_at)).unwrap_or_default();
        if self.sample.as_ref().is_none_or(|before| sample.shows_activity_since(before, elapsed)) {
            self.last_active = now;
        }
        self.sample = Some(sample);
        self.sampled_at = now;
    }
}
