//! The end of a command: what the driver said, what is left in the pipes, and what follows if the driver said nothing.

use super::{ExitStatus, Finishing, LiveShell, Progress, Report};
use crate::facts;
use crate::outputs::{Outputs, Stream};
use crate::stdio::{CommandTerminal, Reader};
use crate::wire::{self, kind};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// What a command left in the background often still has a line to say; this long it may still say it here.
const BACKGROUND_GRACE: Duration = Duration::from_millis(3);
/// A process substitution is part of the command, though bash does not wait for it.
const SUBSTITUTION_GRACE: Duration = Duration::from_millis(200);

/// What a report says about its command; `DONE_…` in `descriptors.h`.
mod flag {
    pub const FORKED: u32 = 1;
    pub const EXITING: u32 = 2;
    pub const SUBSTITUTION: u32 = 4;
    pub const STDIN_CHANGED: u32 = 8;
    pub const STDOUT_CHANGED: u32 = 16;
    pub const STDERR_CHANGED: u32 = 32;
    pub const NOEXEC: u32 = 64;
    pub const INTERRUPTED: u32 = 128;
    pub const HOMELESS: u32 = 256;
}

impl Finishing {
    /// A command whose end was reported. Its terminal is dropped before the output is drained, whose end it would hide.
    pub(super) fn of(payload: Vec<u8>, terminal: Option<CommandTerminal>) -> Self {
        Self { payload, unread: terminal.map(CommandTerminal::unread).unwrap_or_default() }
    }
}

impl LiveShell {
    /// Reads the driver's report and drains the pipes. May be dropped and called again: the report, which can be large, is
    /// taken apart only at the end.
    pub(super) async fn finish(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> io::Result<Box<Report>> {
        let unreadable = || io::Error::other("the driver's result cannot be read");
        let opened = self.finishing.as_ref().and_then(|finishing| open_report(&finishing.payload));
        let (_, flags, _) = opened.ok_or_else(unreadable)?;
        let has = |bit: u32| flags & bit != 0;
        let is_exiting = has(flag::EXITING);
        let exit = if is_exiting { self.process.wait_exit().await } else { self.process.ended };
        let late = drain(&mut self.outputs, &mut self.grace_until, flags, sink).await;
        let Finishing { payload, unread } = self.finishing.take().ok_or_else(unreadable)?;
        let (status, _, mut rest) = open_report(&payload).ok_or_else(unreadable)?;
        let facts = facts::read_all(&mut rest).map_err(|_| unreadable())?;
        let names =
            [(flag::STDIN_CHANGED, "stdin"), (flag::STDOUT_CHANGED, "stdout"), (flag::STDERR_CHANGED, "stderr")];
        Ok(Box::new(Report {
            status: exit.filter(|_| is_exiting).map_or(status, ExitStatus::code),
            exit,
            facts,
            interrupted: has(flag::INTERRUPTED),
            redirected: names.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, name)| name).collect(),
            noexec: has(flag::NOEXEC),
            homeless: has(flag::HOMELESS),
            forked: has(flag::FORKED | flag::EXITING),
            late,
            unread,
        }))
    }

    /// The shell ended without a frame from the driver: a signal, `exec`, or a closed socket.
    pub(super) async fn gone(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> io::Result<Progress> {
        let mut rescued = Vec::new();
        let longest = (wire::HEADER_BYTES + wire::MAX_PAYLOAD) as u64;
        // Commands can write to this file too, so no more is read than a frame may have, and what they put in its place is
        // neither followed nor waited for.
        let _ = open_regular(&self.spec.rescue).map(|file| file.take(longest).read_to_end(&mut rescued));
        let _ = std::fs::remove_file(&self.spec.rescue);
        if let Some((kind::RUN, payload)) = self.channel.find(rescued) {
            // The shell ended only because its channel was closed; the command has the status it reported.
            self.finishing = Some(Finishing::of(payload, self.terminal.take()));
            return self.finish(sink).await.map(Progress::Reported);
        }
        self.terminal = None;
        let exit = self.process.ended.unwrap_or(ExitStatus::Signalled(9));
        let late = drain(&mut self.outputs, &mut self.grace_until, flag::FORKED, sink).await;
        Ok(Progress::ShellGone { exit, late })
    }
}

/// Reads what is left in the pipes after a command whose report has these flags. May be dropped and called again.
async fn drain(
    outputs: &mut Outputs,
    grace_until: &mut Option<Instant>,
    flags: u32,
    sink: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Vec<Reader> {
    let has = |bits: u32| flags & bits != 0;
    let grace = if has(flag::SUBSTITUTION) { SUBSTITUTION_GRACE } else { BACKGROUND_GRACE };
    // One that was dropped goes on with the same grace: with a new one each time, what never stops writing could hold up
    // the end of its command for as long.
    let deadline = *grace_until.get_or_insert_with(|| Instant::now() + grace);
    let left = flag::FORKED | flag::EXITING;
    let held = [has(left | flag::STDOUT_CHANGED), has(left | flag::STDERR_CHANGED)];
    outputs.drain(held, deadline, sink).await
}

/// A report's status, its flags, and what follows them.
fn open_report(payload: &[u8]) -> Option<(i32, u32, wire::Reader<'_>)> {
    let mut reader = wire::Reader::new(payload);
    Some((reader.u32()? as i32, reader.u32()?, reader))
}

/// Opens a file that others can replace: never what a link leads to, nor a pipe or a device.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_puts_in_the_place_of_its_result_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        assert!(open_regular(&at("file")).is_ok());
        for wrong in ["link", "pipe", "missing"] {
            assert!(open_regular(&at(wrong)).is_err(), "{wrong}");
        }
        assert!(open_regular(home.path()).is_err());
    }
}
