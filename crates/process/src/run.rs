//! What a shell or a service is to run, and until when it may begin.

use crate::facts::Bytes;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct RunSpec<'a> {
    /// The text, without NUL.
    pub command: &'a [u8],
    /// Directory for this call only.
    pub cwd: Option<&'a [u8]>,
    /// Exported variables for this call only.
    pub env: &'a [(Bytes, Bytes)],
    /// The driver does not begin it after that.
    pub until: Option<Deadline>,
}

/// Until when a command may begin. We may be stopped between the decision that it may and the moment when the shell begins, for
/// any length of time; so the driver looks at the clock, as the last thing before the command.
///
/// A time of the clock that counts while the machine is suspended, as the driver reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Duration);

impl Deadline {
    /// At that time.
    pub fn at(at: Instant) -> Self {
        // In this order: if we are stopped between the two, the deadline is earlier.
        let now = clock_gettime(ClockId::Boottime);
        let left = at.saturating_duration_since(Instant::now());
        Self(Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32) + left)
    }

    /// Nanoseconds since the machine was started.
    pub(crate) fn nanoseconds(self) -> u64 {
        self.0.as_nanos() as u64
    }
}
