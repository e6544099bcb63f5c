//! What is in the frames that a shell and a service both get.

use crate::channel::Channel;
use crate::confine::{self, Confinement, Entered, Room};
use crate::facts::{self, Bytes, Fact};
use crate::wire::{self, kind};
use std::io;
use std::path::Path;

/// What comes along with a command; `RUN_…` in `descriptors.h`.
pub(crate) mod flag {
    pub const STDIN: u32 = 1;
    pub const STDOUT: u32 = 2;
    pub const STDERR: u32 = 4;
    pub const TTY: u32 = 8;
    pub const CWD: u32 = 16;
}

/// Has a driver confine itself.
pub(crate) async fn confine(channel: &mut Channel, confinement: Confinement) -> io::Result<()> {
    let mut frame = channel.frame(kind::CONFINE);
    frame.raw(&confinement.fence_bytes());
    channel.send(frame, &[confinement.ruleset]).await?;
    match channel.next().await {
        Some((kind::CONFINE, payload)) => confine::outcome(&payload),
        _ => Err(io::Error::other("the shell ended while it was confined")),
    }
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

/// A state for the driver to take over.
pub(crate) fn write_restore(frame: &mut wire::Writer, rescue: &Path, facts: &[Fact]) {
    frame.bytes(std::os::unix::ffi::OsStrExt::as_bytes(rescue.as_os_str()));
    facts::write_all(facts, frame);
}

/// What the driver could not take over.
pub(crate) fn read_problems(payload: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let problems = wire::Reader::new(payload).list(|r| Some((text(r.bytes()?), text(r.bytes()?))));
    problems.unwrap_or_default()
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
