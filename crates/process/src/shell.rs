//! A live bash under the driver. One value owns one process; dropping it ends the process and everything it started.
//!
//! `ShellSpec` describes a shell, [`LiveShell::start`] makes it live. A command is [`LiveShell::begin`] and then
//! [`LiveShell::progress`] until it says that the command is done or the shell is gone.

mod confined;
mod descendants;
mod ends;
mod finish;
pub(crate) mod frames;
mod process;
mod start_error;

use crate::cage::Cage;
use crate::channel::Channel;
use crate::confine::{AgentUser, Ahead, Namespaces, for_another_sandbox};
use crate::exit::ExitStatus;
use crate::facts::Fact;
use crate::outputs::{Outputs, Stream};
use crate::run::RunSpec;
use crate::spawn::{Born, Entrance};
use crate::stdio::{CommandTerminal, Reader, Writer};
use crate::wire::{self, kind};
use crate::{handle, spawn};
pub use descendants::{Descendants, LimitsMet};
pub use ends::{Ends, Stdin};
pub use frames::{NotRestored, is_gone};
use frames::{flag, write_command};
use process::ShellProcess;
pub use process::{Ask, INTERRUPT};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::Signal;
pub(crate) use start_error::START_LIMIT;
pub use start_error::StartError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Exit status of a driver that found a bash it does not know; `EXIT_UNSUPPORTED` in `driver.c`.
const UNSUPPORTED: i32 = 96;
/// How long a fork may take before the shell that should do it counts as stuck. It takes less than a millisecond.
const FORK_LIMIT: Duration = Duration::from_secs(5);

/// How to start a shell.
#[derive(Debug, Clone)]
pub struct ShellSpec {
    /// The bash to run.
    pub bash: PathBuf,
    /// Where the driver leaves a result when the command has closed its socket. Must not exist.
    pub rescue: PathBuf,
}

/// Where a command's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// Into a pipe of its own.
    Apart,
    /// Into the pipe of its standard output, so that the order of the bytes is the order of the writes.
    Merged,
}

/// What the driver reported about a command that ended.
#[derive(Debug)]
pub struct Report {
    /// `$?` afterwards; the exit code of the shell if it ended.
    pub status: i32,
    /// How the shell ended, if it did.
    pub exit: Option<ExitStatus>,
    /// What the command changed.
    pub facts: Vec<Fact>,
    /// Whether it was interrupted by [`LiveShell::ask`].
    pub interrupted: bool,
    /// Standard descriptors that `exec` redirected; the redirection ends with the command.
    pub redirected: Vec<&'static str>,
    /// Whether `set -n` was on; it ends with the command.
    pub noexec: bool,
    /// Whether it ran in the directory of its call while the session's own was gone.
    pub homeless: bool,
    /// Whether it started processes.
    pub forked: bool,
    /// Output pipes that a background process still holds open.
    pub late: Vec<Reader>,
    /// What was typed at its terminal and that it did not read.
    pub unread: Vec<u8>,
}

/// What happened while a command ran.
#[derive(Debug)]
pub enum Progress {
    /// Output was handed on; there may be more.
    Output,
    /// The command ended and the driver reported the result.
    Reported(Box<Report>),
    /// The shell ended without a report, so what the command changed is unknown.
    ShellGone {
        /// How it ended.
        exit: ExitStatus,
        /// Output pipes that a background process still holds open.
        late: Vec<Reader>,
    },
    /// The command was not run: the directory for this call cannot be entered, for this reason.
    BadCwd(String),
    /// The command was not run, for this reason.
    Refused(String),
    /// The command was not run: its deadline had passed.
    TooLate,
}

/// Where a shell comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellOrigin {
    /// Its version, as bash says it.
    pub version: String,
    /// Whether it was forked, and not started.
    pub is_forked: bool,
}

/// A command that has ended, while its output is still being read.
#[derive(Debug, Clone)]
struct Finishing {
    /// What the driver reported.
    payload: Vec<u8>,
    /// What was typed at its terminal and that it did not read.
    unread: Vec<u8>,
}

/// A live bash.
#[derive(Debug)]
pub struct LiveShell {
    process: ShellProcess,
    channel: Channel,
    /// What its commands have started.
    pub descendants: Descendants,
    spec: ShellSpec,
    origin: ShellOrigin,
    /// Pipes stay from command to command as long as no other process can hold them.
    outputs: Outputs,
    /// The terminal of the running command. Held until its end, so that what it did not read is not lost.
    terminal: Option<CommandTerminal>,
    /// The result of the running command, once it is there and while its output is still being read.
    finishing: Option<Finishing>,
    /// Until when what the running command left behind may still write its output. Set at its end.
    grace_until: Option<Instant>,
    /// Kept for the other processes of its session.
    namespaces: Option<Arc<Namespaces>>,
    /// What was done to it before its session was known.
    ahead: Ahead,
    /// Whose it is, if not the daemon's user's.
    user: Option<AgentUser>,
}

impl LiveShell {
    /// Starts a bash, puts it into its cage, and waits until the driver is there.
    pub async fn start(spec: ShellSpec, cage: Cage) -> Result<Self, StartError> {
        let (ours, theirs) = spawn::channel()?;
        let channel = Channel::new(ours)?;
        let born = spawn::bash(&spec.bash, theirs.as_fd(), cage.mark().as_deref(), cage.entrance().as_ref());
        let born = born.map_err(|error| StartError::of(&spec.bash, error))?;
        drop(theirs);
        let mut shell = Self::of(born, spec, cage, channel, ShellOrigin::default())?;
        let hello = tokio::time::timeout(START_LIMIT, shell.reply()).await.map_err(|_| StartError::Stuck)?;
        match hello {
            Some((kind::HELLO, payload)) => {
                let version = wire::Reader::new(&payload).bytes().unwrap_or_default();
                shell.origin.version = String::from_utf8_lossy(&version).into_owned();
                Ok(shell)
            }
            _ => Err(unsupported(&shell.spec.bash, shell.process.ended)),
        }
    }

    /// A process of ours, in its cage from now on, and ended when this is dropped.
    pub(crate) fn of(
        born: Born,
        spec: ShellSpec,
        mut cage: Cage,
        channel: Channel,
        origin: ShellOrigin,
    ) -> Result<Self, StartError> {
        let process = ShellProcess::watch(born.pid)?;
        let enclosed = cage.receive(born);
        let shell = Self {
            process,
            channel,
            descendants: Descendants::of(cage),
            spec,
            origin,
            outputs: Outputs::default(),
            terminal: None,
            finishing: None,
            grace_until: None,
            namespaces: None,
            ahead: Ahead::Nothing,
            user: None,
        };
        enclosed?;
        Ok(shell)
    }

    /// Forks another shell from this one, which has run nothing. The other is a child of ours, uses `control` as its
    /// socket, is born in its groups, and has this locale loaded. The inner error is the kernel's; the outer one means that
    /// this shell is gone.
    pub(crate) async fn fork(
        &mut self,
        control: OwnedFd,
        entrance: Entrance,
        locale: &[u8],
    ) -> io::Result<io::Result<Born>> {
        // The child may end before we know its number, and must not be taken for a stray.
        let birth = spawn::births().read().await;
        let mut descriptors = vec![control, entrance.group];
        descriptors.extend(entrance.tasks.into_iter().map(OwnedFd::from));
        let mut frame = self.channel.frame(kind::FORK);
        frame.bytes(locale);
        self.channel.send(frame, &descriptors, FORK_LIMIT).await?;
        drop(descriptors);
        let reply = tokio::time::timeout(FORK_LIMIT, self.reply()).await;
        let Ok(Some((kind::FORK, payload))) = reply else {
            return Err(io::Error::other("the shell that should fork another is gone"));
        };
        let mut reader = wire::Reader::new(&payload);
        let (Some(pid), Some(error)) = (reader.u32(), reader.u32()) else {
            return Err(io::Error::other("the driver's answer cannot be read"));
        };
        if pid == 0 {
            return Ok(Err(io::Error::from_raw_os_error(error as i32)));
        }
        spawn::awaited().insert(pid);
        drop(birth);
        Ok(Ok(Born { pid, is_inside: true }))
    }

    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Where it comes from.
    pub fn origin(&self) -> &ShellOrigin {
        &self.origin
    }

    /// Says whom it and what it starts work for.
    pub fn assign(&self, assignee: &str) {
        self.descendants.cage.assign(assignee);
    }

    /// Becomes a session: takes over its state. Gives what could not be taken over.
    pub async fn restore(&mut self, facts: &[Fact]) -> io::Result<Vec<NotRestored>> {
        match self.ahead {
            Ahead::Nothing => frames::take_over(&mut self.channel, None, &self.spec.rescue, facts).await,
            Ahead::Filter | Ahead::Room(_) => Err(for_another_sandbox()),
        }
    }

    /// Makes the pipes that a command needs and the shell does not have. Nothing is run and nothing has changed if it fails.
    pub fn prepare(&self, stdin: Stdin<'_>, stderr: Stderr) -> io::Result<Ends> {
        let ends = Ends::of_input(stdin)?;
        let ends = match stderr {
            Stderr::Apart => ends.with_outputs([self.outputs.stdout.is_none(), self.outputs.stderr.is_none()]),
            Stderr::Merged => ends.with_one_output(),
        }?;
        self.user.map_or(Ok(()), |user| user.give(&ends.descriptors))?;
        Ok(ends)
    }

    /// Starts a command with what [`LiveShell::prepare`] made. Gives the end to write to if its input is open. A shell that
    /// does not take it within `limit`, or for which this fails otherwise, must be killed.
    pub async fn begin(&mut self, run: RunSpec<'_>, ends: Ends, limit: Duration) -> io::Result<Option<Writer>> {
        if ends.flags & flag::STDOUT != 0 {
            self.outputs.stdout = ends.stdout;
        }
        if ends.flags & flag::STDERR != 0 {
            self.outputs.stderr = ends.stderr;
        }
        self.terminal = ends.terminal;
        self.grace_until = None;
        let mut frame = self.channel.frame(kind::RUN);
        write_command(&mut frame, ends.flags, run);
        self.channel.send(frame, &ends.descriptors, limit.min(START_LIMIT)).await?;
        Ok(ends.input)
    }

    /// Waits for output or for the end of the command; output goes to `sink`. May be dropped and called again at any
    /// time without losing anything.
    pub async fn progress(&mut self, sink: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> io::Result<Progress> {
        if self.finishing.is_some() {
            return self.finish(sink).await.map(Progress::Reported);
        }
        let reply = std::future::poll_fn(|cx| self.poll_progress(cx, sink)).await;
        match reply {
            ShellEvent::Output => Ok(Progress::Output),
            ShellEvent::Frame(kind::RUN, payload) => {
                self.finishing = Some(Finishing::of(payload, self.terminal.take()));
                self.finish(sink).await.map(Progress::Reported)
            }
            ShellEvent::Frame(kind @ (kind::BAD_CWD | kind::REFUSED), payload) => {
                self.terminal = None;
                let reason = wire::Reader::new(&payload).bytes().unwrap_or_default();
                let reason = String::from_utf8_lossy(&reason).into_owned();
                Ok(if kind == kind::BAD_CWD { Progress::BadCwd(reason) } else { Progress::Refused(reason) })
            }
            ShellEvent::Frame(kind::TOO_LATE, _) => {
                self.terminal = None;
                Ok(Progress::TooLate)
            }
            ShellEvent::Frame(..) => Err(io::Error::other("the driver answered something else")),
            ShellEvent::Gone => self.gone(sink).await,
        }
    }

    fn poll_progress(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Poll<ShellEvent> {
        let any = self.outputs.poll(cx, sink);
        match self.poll_reply(cx) {
            Poll::Ready(Some((kind, payload))) => Poll::Ready(ShellEvent::Frame(kind, payload)),
            Poll::Ready(None) => Poll::Ready(ShellEvent::Gone),
            Poll::Pending if any => Poll::Ready(ShellEvent::Output),
            Poll::Pending => Poll::Pending,
        }
    }

    async fn reply(&mut self) -> Option<(u32, Vec<u8>)> {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// The frame with our nonce; `None` once the shell has ended and everything it said was read.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Vec<u8>)>> {
        match self.channel.poll_frame(cx) {
            Poll::Ready(Some(frame)) => Poll::Ready(Some(frame)),
            // A command may have closed our socket, or given it to a child, so that it stays open when the shell ends.
            Poll::Ready(None) | Poll::Pending => {
                if self.channel.is_forged() && self.process.ended.is_none() {
                    self.kill_all();
                }
                self.process.poll_exit(cx).map(|()| None)
            }
        }
    }

    /// Whether it has not ended. Asks the kernel, which knows it before [`LiveShell::ended`] does.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Waits for the shell to end by itself, as it may between commands.
    pub async fn ended(&mut self) -> ExitStatus {
        std::future::poll_fn(|cx| self.process.poll_exit(cx)).await;
        self.process.ended.unwrap_or(ExitStatus::Signalled(9))
    }

    /// Asks the driver for something while a command runs.
    pub fn ask(&self, what: Ask) {
        let [first, second, third, ..] = *self.channel.nonce();
        self.process.ask([first, second, third], what);
    }

    /// Sends a signal to the shell itself.
    pub fn signal_shell(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Ends the shell and everything it started.
    pub fn kill_all(&self) {
        self.descendants.cage.kill_all();
        self.signal_shell(Signal::KILL);
    }
}

impl Drop for LiveShell {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.spec.rescue);
        self.kill_all();
        let (pid, is_reaped) = (self.process.pid, self.process.ended.is_some());
        let cage = std::mem::replace(&mut self.descendants.cage, Cage::empty());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // Killed, so this does not wait long; not reaping would leave a zombie for as long as we live.
            let _ = if is_reaped { Ok(ExitStatus::Exited(0)) } else { spawn::reap(pid) };
            return;
        };
        // A killed process takes a moment to go, and its cage can be removed only then; do not wait for that.
        let mut handles = cage.watch_others(&[]);
        handles.extend((!is_reaped).then(|| handle::open(pid)).flatten());
        runtime.spawn(async move {
            handle::gone(handles).await;
            if !is_reaped {
                let _ = spawn::reap(pid);
            }
            drop(cage);
        });
    }
}

/// What a bash that did not greet us is.
pub(crate) fn unsupported(bash: &Path, ended: Option<ExitStatus>) -> StartError {
    let detail = match ended {
        Some(ExitStatus::Exited(UNSUPPORTED)) => "unsupported bash build (symbols not found)".to_owned(),
        Some(ExitStatus::Exited(code)) => format!("it exited at once with code {code}"),
        Some(ExitStatus::Signalled(signal)) => format!("it was killed at once by signal {signal}"),
        None => "it did not answer as the driver does".to_owned(),
    };
    StartError::Unsupported { path: bash.display().to_string(), detail }
}

enum ShellEvent {
    Output,
    Frame(u32, Vec<u8>),
    Gone,
}
