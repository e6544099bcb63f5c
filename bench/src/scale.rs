//! What was measured at each number of sessions, and `docs/scale.md` with its pictures.

use crate::stats::Spread;

/// A spread of nothing.
const NONE: Spread = Spread { p50: f64::NAN, p99: f64::NAN };

/// What was measured with so many sessions. Rates are per second, times in seconds, memory and disk in KiB, all of them
/// for all sessions together.
#[derive(Debug, Clone)]
pub struct Point {
    /// How many.
    pub sessions: usize,
    /// Made through the library, one after the other.
    pub created: f64,
    /// Time from the last of them until the database had all.
    pub applied: f64,
    /// Made over HTTP on one connection.
    pub created_by_one: f64,
    /// Made over HTTP on several connections.
    pub created_by_many: f64,
    /// `true` through the library beside ten sessions, and beside these.
    pub warm: (Spread, Spread),
    /// The same over HTTP.
    pub warm_http: (Spread, Spread),
    /// The daemon's growth when they were made.
    pub memory_made: f64,
    /// The daemon's growth when each had been woken and put to sleep.
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
            created_by_one: nothing,
            created_by_many: nothing,
            warm: (NONE, NONE),
            warm_http: (NONE, NONE),
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
