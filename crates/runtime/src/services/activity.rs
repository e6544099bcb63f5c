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
    /// Of a new service, which has not done anything yet.
    pub(super) fn begin(now: Timestamp) -> Self {
        Self { last_active: now, sampled_at: now, sample: Some(Sample::default()) }
    }

    /// Of a service that runs already: what it has done so far was not now.
    pub(super) fn taken_over(now: Timestamp) -> Self {
        Self { sample: None, ..Self::begin(now) }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that wrote was idle since its start until it was looked at for the first time, half a minute later.
    #[test]
    fn output_counts_before_the_first_look() {
        let start = Timestamp::UNIX_EPOCH;
        let mut activity = Activity::begin(start);
        assert_eq!(activity.last_active_with(0), start);
        let wrote = activity.last_active_with(5);
        assert!(wrote > start);
        assert_eq!(activity.last_active_with(5), wrote, "it has written nothing since");
        // What another daemon has seen it write is not new.
        assert_eq!(Activity::taken_over(start).last_active_with(5), start);
    }
}
