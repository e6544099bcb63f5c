//! Confining a shell: what can be done before its session is known, and the rest when it becomes that session.

use super::process::ShellProcess;
use super::{LiveShell, START_LIMIT, frames};
use crate::confine::{Ahead, Confinement, Entered, Preparation, Room, Step, for_another_sandbox};
use crate::facts::Fact;
use crate::spawn;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Preparation {
    /// Does it to a shell that is no session yet. A shell for which this fails must not be used.
    pub async fn apply(self, shell: &mut LiveShell) -> io::Result<()> {
        shell.ahead = match self.0 {
            Step::Filter(filter) => {
                frames::filter(&mut shell.channel, &filter).await?;
                Ahead::Filter
            }
            Step::Room(room) => {
                enter(shell, &room, frames::Part::Ahead).await?.wait_exit().await;
                Ahead::Room(Arc::clone(room.namespaces()))
            }
        };
        Ok(())
    }
}

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
        let ahead = std::mem::take(&mut shell.ahead);
        let before = match (&self.room, &ahead) {
            (Some(room), Ahead::Nothing) => Some(enter(shell, room, frames::Part::Whole).await?),
            (Some(room), Ahead::Room(shared)) if Arc::ptr_eq(room.namespaces(), shared) => None,
            (None, Ahead::Nothing) => None,
            (None, Ahead::Filter) if self.user.is_none() && self.fence.is_some() => None,
            _ => return Err(for_another_sandbox()),
        };
        shell.namespaces = self.namespaces().map(Arc::clone);
        shell.user = self.user;
        let restored = frames::take_over(&mut shell.channel, Some((self, ahead)), &shell.spec.rescue, facts).await;
        // It ends meanwhile, and must not be taken for a process of the session.
        if let Some(mut before) = before {
            before.wait_exit().await;
        }
        restored
    }
}

/// Has a shell enter a room. It continues in another process, which is a child of ours as the first one was. Gives the first
/// one, which ends.
async fn enter(shell: &mut LiveShell, room: &Room, part: frames::Part) -> io::Result<ShellProcess> {
    // The new process may end before we know its number, and must not be taken for a stray. It is made last, but only the
    // shell knows when; to learn that would take another round trip in each wake.
    let birth = spawn::births().read().await;
    let entered = tokio::time::timeout(START_LIMIT, frames::enter(&mut shell.channel, room, part)).await;
    let Entered { main, init } = entered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    spawn::awaited().insert(main);
    drop(birth);
    let before = std::mem::replace(&mut shell.process, ShellProcess::watch(main)?);
    shell.cage.move_in(main, init);
    Ok(before)
}
