//! The end of a command: what the driver said, what is left in the pipes, and what follows if the driver said nothing.

use super::{Done, ExitStatus, LiveShell, Stream};
use crate::facts;
use crate::stdio::{Read, Reader};
use crate::wire::{self, kind};
use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

/// What a command left in the background often still has a line to say; this long it may still say it here.
const BACKGROUND_GRACE: Duration = Duration::from_millis(3);
/// A process substitution is part of the command, though bash does not wait for it.
const SUBSTITUTION_GRACE: Duration = Duration::from_millis(200);

mod done {
    pub const FORKED: u32 = 1;
    pub const EXITING: u32 = 2;
    pub const SUBSTITUTION: u32 = 4;
    pub const STDIN_CHANGED: u32 = 8;
    pub const STDOUT_CHANGED: u32 = 16;
    pub const STDERR_CHANGED: u32 = 32;
    pub const NOEXEC: u32 = 64;
    pub const INTERRUPTED: u32 = 128;
}

impl LiveShell {
    /// The command ended and the driver told how.
    pub(super) async fn finish(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> io::Result<Box<Done>> {
        let unreadable = || io::Error::other("the driver's result cannot be read");
        let payload = self.finishing.clone().unwrap_or_default();
        let mut reader = wire::Reader::new(&payload);
        let status = reader.u32().ok_or_else(unreadable)? as i32;
        let flags = reader.u32().ok_or_else(unreadable)?;
        let facts = facts::read_all(&mut reader).map_err(|_| unreadable())?;
        let has = |bit: u32| flags & bit != 0;
        let exit = if has(done::EXITING) { self.wait_exit().await } else { None };
        let held = has(done::FORKED) || has(done::EXITING);
        let late =
            self.drain(held, has(done::SUBSTITUTION), has(done::STDOUT_CHANGED), has(done::STDERR_CHANGED), sink).await;
        self.finishing = None;
        let names =
            [(done::STDIN_CHANGED, "stdin"), (done::STDOUT_CHANGED, "stdout"), (done::STDERR_CHANGED, "stderr")];
        Ok(Box::new(Done {
            status: exit.map_or(status, ExitStatus::code),
            exit,
            facts: Some(facts),
            interrupted: has(done::INTERRUPTED),
            redirected: names.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, name)| name).collect(),
            noexec: has(done::NOEXEC),
            forked: held,
            late,
        }))
    }

    /// The shell went without a word from the driver: a signal, `exec`, or a closed socket.
    pub(super) async fn gone(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> io::Result<Box<Done>> {
        let mut rescued = Vec::new();
        let longest = (wire::HEADER_BYTES + wire::MAX_PAYLOAD) as u64;
        // Commands can write to this file too, so no more is read than a frame may have.
        let _ = File::open(&self.spec.rescue).map(|file| file.take(longest).read_to_end(&mut rescued));
        let _ = std::fs::remove_file(&self.spec.rescue);
        if let Some((kind::RUN, payload)) = self.channel.find(rescued) {
            // The shell ended only because its channel was closed; the command has the status it reported.
            let status = wire::Reader::new(&payload).u32().unwrap_or_default() as i32;
            self.finishing = Some(payload);
            let done = self.finish(sink).await?;
            return Ok(Box::new(Done { status, exit: self.ended, ..*done }));
        }
        let exit = self.ended.unwrap_or(ExitStatus::Signalled(9));
        let late = self.drain(true, false, false, false, sink).await;
        Ok(Box::new(Done {
            status: exit.code(),
            exit: Some(exit),
            facts: None,
            interrupted: false,
            redirected: Vec::new(),
            noexec: false,
            forked: true,
            late,
        }))
    }

    /// Takes what is left in the pipes. If something else may hold them they are given up: what still comes belongs to
    /// no later command.
    pub(super) async fn drain(
        &mut self,
        held: bool,
        substitution: bool,
        stdout_changed: bool,
        stderr_changed: bool,
        sink: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Vec<Reader> {
        let grace = if substitution { SUBSTITUTION_GRACE } else { BACKGROUND_GRACE };
        let deadline = tokio::time::Instant::now() + grace;
        let mut late = Vec::new();
        let slots =
            [(&mut self.stdout, Stream::Stdout, stdout_changed), (&mut self.stderr, Stream::Stderr, stderr_changed)];
        for (slot, stream, changed) in slots {
            let Some(reader) = slot else { continue };
            let mut sink = |bytes: &[u8]| sink(stream, bytes);
            let mut last = Read::Bytes;
            while last == Read::Bytes {
                last = reader.read_now(&mut sink);
            }
            if (held || changed) && last == Read::Empty {
                let until_end = async { while reader.read(&mut sink).await != Read::End {} };
                if tokio::time::timeout_at(deadline, until_end).await.is_ok() {
                    last = Read::End;
                }
            }
            if last == Read::End {
                *slot = None;
            } else if held || changed {
                late.extend(slot.take());
            }
        }
        late
    }
}
