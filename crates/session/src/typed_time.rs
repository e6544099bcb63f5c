//! Times as people type them: `16:36`, `yesterday`, `2026-11-16 16:36`, `10m`, `2 hours ago`. All are UTC, as times are shown.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Most digits of a number of days: with more it may be the beginning of a commit.
const DAY_DIGITS: usize = 3;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Examples of what [`parse`] understands, for an error.
pub const EXAMPLES: &str = "10m, 2h ago, 16:36, yesterday, 2026-11-16 16:36 (UTC)";

/// Parses a time as people write it. A time of day without a date is the last one that has passed.
pub fn parse(text: &str, now: Timestamp) -> Option<Timestamp> {
    let text = text.trim().to_ascii_lowercase();
    let today = now.to_zoned(TimeZone::UTC).date();
    if let Some(time) = time_of_day(&text) {
        let at = utc(today.to_datetime(time))?;
        return if at <= now { Some(at) } else { at.checked_sub(DAY).ok() };
    }
    let parted = match text.split_once('t') {
        Some((first, rest)) if date(first).is_some() => Some((first, rest)),
        _ => text.split_once(' '),
    };
    let (first, rest) = parted.map_or((&*text, None), |(first, rest)| (first, Some(rest)));
    match (first, rest) {
        ("yesterday", None) => now.checked_sub(DAY).ok(),
        ("yesterday", Some(rest)) => utc(today.yesterday().ok()?.to_datetime(time_of_day(rest)?)),
        ("today", Some(rest)) => utc(today.to_datetime(time_of_day(rest)?)),
        _ => match (date(first), rest) {
            (Some(date), None) => utc(date.to_datetime(Time::midnight())),
            (Some(date), Some(rest)) => {
                let rest = rest.strip_suffix('z').unwrap_or(rest);
                utc(date.to_datetime(time_of_day(rest)?))
            }
            (None, _) => now.checked_sub(ago(&text)?).ok(),
        },
    }
}

fn utc(at: DateTime) -> Option<Timestamp> {
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// `16:36` or `16:36:05`.
fn time_of_day(text: &str) -> Option<Time> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
    if !matches!(parts.len(), 2 | 3) || !parts.iter().all(is_number) {
        return None;
    }
    let number = |index: usize| parts.get(index).map_or(Some(0), |part| part.parse::<i8>().ok());
    Time::new(number(0)?, number(1)?, number(2)?, 0).ok()
}

/// `2026-11-16`.
fn date(text: &str) -> Option<Date> {
    let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    text.parse().ok().filter(|_| is_date)
}

/// How long ago: `10m`, `1h30m`, `2h ago`, `10 minutes ago`.
fn ago(text: &str) -> Option<SignedDuration> {
    let mut rest = text.strip_suffix(" ago").unwrap_or(text).trim();
    let (mut seconds, mut is_empty) = (0_i64, true);
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let after = after.trim_start();
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let length = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            "d" | "day" | "days" if digits.len() <= DAY_DIGITS => 86_400,
            "w" | "week" | "weeks" => 7 * 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(digits.parse::<i64>().ok()?.checked_mul(length)?)?;
        (rest, is_empty) = (after.trim_start(), false);
    }
    (!is_empty).then(|| SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_understood_as_people_type_it() {
        let now: Timestamp = "2026-11-16T16:40:00Z".parse().unwrap();
        for (text, expected) in [
            ("16:36", "2026-11-16T16:36:00Z"),
            ("16:41", "2026-11-15T16:41:00Z"),
            ("9:05:07", "2026-11-16T09:05:07Z"),
            ("yesterday", "2026-11-15T16:40:00Z"),
            ("Yesterday 8:00", "2026-11-15T08:00:00Z"),
            ("today 08:00", "2026-11-16T08:00:00Z"),
            ("2026-11-14", "2026-11-14T00:00:00Z"),
            ("2026-11-14 16:36", "2026-11-14T16:36:00Z"),
            ("2026-11-14T16:36", "2026-11-14T16:36:00Z"),
            ("2026-11-14t16:36:01z", "2026-11-14T16:36:01Z"),
            ("10m", "2026-11-16T16:30:00Z"),
            ("2h ago", "2026-11-16T14:40:00Z"),
            ("1h30m", "2026-11-16T15:10:00Z"),
            ("1 hour 30 minutes ago", "2026-11-16T15:10:00Z"),
            ("2d", "2026-11-14T16:40:00Z"),
            ("1w", "2026-11-09T16:40:00Z"),
        ] {
            assert_eq!(parse(text, now), Some(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn other_moments_are_no_times() {
        let now = Timestamp::UNIX_EPOCH;
        for other in [
            "",
            "12",
            "r12",
            "-1",
            "latest",
            "undo",
            "now",
            "1234d",
            "12ab",
            "m",
            "ago",
            "25:00",
            "16:60",
            "1:2:3:4",
            "12-3",
            "2026-13-01",
            "manual_20261115T1.5Z",
            "tomorrow",
            "today",
            "10x",
            "16:36 yesterday",
            "99999999999999999999s",
            "9223372036854775807m",
            "2026-11-14 10m",
        ] {
            assert_eq!(parse(other, now), None, "{other}");
        }
    }
}
