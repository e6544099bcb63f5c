//! Confining a shell that is about to become a session.

use super::{LiveShell, START_LIMIT, frames};
use crate::confine::Confinement;
use std::io;
use std::path::Path;

impl Confinement {
    /// Has a shell confine itself and everything it will start. A result that it cannot send goes to a file in `rescue`,
    /// because the usual place is out of its reach then. A shell for which this fails must not be used.
    pub async fn put_on(self, shell: &mut LiveShell, rescue: &Path) -> io::Result<()> {
        if let Some(name) = shell.spec.rescue.file_name() {
            shell.spec.rescue = rescue.join(name);
        }
        let confined = frames::confine(&mut shell.channel, self);
        tokio::time::timeout(START_LIMIT, confined).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}
