//! Medians and how to write them down.

use crate::fallible::Fallible;
use std::time::Duration;

/// Untimed commands before each turn: caches and processor clocks settle.
pub const SETTLE: usize = 50;

/// The middle and the tail of some times, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// Half of them are shorter.
    pub p50: f64,
    /// One in a hundred is longer.
    pub p99: f64,
}

/// What was measured on both sides of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Pair<T> {
    /// Of the machine itself, or of another tool.
    pub floor: T,
    pub ours: T,
}

impl Pair<Spread> {
    pub fn p50(self) -> Pair<f64> {
        Pair { floor: self.floor.p50, ours: self.ours.p50 }
    }
}

/// The rounds of one side of a comparison.
#[derive(Debug, Default)]
pub struct Rounds(Vec<Spread>);

impl Rounds {
    /// Adds a round.
    pub fn push(&mut self, mut times: Vec<Duration>) {
        times.sort();
        self.0.push(Spread { p50: percentile(&times, 0.5), p99: percentile(&times, 0.99) });
    }

    /// Adds a round of `count`, after some that are not timed.
    pub fn turn(&mut self, count: usize, mut times: impl FnMut(usize) -> Fallible<Vec<Duration>>) -> Fallible<()> {
        times(SETTLE)?;
        self.push(times(count)?);
        Ok(())
    }

    /// The median of the rounds, each of both figures for itself.
    pub fn middle(&self) -> Spread {
        let of = |get: fn(&Spread) -> f64| median(self.0.iter().map(get).collect());
        Spread { p50: of(|round| round.p50), p99: of(|round| round.p99) }
    }
}

fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
    sorted.get(place).map_or(f64::NAN, Duration::as_secs_f64)
}

/// The median; not a number of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A time with the unit that suits it, three digits.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// A number with about three digits, thousands apart.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        v if v < 999.5 => format!("{value:.0}"),
        _ => thousands(value.round() as i64),
    }
}

fn thousands(value: i64) -> String {
    let plain = value.abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_three_digits() {
        let written: Vec<String> = [0.5, 9.999, 31.44, 999.6, 1234567.0].into_iter().map(digits).collect();
        assert_eq!(written, ["0.50", "10.0", "31.4", "1,000", "1,234,567"]);
        assert_eq!([time(31e-6), time(2.9e-3), time(4.0)], ["31.0 µs", "2.90 ms", "4.00 s"]);
    }

    #[test]
    fn one_bad_round_does_not_move_the_middle() {
        let mut rounds = Rounds::default();
        for middle in [10, 11, 900] {
            rounds.push(vec![Duration::from_micros(middle); 5]);
        }
        assert_eq!(time(rounds.middle().p50), "11.0 µs");
    }
}
