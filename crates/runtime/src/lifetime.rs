//! How long the daemon has been up, and whether it still accepts commands or is stopping.

use crate::ops::OpError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The lifetime of a daemon.
#[derive(Debug)]
pub(crate) struct Lifetime {
    started: Instant,
    draining: AtomicBool,
    stopping: AtomicBool,
}

impl Lifetime {
    /// A daemon that starts now.
    pub(crate) fn begin() -> Self {
        Self { started: Instant::now(), draining: AtomicBool::new(false), stopping: AtomicBool::new(false) }
    }

    /// Time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.uptime().as_millis()).unwrap_or(u64::MAX)
    }

    /// From now on no new work is accepted; what runs may finish, and everything can still be read.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether new work is rejected, because the daemon is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Rejects new work while the daemon is about to stop.
    pub(crate) fn check_accepting(&self) -> Result<(), OpError> {
        if self.is_draining() { Err(OpError::ShuttingDown) } else { self.check_running() }
    }

    /// From now on no operation is accepted.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether the daemon is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Rejects an operation while the daemon is stopping.
    pub(crate) fn check_running(&self) -> Result<(), OpError> {
        if self.is_stopping() { Err(OpError::ShuttingDown) } else { Ok(()) }
    }
}
