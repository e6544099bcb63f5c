//! Notifies a supervisor that the daemon is ready: one line break on an inherited descriptor.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// The descriptor to write to.
pub struct Ready(File);

impl Ready {
    /// Takes descriptor `fd`. It is opened again through `/proc`, which does not need to take ownership of a number
    /// from the command line, and fails cleanly if the number is wrong.
    pub fn open(fd: u32) -> io::Result<Self> {
        OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}")).map(Self)
    }

    /// Reports readiness. A supervisor that is gone does not stop the daemon.
    pub fn tell(mut self) {
        if let Err(error) = self.0.write_all(b"\n") {
            tracing::warn!(%error, "cannot report readiness");
        }
    }
}
