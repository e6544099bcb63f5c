//! A hundred thousand sessions with real state: what each operation costs as their number grows.

pub(super) mod by_daemon;
mod by_library;
pub(super) mod state;

use crate::fallible::Fallible;
use crate::report::{Report, Row, Target};
use crate::scale::Point;
use crate::setup::Setup;
use crate::stats::digits;

/// Creations per second through the library.
const CREATED: f64 = 20_000.0;
/// Kibibytes of the daemon that a dormant session may take where there are as many as [`MANY`]. With few of them the
/// daemon's fixed costs, divided by their number, are all that is seen.
const MEMORY: f64 = 2.0;
/// See [`MEMORY`].
const MANY: usize = 100_000;
/// Seconds until a daemon with all sessions is ready again.
const READY: f64 = 1.0;
/// Wakings a second, against starts of a bash that does nothing else.
pub(super) const WOKEN: Target = Target::RatioAtLeast(1.0);
/// A short command beside many sessions, against the same beside ten.
const WARM: Target = Target::RatioAtMost(1.1);

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let mut points: Vec<Point> = setup.effort.scale.iter().map(|&sessions| Point::new(sessions)).collect();
    by_library::measure(setup, &mut points)?;
    by_daemon::measure(setup, &mut points)?;
    if let Some(last) = points.last() {
        for row in rows(last) {
            report.row(row);
        }
    }
    report.scale = points;
    Ok(())
}

fn rows(point: &Point) -> Vec<Row> {
    let count = digits(point.sessions as f64);
    let beyond = |kibibytes: f64| kibibytes / point.sessions as f64;
    let memory = |when: &str, kibibytes: f64| {
        let what = format!("memory of a dormant session beyond the empty daemon, {count} of them, {when}");
        if point.sessions < MANY {
            return Row::alone(what, "KiB", beyond(kibibytes));
        }
        Row::limit(what, beyond(kibibytes), "KiB", MEMORY)
    };
    let ready = |when: &str, seconds: f64| {
        Row::limit(format!("ready again with {count} sessions, {when}"), seconds, "s", READY)
    };
    let created = |how: &str, rate: f64| Row::alone(format!("{count} sessions created, {how}"), "a second", rate);
    vec![
        Row::least(
            format!("{count} sessions created, library, one after the other"),
            point.created,
            "a second",
            CREATED,
        ),
        created("HTTP on one connection", point.created_by_one),
        created("HTTP on four connections", point.created_by_many),
        Row::alone(format!("{count} sessions created: in the database after the last one"), "s", point.applied),
        Row::alone(format!("{count} sessions created: recorded after the last one"), "s", point.recorded),
        memory("when they were made", point.memory_made),
        memory("when they had been woken and put to sleep", point.memory_woken),
        memory("after a restart", point.memory_restarted),
        ready("stopped", point.ready_stopped),
        ready("killed", point.ready_killed),
        ready("stopped, nothing of it in the page cache", point.ready_cold),
        Row::latency(
            format!("`true`, library, beside {count} sessions, against ten"),
            point.warm.floor,
            point.warm.ours,
            WARM,
        ),
        Row::latency(
            format!("`true`, HTTP, beside {count} sessions, against ten"),
            point.warm_http.floor,
            point.warm_http.ours,
            WARM,
        ),
        Row::rate(
            format!(
                "a random one of {count} dormant sessions runs `true`, HTTP on eight connections, beside starts of `bash -c true`"
            ),
            "a second",
            point.spawns,
            point.wakes,
            WOKEN,
        ),
        Row::alone(format!("{count} sessions listed by pages of 1000, HTTP"), "s", point.listed),
        Row::alone(format!("disk of a session, {count} of them"), "KiB", beyond(point.disk)),
    ]
}
