//! Telling a supervisor that the daemon is ready: one line break on a descriptor it gave us.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// A descriptor to say so on.
pub struct Ready(File);

impl Ready {
    /// Takes descriptor `fd`. It is opened again through `/proc`, which needs no claim of ownership over a number somebody
    /// wrote on the command line, and fails cleanly if the number is wrong.
    pub fn open(fd: u32) -> io::Result<Self> {
        OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}")).map(Self)
    }

    /// Says so. A supervisor that has gone does not stop the daemon.
    pub fn tell(mut self) {
        if let Err(error) = self.0.write_all(b"\n") {
            tracing::warn!(%error, "nobody could be told that the daemon is ready");
        }
    }
}
