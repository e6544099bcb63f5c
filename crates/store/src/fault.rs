//! Switches that make the store fail on purpose, so that tests can show that a failing disk loses nothing.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that arms faults in a running daemon: `store_journal_write`, `store_backend_apply`, each with an
/// optional `:count`, separated by commas. Other names belong to other parts of the daemon and are passed over.
pub const FAULT_VARIABLE: &str = "SHELLKEEP_FAULT";

/// Where a fault can be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The write of a line to the journal.
    JournalWrite,
    /// The application of a batch to the backend.
    BackendApply,
}

/// How often each point still fails.
#[derive(Debug, Default)]
pub struct Faults {
    journal_write: AtomicU64,
    backend_apply: AtomicU64,
}

impl Faults {
    /// What the environment arms; usually nothing.
    pub fn from_environment() -> Self {
        Self::parse(&std::env::var(FAULT_VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let faults = Self::default();
        for item in text.split(',') {
            let (name, count) = item.split_once(':').unwrap_or((item, ""));
            let count = count.parse().unwrap_or(u64::MAX);
            match name {
                "store_journal_write" => faults.arm(Point::JournalWrite, count),
                "store_backend_apply" => faults.arm(Point::BackendApply, count),
                _ => {}
            }
        }
        faults
    }

    /// Makes a point fail the next `count` times; `u64::MAX` is for ever and 0 disarms.
    pub fn arm(&self, point: Point, count: u64) {
        self.counter(point).store(count, Ordering::Relaxed);
    }

    /// Fails if the point is armed.
    pub fn check(&self, point: Point) -> io::Result<()> {
        let counter = self.counter(point);
        // The plain load keeps the hot path free of a locked instruction.
        if counter.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let take = |left: u64| match left {
            0 => None,
            u64::MAX => Some(u64::MAX),
            _ => Some(left - 1),
        };
        match counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Err(io::Error::other("injected fault")),
            Err(_) => Ok(()),
        }
    }

    fn counter(&self, point: Point) -> &AtomicU64 {
        match point {
            Point::JournalWrite => &self.journal_write,
            Point::BackendApply => &self.backend_apply,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_fails_as_often_as_the_variable_says() {
        let faults = Faults::parse("other:1,store_journal_write:2,store_backend_apply");
        let failures = |point| (0..5).filter(|_| faults.check(point).is_err()).count();
        assert_eq!((failures(Point::JournalWrite), failures(Point::BackendApply)), (2, 5));
        faults.arm(Point::BackendApply, 0);
        assert!(faults.check(Point::BackendApply).is_ok());
    }
}
