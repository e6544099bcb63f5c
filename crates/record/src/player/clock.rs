//! How long to wait between two events so that a recording plays as it happened, without its pauses.

use shellkeep_session::Timestamp;
use std::time::Duration;

/// The pace of playing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    speed: f64,
    idle_limit: Duration,
}

impl Pace {
    /// This many times as fast as recorded, with no pause longer than this. A speed that is not above zero is taken as 1.
    pub fn new(speed: f64, idle_limit: Duration) -> Self {
        let usable = speed.is_finite() && speed > 0.0;
        Self { speed: if usable { speed } else { 1.0 }, idle_limit }
    }

    /// How long to wait after an event until the next.
    pub fn between(&self, before: Timestamp, after: Timestamp) -> Duration {
        // A clock that was set back makes no wait.
        let gap = Duration::try_from(after.duration_since(before)).unwrap_or(Duration::ZERO);
        // No overflow: a wait is at most the limit, and the largest limit divided by the smallest speed is cut.
        Duration::try_from_secs_f64(gap.min(self.idle_limit).as_secs_f64() / self.speed).unwrap_or(self.idle_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_cut_and_speed_divides() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let pace = Pace::new(2.0, Duration::from_secs(2));
        assert_eq!(pace.between(at(10), at(11)), Duration::from_millis(500));
        assert_eq!(pace.between(at(10), at(3600)), Duration::from_secs(1), "a pause is cut before it is divided");
        assert_eq!(pace.between(at(11), at(10)), Duration::ZERO);
        assert_eq!(Pace::new(0.0, Duration::from_secs(9)).between(at(0), at(3)), Duration::from_secs(3));
        assert_eq!(Pace::new(f64::NAN, Duration::from_secs(9)).between(at(0), at(3)), Duration::from_secs(3));
        assert_eq!(Pace::new(1e-300, Duration::MAX).between(at(0), at(1)), Duration::MAX);
    }
}
