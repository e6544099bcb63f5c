//! Switches that make the store fail on purpose, so that tests can show that a failing disk loses nothing.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that arms faults in a running daemon: `store_journal_write`, `store_journal_sync`,
/// `store_journal_directory`, `store_backend_apply`, `store_load`, `record_write`, `record_turn`, separated by
/// commas. Alone, such a point always fails; with `:3` the next three times; with `:every2` every second time. Other names
/// belong to other parts of the daemon and are ignored.
pub const FAULT_VARIABLE: &str = "SHELLKEEP_FAULT";

/// Where a fault can be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The write of a line to the journal.
    JournalWrite,
    /// The sync of the journal to disk.
    JournalSync,
    /// The sync of the journal's directory, which has a new segment.
    JournalDirectory,
    /// The application of a batch to the backend.
    BackendApply,
    /// The read of a session's state.
    Load,
    /// The write of lines to a recording.
    RecordWrite,
    /// A turn of the recorder; it fails by being skipped.
    RecordTurn,
}

/// One point's switch.
#[derive(Debug, Default)]
struct Switch {
    /// How often it still fails.
    left: AtomicU64,
    /// It fails each time when this many calls have come; 0 is never.
    every: AtomicU64,
    calls: AtomicU64,
}

/// How often each point still fails.
#[derive(Debug, Default)]
pub struct Faults {
    journal_write: Switch,
    journal_sync: Switch,
    journal_directory: Switch,
    backend_apply: Switch,
    load: Switch,
    record_write: Switch,
    record_turn: Switch,
}

impl Faults {
    /// The faults armed by the environment; usually none.
    pub fn from_environment() -> Self {
        Self::parse(&std::env::var(FAULT_VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let faults = Self::default();
        for item in text.split(',') {
            let (name, count) = item.split_once(':').unwrap_or((item, ""));
            let point = match name {
                "store_journal_write" => Point::JournalWrite,
                "store_journal_sync" => Point::JournalSync,
                "store_journal_directory" => Point::JournalDirectory,
                "store_backend_apply" => Point::BackendApply,
                "store_load" => Point::Load,
                "record_write" => Point::RecordWrite,
                "record_turn" => Point::RecordTurn,
                _ => continue,
            };
            match count.strip_prefix("every").map(str::parse) {
                Some(Ok(every)) => faults.arm_every(point, every),
                _ => faults.arm(point, count.parse().unwrap_or(u64::MAX)),
            }
        }
        faults
    }

    /// Makes a point fail the next `count` times; `u64::MAX` means always and 0 disarms.
    pub fn arm(&self, point: Point, count: u64) {
        self.switch(point).left.store(count, Ordering::Relaxed);
    }

    /// Makes every n-th call of a point fail; 0 disarms.
    pub fn arm_every(&self, point: Point, every: u64) {
        self.switch(point).every.store(every, Ordering::Relaxed);
    }

    /// Fails if the point is armed.
    pub fn check(&self, point: Point) -> io::Result<()> {
        let Switch { left, every, calls } = self.switch(point);
        let every = every.load(Ordering::Relaxed);
        if every > 0 && (calls.fetch_add(1, Ordering::Relaxed) + 1) % every == 0 {
            return Err(io::Error::other("injected fault"));
        }
        // A plain load keeps a locked instruction off the hot path.
        if left.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let take = |left: u64| match left {
            0 => None,
            u64::MAX => Some(u64::MAX),
            _ => Some(left - 1),
        };
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Err(io::Error::other("injected fault")),
            Err(_) => Ok(()),
        }
    }

    fn switch(&self, point: Point) -> &Switch {
        match point {
            Point::JournalWrite => &self.journal_write,
            Point::JournalSync => &self.journal_sync,
            Point::JournalDirectory => &self.journal_directory,
            Point::BackendApply => &self.backend_apply,
            Point::Load => &self.load,
            Point::RecordWrite => &self.record_write,
            Point::RecordTurn => &self.record_turn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_fails_as_often_as_the_variable_says() {
        let faults = Faults::parse("other:1,store_journal_write:2,store_backend_apply,record_write:every2");
        let failures = |point| (0..5).filter(|_| faults.check(point).is_err()).count();
        assert_eq!((failures(Point::JournalWrite), failures(Point::BackendApply)), (2, 5));
        assert_eq!(failures(Point::RecordWrite), 2);
        faults.arm(Point::BackendApply, 0);
        assert!(faults.check(Point::BackendApply).is_ok());
    }
}
