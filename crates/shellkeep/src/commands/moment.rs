//! Moments as people type them: those that the daemon accepts, and durations such as "10m ago".

use shellkeep_session::Timestamp;
use std::time::Duration;

/// Most digits in a number of days: a longer one may be the prefix of a commit.
const DAY_DIGITS: usize = 3;

/// A moment for the daemon. `10m` and `1h30m` are how long ago, and become a time; everything else stays as it is.
pub fn moment(text: &str) -> String {
    match ago(text).and_then(|ago| Timestamp::now().checked_sub(ago).ok()) {
        Some(time) => time.to_string(),
        None => text.to_owned(),
    }
}

/// Reads numbers with a unit each: `s`, `m`, `h` or `d`.
fn ago(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = (&rest[..end], rest[end..].chars().next()?);
        let length: u64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' if digits.len() <= DAY_DIGITS => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(digits.parse::<u64>().ok()?.checked_mul(length)?)?;
        rest = &rest[end + 1..];
    }
    (!text.is_empty()).then_some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ago_is_told_from_other_moments() {
        let seconds = |text: &str| ago(text).map(|ago| ago.as_secs());
        assert_eq!((seconds("10m"), seconds("1h30m"), seconds("2d")), (Some(600), Some(5400), Some(172_800)));
        for other in ["", "12", "r12", "-1", "latest", "undo", "1234d", "12ab", "2026-11-16T08:00:00Z", "m", "10 m"] {
            assert_eq!(moment(other), other);
        }
        let then: Timestamp = moment("10m").parse().unwrap();
        assert!((599..=601).contains(&(Timestamp::now().as_second() - then.as_second())));
    }
}
