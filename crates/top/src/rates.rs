//! Commands per second over the last minutes, from a counter that is read periodically.

use std::collections::VecDeque;
use std::time::Duration;

/// How far back it shows.
pub const WINDOW: Duration = Duration::from_secs(300);
/// Readings nearer to each other than this give no rate worth showing.
const SHORTEST: Duration = Duration::from_millis(50);

/// The rates of the last minutes. Times are counted from the program's start.
#[derive(Debug, Default)]
pub struct Rates {
    last: Option<(Duration, u64)>,
    samples: VecDeque<(Duration, f64)>,
}

impl Rates {
    /// The counter stood at `total`.
    pub fn record(&mut self, at: Duration, total: u64) {
        let Some((before, count)) = self.last else {
            self.last = Some((at, total));
            return;
        };
        let between = at.saturating_sub(before);
        if between < SHORTEST {
            return;
        }
        self.last = Some((at, total));
        // A counter that went back belongs to another daemon.
        if let Some(more) = total.checked_sub(count) {
            self.samples.push_back((at, more as f64 / between.as_secs_f64()));
        }
        while self.samples.front().is_some_and(|(then, _)| at.saturating_sub(*then) > WINDOW) {
            self.samples.pop_front();
        }
    }

    /// The rate now, once there were two readings.
    pub fn current(&self) -> Option<f64> {
        self.samples.back().map(|(_, rate)| *rate)
    }

    /// The highest rate in sight.
    pub fn peak(&self) -> f64 {
        self.samples.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// The window in this many columns, the newest last; `None` where nothing was read. A column stands for a fixed piece
    /// of time, so that the picture moves and does not flicker.
    pub fn columns(&self, width: usize) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); width];
        if let Some((newest, _)) = self.samples.back()
            && width > 0
        {
            let piece = WINDOW.as_secs_f64() / width as f64;
            let place = |at: &Duration| (at.as_secs_f64() / piece) as usize;
            let end = place(newest);
            for (at, rate) in &self.samples {
                if let Some((sum, count)) =
                    (width - 1).checked_sub(end - place(at)).and_then(|column| sums.get_mut(column))
                {
                    *sum += rate;
                    *count += 1;
                }
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_rate_needs_two_readings_and_survives_another_daemon() {
        let mut rates = Rates::default();
        rates.record(seconds(1), 100);
        assert_eq!(rates.current(), None);
        rates.record(seconds(3), 300);
        assert_eq!(rates.current(), Some(100.0));
        rates.record(seconds(3), 900);
        assert_eq!(rates.current(), Some(100.0), "no time has passed");
        rates.record(seconds(4), 5);
        assert_eq!(rates.current(), Some(100.0), "the counter began again");
        rates.record(seconds(5), 15);
        assert_eq!((rates.current(), rates.peak()), (Some(10.0), 100.0));
    }

    #[test]
    fn columns_are_pieces_of_time_with_the_newest_last() {
        let mut rates = Rates::default();
        for second in 0..=60 {
            rates.record(seconds(second), second * second);
        }
        let columns = rates.columns(10);
        // 300 s in ten columns: seconds 1 to 29, 30 to 59 and 60.
        let mean = |from: u64, to: u64| (from..=to).map(|s| (2 * s - 1) as f64).sum::<f64>() / (to - from + 1) as f64;
        let expected = [Some(mean(1, 29)), Some(mean(30, 59)), Some(mean(60, 60))];
        assert_eq!(columns[7..], expected);
        assert!(columns[..7].iter().all(Option::is_none));
        assert!(rates.columns(0).is_empty());
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut rates = Rates::default();
        for second in 0..2000 {
            rates.record(seconds(second), second);
        }
        assert_eq!(rates.samples.len(), WINDOW.as_secs() as usize + 1);
    }
}
