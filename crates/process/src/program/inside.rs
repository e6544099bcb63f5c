//! Starting a program in a room, through the small program in `room/main.c` that enters it.

use crate::confine::{Confinement, ENTERED_BYTES, Entered, Room};
use crate::{confine, spawn, wire};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::Command;

/// What the program needs to enter a room, and where it answers.
pub(crate) struct Inside {
    room: Room,
    plan: OwnedFd,
    fence: OwnedFd,
    ruleset: OwnedFd,
    environment: OwnedFd,
    namespaces: Vec<OwnedFd>,
    status: OwnedFd,
    answer: OwnedFd,
    directory: OsString,
}

/// Where the program that was started answers.
pub(crate) struct Waiting {
    room: Room,
    answer: File,
}

impl Inside {
    /// For this confinement, which has a room, a directory inside, and the environment that the program finds there: entries
    /// that end in NUL.
    pub(crate) fn new(confinement: &Confinement, directory: &Path, environment: &[u8]) -> io::Result<Self> {
        let room = confinement.room.clone().ok_or_else(|| io::Error::other("there is no room to enter"))?;
        let fence = confinement.fence.as_ref().ok_or_else(|| io::Error::other("a room has a fence"))?;
        let (answer, status) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            plan: room.plan_file()?,
            fence: spawn::in_memory(c"shellkeep-fence", &fence.bytes())?,
            ruleset: fence.ruleset.try_clone()?,
            environment: spawn::in_memory(c"shellkeep-environment", environment)?,
            namespaces: room.descriptors()?,
            room,
            status,
            answer,
            directory: directory.as_os_str().to_owned(),
        })
    }

    /// The command that enters and becomes this program. `name` is what the program is called in its arguments. It starts
    /// with no environment, as it begins outside: its loader must not do what a session's variables ask for.
    pub(crate) fn command(&self, path: &OsStr, name: &OsStr) -> io::Result<Command> {
        let mut command = Command::new(format!("/proc/self/fd/{}", Room::program()?.as_raw_fd()));
        command.env_clear().arg("run");
        for descriptor in self.all() {
            command.arg(descriptor.as_raw_fd().to_string());
        }
        if self.namespaces.len() == 1 {
            command.arg("-1");
        }
        command.arg(&self.directory).arg(path).arg(name);
        Ok(command)
    }

    /// Between fork and exec: lets the program have what it needs.
    pub(crate) fn hand_over(&self) -> io::Result<()> {
        for descriptor in self.all() {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    }

    /// In the order in which they are named to it.
    fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = [&self.status, &self.plan, &self.fence, &self.ruleset, &self.environment];
        files.into_iter().chain(&self.namespaces).map(AsFd::as_fd)
    }

    /// Where the answer comes, taken before the rest goes to the program.
    pub(crate) fn waiting(&self) -> io::Result<Waiting> {
        Ok(Waiting { room: self.room.clone(), answer: File::from(self.answer.try_clone()?) })
    }
}

impl Waiting {
    /// Waits until the program is inside and behind its fence. Everything that it was given must be closed here.
    pub(crate) fn entered(mut self) -> io::Result<Entered> {
        let mut bytes = [0; ENTERED_BYTES];
        let early = |_| io::Error::other("the program that enters rooms ended at once");
        self.answer.read_exact(&mut bytes).map_err(early)?;
        let entered = self.room.entered(&bytes)?;
        let mut fence = [0; 8];
        self.answer.read_exact(&mut fence).map_err(early)?;
        confine::outcome(&mut wire::Reader::new(&fence))?;
        Ok(entered)
    }
}
