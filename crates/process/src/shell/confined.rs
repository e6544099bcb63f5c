//! Confining a shell that is about to become a session.

use super::process::ShellProcess;
use super::{LiveShell, START_LIMIT, frames};
use crate::confine::{Confinement, Entered, Room};
use crate::spawn;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Confinement {
    /// Has a shell confine itself and everything it will start. A result that it cannot send goes to a file in `rescue`,
    /// because the usual place is out of its reach then. A shell for which this fails must not be used.
    pub async fn put_on(self, shell: &mut LiveShell, rescue: &Path) -> io::Result<()> {
        if let Some(name) = shell.spec.rescue.file_name() {
            shell.spec.rescue = rescue.join(name);
        }
        if let Some(room) = &self.room {
            enter(shell, room).await?;
            shell.namespaces = self.namespaces().map(Arc::clone);
        }
        let confined = frames::confine(&mut shell.channel, self);
        tokio::time::timeout(START_LIMIT, confined).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// Has a shell enter a room. It continues in another process, which is a child of ours as the first one was.
async fn enter(shell: &mut LiveShell, room: &Room) -> io::Result<()> {
    // The new process may end before we know its number, and must not be taken for a stray.
    let birth = spawn::births().read().await;
    let entered = tokio::time::timeout(START_LIMIT, frames::enter(&mut shell.channel, room)).await;
    let Entered { main, init } = entered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    spawn::awaited().insert(main);
    drop(birth);
    let mut before = std::mem::replace(&mut shell.process, ShellProcess::watch(main)?);
    shell.cage.move_in(main, init);
    before.wait_exit().await;
    Ok(())
}
