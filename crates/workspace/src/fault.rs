//! Switches that make the keeping of files fail on purpose, so that tests can show that a crash or a full disk loses
//! nothing. They are passed in when a repository is opened; nothing is read from the environment here.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a fault can be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// An object's temporary file is written and not yet in its place.
    ObjectWritten,
    /// A pack's temporary files are written and not yet in their places.
    PackWritten,
    /// All objects are in place, the tag is not.
    BeforeTag,
    /// One step of making the repository smaller.
    Compacting,
    /// A file of a rewind is staged.
    Staged,
    /// One step of applying a rewind.
    Applying,
    /// One file of a copy.
    Copying,
}

/// All points, in the order of their switches.
pub const POINTS: [Point; 7] = [
    Point::ObjectWritten,
    Point::PackWritten,
    Point::BeforeTag,
    Point::Compacting,
    Point::Staged,
    Point::Applying,
    Point::Copying,
];

/// What an armed point does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// Fails as a broken disk would.
    Error,
    /// Fails as a full disk would.
    Full,
    /// Ends the process at once, as `kill -9` would: nothing is cleaned up.
    Abort,
}

/// One point's switch.
#[derive(Debug, Default)]
struct Switch {
    /// How many calls pass before it strikes; 0 is disarmed, 1 strikes at the next call.
    countdown: AtomicU64,
    /// How often it strikes once it has begun.
    times: AtomicU64,
    /// 0 error, 1 full disk, 2 abort.
    blow: AtomicU64,
    calls: AtomicU64,
}

/// Which points fail, when and how. Disarmed by default.
#[derive(Debug, Default)]
pub struct Faults {
    switches: [Switch; POINTS.len()],
}

impl Faults {
    /// Makes a point strike at its `nth` call from now (1 is the next one) and the `times` - 1 calls after it.
    pub fn arm(&self, point: Point, nth: u64, times: u64, blow: Blow) {
        let switch = self.switch(point);
        switch.blow.store(blow as u64, Ordering::Relaxed);
        switch.times.store(times, Ordering::Relaxed);
        switch.countdown.store(nth, Ordering::Relaxed);
    }

    /// Makes a point pass again.
    pub fn disarm(&self, point: Point) {
        self.switch(point).countdown.store(0, Ordering::Relaxed);
    }

    /// How often a point was passed or struck.
    pub fn calls(&self, point: Point) -> u64 {
        self.switch(point).calls.load(Ordering::Relaxed)
    }

    /// Strikes if the point is armed and its turn has come.
    pub fn check(&self, point: Point) -> io::Result<()> {
        let switch = self.switch(point);
        switch.calls.fetch_add(1, Ordering::Relaxed);
        match switch.countdown.load(Ordering::Relaxed) {
            0 => return Ok(()),
            1 => {}
            left => {
                switch.countdown.store(left - 1, Ordering::Relaxed);
                return Ok(());
            }
        }
        match switch.times.load(Ordering::Relaxed) {
            0 | 1 => switch.countdown.store(0, Ordering::Relaxed),
            times => switch.times.store(times - 1, Ordering::Relaxed),
        }
        match switch.blow.load(Ordering::Relaxed) {
            0 => Err(io::Error::other("injected fault")),
            1 => Err(io::ErrorKind::StorageFull.into()),
            _ => std::process::abort(),
        }
    }

    fn switch(&self, point: Point) -> &Switch {
        // The points are numbered in their order, and there are as many switches.
        &self.switches[point as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_strikes_at_its_turn_as_often_as_told() {
        let faults = Faults::default();
        faults.arm(Point::BeforeTag, 3, 2, Blow::Full);
        let struck: Vec<bool> = (0..6).map(|_| faults.check(Point::BeforeTag).is_err()).collect();
        assert_eq!(struck, [false, false, true, true, false, false]);
        assert_eq!(faults.calls(Point::BeforeTag), 6);
        faults.arm(Point::Staged, 1, u64::MAX, Blow::Error);
        assert!(faults.check(Point::Staged).is_err() && faults.check(Point::Staged).is_err());
        faults.disarm(Point::Staged);
        assert!(faults.check(Point::Staged).is_ok());
        assert!(POINTS.iter().enumerate().all(|(place, point)| *point as usize == place));
    }
}
