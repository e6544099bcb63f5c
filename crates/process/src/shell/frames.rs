//! What is in the frames that a shell and a service both get.

use super::start_error::START_LIMIT;
use crate::channel::Channel;
use crate::confine::{self, Ahead, Confinement, Entered, Room};
use crate::facts::{self, Fact};
use crate::locale;
use crate::run::RunSpec;
use crate::wire::{self, kind};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What is sent with a command; `RUN_…` in `descriptors.h`.
pub(crate) mod flag {
    pub const STDIN: u32 = 1;
    pub const STDOUT: u32 = 2;
    pub const STDERR: u32 = 4;
    pub const TTY: u32 = 8;
    pub const CWD: u32 = 16;
    pub const UNTIL: u32 = 32;
}

/// A part of a state that a shell could not take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRestored {
    /// As the driver calls it.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// How much of a room is entered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Whole,
    /// What is no session's own.
    Ahead,
}

/// Has a driver put on a filter of system calls.
pub(super) async fn filter(channel: &mut Channel, filter: &[libc::sock_filter]) -> io::Result<()> {
    let mut frame = channel.frame(kind::FILTER);
    frame.raw(&confine::filter_bytes(filter));
    channel.send(frame, &[], START_LIMIT).await?;
    let answer = tokio::time::timeout(START_LIMIT, channel.next()).await;
    let Ok(Some((kind::FILTER, payload))) = answer else {
        return Err(io::Error::other("the shell did not put on its filter of system calls"));
    };
    confine::shell_outcome(&mut wire::Reader::new(&payload), &[])
}

/// Has a driver enter a room. It goes on in another process.
pub(super) async fn enter(channel: &mut Channel, room: &Room, part: Part) -> io::Result<Entered> {
    let mut frame = channel.frame(match part {
        Part::Whole => kind::ROOM,
        Part::Ahead => kind::ROOM_AHEAD,
    });
    frame.raw(&room.plan());
    channel.send(frame, &room.descriptors()?, START_LIMIT).await?;
    let Some((kind::ROOM, payload)) = channel.next().await else {
        return Err(gone("the shell ended while it entered its room"));
    };
    let bytes = payload.as_slice().try_into().map_err(|_| io::Error::other("the driver's answer cannot be read"))?;
    room.entered(bytes)
}

/// Has a shell take over a state, confined if it is to be. Gives what could not be taken over.
pub(super) async fn take_over(
    channel: &mut Channel,
    confinement: Option<(Confinement, Ahead)>,
    rescue: &Path,
    facts: &[Fact],
) -> io::Result<Vec<NotRestored>> {
    let room = confinement.as_ref().and_then(|(confinement, _)| confinement.room.clone());
    restore(channel, confinement, rescue, facts).await?;
    let own_plan = room.as_ref().map(Room::own_plan).unwrap_or_default();
    let restored = tokio::time::timeout(START_LIMIT, restored(channel, own_plan)).await;
    restored.map_err(|_| {
        let seconds = START_LIMIT.as_secs();
        io::Error::new(io::ErrorKind::TimedOut, format!("bash did not take over the state within {seconds} seconds"))
    })?
}

/// Has a driver take over a state, and before that do what was not done ahead to confine itself and everything it will
/// start, if it is to be confined. What came of it is for [`restored`] to say.
pub(crate) async fn restore(
    channel: &mut Channel,
    confinement: Option<(Confinement, Ahead)>,
    rescue: &Path,
    facts: &[Fact],
) -> io::Result<()> {
    let mut frame = channel.frame(kind::RESTORE);
    frame.bytes(&confinement.as_ref().map(|(confinement, ahead)| confinement.bytes(ahead)).unwrap_or_default());
    frame.bytes(rescue.as_os_str().as_bytes());
    frame.bytes(locale::named_in(facts).unwrap_or_default());
    facts::write_all(facts, &mut frame);
    let ruleset = confinement.and_then(|(confinement, _)| confinement.fence).map(|fence| fence.ruleset);
    channel.send(frame, ruleset.as_slice(), START_LIMIT).await
}

/// What a driver could not take over. `own_plan` is what it had to bring into its room. A shell for which
/// this fails must not be used.
pub(crate) async fn restored(channel: &mut Channel, own_plan: &[u8]) -> io::Result<Vec<NotRestored>> {
    let Some((kind::RESTORE, payload)) = channel.next().await else {
        return Err(gone("the shell ended while it took over the session's state"));
    };
    let mut reader = wire::Reader::new(&payload);
    confine::shell_outcome(&mut reader, own_plan)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let problems = reader.list(|r| Some(NotRestored { what: text(r.bytes()?), why: text(r.bytes()?) }));
    Ok(problems.unwrap_or_default())
}

fn gone(when: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, when)
}

/// Whether a shell did not do what it was asked for because it has ended.
pub fn is_gone(error: &io::Error) -> bool {
    // The second: the request could not even be sent.
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe)
}

/// A command for the driver, and what holds for it alone. `flags` are those of the descriptors that come along.
pub(crate) fn write_command(frame: &mut wire::Writer, flags: u32, run: RunSpec<'_>) {
    let cwd = if run.cwd.is_some() { flag::CWD } else { 0 };
    let until = if run.until.is_some() { flag::UNTIL } else { 0 };
    frame.u32(flags | cwd | until);
    if let Some(until) = run.until {
        frame.u64(until.nanoseconds());
    }
    if let Some(cwd) = run.cwd {
        frame.bytes(cwd);
    }
    frame.list(run.env, |w, (name, value)| {
        w.bytes(name).bytes(value);
    });
    frame.bytes(run.command);
}
