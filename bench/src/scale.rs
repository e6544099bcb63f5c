//! What was measured at each number of sessions, and `docs/scale.md` with its pictures.

use crate::curves::{Curve, Panel, Tone, panels};
use crate::sizes::{Line, NONE, number, ratio, seconds, table};
use crate::stats::{Pair, Spread};
use std::fmt::Write;

/// What was measured with so many sessions. Rates are per second, times in seconds, memory and disk in KiB, all of them
/// for all sessions together.
#[derive(Debug, Clone)]
pub struct Point {
    pub sessions: usize,
    /// Made through the library, one after the other.
    pub created: f64,
    /// Time from the last of them until the database had all.
    pub applied: f64,
    /// Time from the last of them until each had its recording.
    pub recorded: f64,
    /// Made over HTTP on one connection.
    pub created_by_one: f64,
    /// Made over HTTP on several connections.
    pub created_by_many: f64,
    /// `true` through the library beside these, against ten sessions.
    pub warm: Pair<Spread>,
    /// The same over HTTP.
    pub warm_http: Pair<Spread>,
    /// The daemon's growth when they were made.
    pub memory_made: f64,
    /// The daemon's growth when they had been woken and put to sleep.
    pub memory_woken: f64,
    /// A new daemon's growth over an empty one.
    pub memory_restarted: f64,
    /// Database and journal.
    pub disk: f64,
    /// Starts of `bash -c true`.
    pub spawns: f64,
    /// Commands in random sessions.
    pub wakes: f64,
    /// Until a daemon that was killed listens again.
    pub ready_killed: f64,
    /// Until a daemon that was stopped listens again.
    pub ready_stopped: f64,
    /// The same with nothing of the store in the page cache.
    pub ready_cold: f64,
    /// Reading all pages of the list.
    pub listed: f64,
}

impl Point {
    /// Nothing measured yet.
    pub fn new(sessions: usize) -> Self {
        let nothing = f64::NAN;
        Self {
            sessions,
            created: nothing,
            applied: nothing,
            recorded: nothing,
            created_by_one: nothing,
            created_by_many: nothing,
            warm: Pair { floor: NONE, ours: NONE },
            warm_http: Pair { floor: NONE, ours: NONE },
            memory_made: nothing,
            memory_woken: nothing,
            memory_restarted: nothing,
            disk: nothing,
            spawns: nothing,
            wakes: nothing,
            ready_killed: nothing,
            ready_stopped: nothing,
            ready_cold: nothing,
            listed: nothing,
        }
    }
}

const INTRODUCTION: &str = "# A hundred thousand sessions

Written by `make bench`; do not edit. What each operation costs as the number of sessions grows, with the default store
(SQLite). The targets are judged in `bench.md`, where the last column of this table is repeated.

Every session has real state: it is created with a working directory, an agent, a configuration and thirty exported variables
of its own (in addition to those from the daemon's environment); then it is woken, gets three functions, an alias and two more
variables, and runs a second command that writes to both streams. Of those beyond the first 10,000 every tenth is woken,
the others have their initial state. Names are random, as the daemon generates them. The daemon
may have 16 live shells, so all but a few sessions are asleep. Some are checked at the end of each size to have their
state, also after the last restart.

";

const READING: &str = "
Reading it:

- *Created by library* is one task that creates one session after the other, in a separate engine for each size. A session
  is kept when its record is in the journal; *in the database* is how long after the last one the store's thread had brought
  all of them over.
- *Memory* is what the daemon has resident beyond an empty one, divided by the sessions. Much of it is a fixed cost: the
  database's page cache (16 MiB) and the batches of the store's thread. It is measured when the sessions have been created,
  when they have been woken and put to sleep, and in a new daemon on the same data.
- *Ready again* is the time from the start of the program until it listens. *Cold* is with the store's files taken out of the
  page cache.
- *`true`* is a short command in a session that is awake, taken in turns with a second engine, or daemon, that has ten
  sessions.
- *A random session* is a command `true` for one session after the other, chosen at random, on eight connections: nearly every
  one wakes a session and puts another one to sleep. The floor is eight threads that start `bash --norc -c true`, in turns
  with it. The client takes its processor time from the same cores.
- *Disk* is the database with its log and the journal, after a clean stop.
";

/// `docs/scale.md`.
pub fn markdown(points: &[Point], machine: &str, quick: bool) -> String {
    let mut text = String::from(INTRODUCTION);
    if quick {
        text += "This is a short run (`--quick`): fewer sessions.\n\n";
    }
    let _ = writeln!(text, "{machine}\n\n![Costs over the number of sessions](scale.svg)\n");
    text + &table("sessions", points, |point| point.sessions, &LINES) + READING
}

const LINES: [Line<Point>; 19] = [
    ("created by library, a second", |point| number(point.created)),
    ("in the database after the last one", |point| seconds(point.applied)),
    ("recorded after the last one", |point| seconds(point.recorded)),
    ("created over HTTP on one connection, a second", |point| number(point.created_by_one)),
    ("created over HTTP on four connections, a second", |point| number(point.created_by_many)),
    ("memory of a session, made, KiB", |point| each(point, point.memory_made)),
    ("memory of a session, woken and asleep again, KiB", |point| each(point, point.memory_woken)),
    ("memory of a session, after a restart, KiB", |point| each(point, point.memory_restarted)),
    ("ready again, stopped", |point| seconds(point.ready_stopped)),
    ("ready again, killed", |point| seconds(point.ready_killed)),
    ("ready again, stopped and cold", |point| seconds(point.ready_cold)),
    ("`true` by library", |point| seconds(point.warm.ours.p50)),
    ("… against ten sessions", |point| ratio(point.warm.p50())),
    ("`true` over HTTP", |point| seconds(point.warm_http.ours.p50)),
    ("… against ten sessions", |point| ratio(point.warm_http.p50())),
    ("a random session runs `true`, a second", |point| number(point.wakes)),
    ("… against starts of `bash -c true`", |point| ratio(Pair { floor: point.spawns, ours: point.wakes })),
    ("all listed by pages of 1000", |point| seconds(point.listed)),
    ("disk of a session, KiB", |point| each(point, point.disk)),
];

fn each(point: &Point, value: f64) -> Option<String> {
    number(value / point.sessions as f64)
}

/// `docs/scale.svg`.
pub fn picture(points: &[Point]) -> String {
    let curve = |name, tone, value: fn(&Point) -> f64| {
        let points = points.iter().map(|point| (point.sessions, value(point))).collect();
        Curve { name, tone, points }
    };
    let panel = |title, logarithmic, target, curves| Panel { title, logarithmic, target, curves };
    let all = [
        panel(
            "Sessions created, a second",
            false,
            Some(20_000.0),
            vec![
                curve("library", Tone::First, |point| point.created),
                curve("HTTP", Tone::Second, |point| point.created_by_one),
                curve("HTTP, four connections", Tone::Third, |point| point.created_by_many),
            ],
        ),
        panel(
            "Memory of a dormant session, KiB",
            true,
            Some(2.0),
            vec![
                curve("made", Tone::First, |point| point.memory_made / point.sessions as f64),
                curve("woken", Tone::Second, |point| point.memory_woken / point.sessions as f64),
                curve("restarted", Tone::Third, |point| point.memory_restarted / point.sessions as f64),
            ],
        ),
        panel(
            "Ready again, milliseconds",
            true,
            Some(1000.0),
            vec![
                curve("stopped", Tone::First, |point| point.ready_stopped * 1e3),
                curve("killed", Tone::Second, |point| point.ready_killed * 1e3),
                curve("cold", Tone::Third, |point| point.ready_cold * 1e3),
            ],
        ),
        panel(
            "`true` in a session that is awake, µs",
            false,
            None,
            vec![
                curve("library", Tone::First, |point| point.warm.ours.p50 * 1e6),
                curve("HTTP", Tone::Second, |point| point.warm_http.ours.p50 * 1e6),
            ],
        ),
        panel(
            "Commands in random sessions, a second",
            false,
            None,
            vec![
                curve("bash -c true", Tone::Floor, |point| point.spawns),
                curve("shellkeep, waking", Tone::First, |point| point.wakes),
            ],
        ),
        panel(
            "All sessions listed, milliseconds",
            true,
            None,
            vec![curve("HTTP", Tone::First, |point| point.listed * 1e3)],
        ),
    ];
    panels("What a session costs as their number grows", "across: sessions, logarithmic", &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_shown_as_a_number() {
        let mut points = vec![Point::new(10), Point::new(100)];
        points[1].wakes = 500.0;
        points[1].spawns = 1000.0;
        let text = markdown(&points, "a machine", true);
        assert!(!text.contains("NaN") && !picture(&points).contains("NaN"), "{text}");
        assert!(text.contains("| … against starts of `bash -c true` | – | 0.50× |"), "{text}");
    }
}
