//! Notifies a supervisor that the daemon is ready: one line break on an inherited descriptor, which is then closed.

use rustix::fs::{OFlags, fcntl_getfl};
use shellkeep_process::own;
use std::fs::File;
use std::io::{self, Write as _};

/// The descriptor to write to.
pub struct Ready(File);

impl Ready {
    /// Takes descriptor `fd`. To be called before this process opens others.
    pub fn open(fd: u32) -> io::Result<Self> {
        let taken = own::take_inherited(fd)?;
        if fcntl_getfl(&taken)? & OFlags::RWMODE == OFlags::RDONLY {
            return Err(io::Error::other("it is open for reading only"));
        }
        Ok(Self(taken.into()))
    }

    /// Reports readiness. A supervisor that is gone does not stop the daemon.
    pub fn tell(mut self) {
        if let Err(error) = self.0.write_all(b"\n") {
            tracing::warn!(%error, "cannot report readiness");
        }
    }
}
