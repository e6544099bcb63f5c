//! Confining a shell that is about to become a session.

use super::process::ShellProcess;
use super::{LiveShell, START_LIMIT, frames};
use crate::confine::{Confinement, Entered, Room};
use crate::facts::Fact;
use crate::spawn;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Confinement {
    /// Has a shell become a session that is confined with everything it will start. A result that it cannot send goes to a
    /// file in `rescue`, because the usual place is out of its reach then. A shell for which this fails must not be used.
    pub async fn restore(
        self,
        shell: &mut LiveShell,
        rescue: &Path,
        facts: &[Fact],
    ) -> io::Result<Vec<(String, String)>> {
        if let Some(name) = shell.spec.rescue.file_name() {
            shell.spec.rescue = rescue.join(name);
        }
        let mut before = None;
        if let Some(room) = &self.room {
            before = Some(enter(shell, room).await?);
            shell.namespaces = self.namespaces().map(Arc::clone);
        }
        shell.user = self.user;
        let restored = frames::take_over(&mut shell.channel, Some(self), &shell.spec.rescue, facts).await;
        // It ends meanwhile, and must not be taken for a process of the session.
        if let Some(mut before) = before {
            before.wait_exit().await;
        }
        restored
    }
}

/// Has a shell enter a room. It continues in another process, which is a child of ours as the first one was. Gives the first
/// one, which ends.
async fn enter(shell: &mut LiveShell, room: &Room) -> io::Result<ShellProcess> {
    // The new process may end before we know its number, and must not be taken for a stray.
    let birth = spawn::births().read().await;
    let entered = tokio::time::timeout(START_LIMIT, frames::enter(&mut shell.channel, room)).await;
    let Entered { main, init } = entered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    spawn::awaited().insert(main);
    drop(birth);
    let before = std::mem::replace(&mut shell.process, ShellProcess::watch(main)?);
    shell.cage.move_in(main, init);
    Ok(before)
}
