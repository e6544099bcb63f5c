//! What is in the frames that a shell and a service both get.

use super::start_error::START_LIMIT;
use crate::channel::Channel;
use crate::confine::{self, Confinement, Entered, Room};
use crate::facts::{self, Bytes, Fact};
use crate::locale;
use crate::wire::{self, kind};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What comes along with a command; `RUN_…` in `descriptors.h`.
pub(crate) mod flag {
    pub const STDIN: u32 = 1;
    pub const STDOUT: u32 = 2;
    pub const STDERR: u32 = 4;
    pub const TTY: u32 = 8;
    pub const CWD: u32 = 16;
}

/// Has a driver enter a room. It goes on in another process.
pub(super) async fn enter(channel: &mut Channel, room: &Room) -> io::Result<Entered> {
    let mut frame = channel.frame(kind::ROOM);
    frame.raw(room.plan());
    channel.send(frame, &room.descriptors()?).await?;
    let Some((kind::ROOM, payload)) = channel.next().await else {
        return Err(io::Error::other("the shell ended while it entered its room"));
    };
    let bytes = payload.as_slice().try_into().map_err(|_| io::Error::other("the driver's answer cannot be read"))?;
    room.entered(confine::entered_numbers(bytes))
}

/// Has a shell take over a state, confined if it is to be. Gives what could not be taken over, with the reason.
pub(super) async fn take_over(
    channel: &mut Channel,
    confinement: Option<Confinement>,
    rescue: &Path,
    facts: &[Fact],
) -> io::Result<Vec<(String, String)>> {
    restore(channel, confinement, rescue, facts).await?;
    let restored = tokio::time::timeout(START_LIMIT, restored(channel)).await;
    restored.map_err(|_| {
        let seconds = START_LIMIT.as_secs();
        io::Error::new(io::ErrorKind::TimedOut, format!("bash did not take over the state within {seconds} seconds"))
    })?
}

/// Has a driver take over a state, and before that confine itself and everything it will start, if it is to be confined. What
/// came of it is for [`restored`] to say.
pub(crate) async fn restore(
    channel: &mut Channel,
    confinement: Option<Confinement>,
    rescue: &Path,
    facts: &[Fact],
) -> io::Result<()> {
    let mut frame = channel.frame(kind::RESTORE);
    frame.bytes(&confinement.as_ref().map(Confinement::bytes).unwrap_or_default());
    frame.bytes(rescue.as_os_str().as_bytes());
    frame.bytes(locale::named_in(facts).unwrap_or_default());
    facts::write_all(facts, &mut frame);
    let ruleset = confinement.and_then(|confinement| confinement.fence).map(|fence| fence.ruleset);
    channel.send(frame, ruleset.as_slice()).await
}

/// What a driver could not take over, with the reason. A shell for which this fails must not be used.
pub(crate) async fn restored(channel: &mut Channel) -> io::Result<Vec<(String, String)>> {
    let Some((kind::RESTORE, payload)) = channel.next().await else {
        return Err(io::Error::other("the shell ended while it took over the session's state"));
    };
    let mut reader = wire::Reader::new(&payload);
    confine::outcome(&mut reader)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let problems = reader.list(|r| Some((text(r.bytes()?), text(r.bytes()?))));
    Ok(problems.unwrap_or_default())
}

/// A command for the driver, and what holds for it alone.
pub(crate) fn write_command(
    frame: &mut wire::Writer,
    flags: u32,
    cwd: Option<&[u8]>,
    env: &[(Bytes, Bytes)],
    text: &[u8],
) {
    frame.u32(flags);
    if let Some(cwd) = cwd {
        frame.bytes(cwd);
    }
    frame.list(env, |w, (name, value)| {
        w.bytes(name).bytes(value);
    });
    frame.bytes(text);
}
