//! Confining a shell: what can be done before its session is known, and the rest when it becomes that session.

use super::frames::NotRestored;
use super::process::ShellProcess;
use super::{LiveShell, START_LIMIT, frames};
use crate::confine::{Ahead, Confinement, Preparation, Room, Step, for_another_sandbox};
use crate::facts::Fact;
use crate::spawn;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl LiveShell {
    /// Does ahead what can be done before its session is known. A shell for which this fails must not be used.
    pub async fn confine_ahead(&mut self, preparation: Preparation) -> io::Result<()> {
        self.ahead = match preparation.0 {
            Step::Filter(filter) => {
                frames::filter(&mut self.channel, &filter).await?;
                Ahead::Filter
            }
            Step::Room(room) => {
                self.enter(&room, frames::Part::Ahead).await?.wait_exit().await;
                Ahead::Room(Arc::clone(room.namespaces()))
            }
        };
        Ok(())
    }

    /// Becomes a session that is confined with everything it will start. A result that it cannot send goes to a file in
    /// `rescue`, because the usual place is out of its reach then. A shell for which this fails must not be used.
    pub async fn restore_confined(
        &mut self,
        confinement: Confinement,
        rescue: &Path,
        facts: &[Fact],
    ) -> io::Result<Vec<NotRestored>> {
        if let Some(name) = self.spec.rescue.file_name() {
            self.spec.rescue = rescue.join(name);
        }
        let ahead = std::mem::take(&mut self.ahead);
        let before = match (&confinement.room, &ahead) {
            (Some(room), Ahead::Nothing) => Some(self.enter(room, frames::Part::Whole).await?),
            (Some(room), Ahead::Room(shared)) if Arc::ptr_eq(room.namespaces(), shared) => None,
            (None, Ahead::Nothing) => None,
            (None, Ahead::Filter) if confinement.user.is_none() && confinement.fence.is_some() => None,
            _ => return Err(for_another_sandbox()),
        };
        self.namespaces = confinement.namespaces().map(Arc::clone);
        self.user = confinement.user;
        let confinement = Some((confinement, ahead));
        let restored = frames::take_over(&mut self.channel, confinement, &self.spec.rescue, facts).await;
        // It ends meanwhile, and must not be taken for a process of the session.
        if let Some(mut before) = before {
            before.wait_exit().await;
        }
        restored
    }

    /// Enters a room. The shell continues in another process, which is a child of ours as the first one was. Gives the first
    /// one, which ends.
    async fn enter(&mut self, room: &Room, part: frames::Part) -> io::Result<ShellProcess> {
        // The new process may end before we know its number, and must not be taken for a stray. It is made last, but only the
        // shell knows when; to learn that would take another round trip in each wake.
        let birth = spawn::births().read().await;
        let entered = tokio::time::timeout(START_LIMIT, frames::enter(&mut self.channel, room, part)).await;
        let entered = entered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        spawn::awaited().insert(entered.main);
        drop(birth);
        let before = std::mem::replace(&mut self.process, ShellProcess::watch(entered.main)?);
        self.descendants.cage.move_in(entered);
        Ok(before)
    }
}
