//! The process of a shell: a child of ours that is reaped once.

use super::start_error::START_LIMIT;
use crate::exit::ExitStatus;
use crate::proc::{self, CaughtSignals};
use crate::{handle, spawn, stdio};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The signal that the driver takes as a request to interrupt; `INTERRUPT_SIGNAL` in `driver.c`.
pub const INTERRUPT: i32 = 60;

/// What the driver is asked while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To stop what it is doing and come back to us. Children are not touched.
    Interrupt,
    /// To bring the command a signal: its trap runs if it has one, else it is interrupted.
    Signal(Signal),
    /// To bring the command a signal if it has a trap for it.
    Trap(Signal),
}

impl Ask {
    /// As `on_interrupt` in `driver.c` reads it.
    fn value(self) -> i8 {
        match self {
            Self::Interrupt => 0,
            Self::Signal(signal) => signal.as_raw() as i8,
            Self::Trap(signal) => -signal.as_raw() as i8,
        }
    }

    /// The signal for a program that took the place of the shell.
    fn signal(self) -> Signal {
        match self {
            Self::Interrupt => Signal::TERM,
            Self::Signal(signal) | Self::Trap(signal) => signal,
        }
    }
}

/// The process of a shell.
#[derive(Debug)]
pub(super) struct ShellProcess {
    pub(super) pid: u32,
    handle: AsyncFd<OwnedFd>,
    /// How it ended, once it is reaped.
    pub(super) ended: Option<ExitStatus>,
}

impl ShellProcess {
    /// A child of ours. If it cannot be watched, it is killed.
    pub(super) fn watch(pid: u32) -> io::Result<Self> {
        let unwatched = spawn::Unwatched(pid);
        let raw = handle::number(pid).ok_or_else(|| io::Error::other("bad process id"))?;
        let handle = stdio::watch(pidfd_open(raw, PidfdFlags::NONBLOCK)?, Interest::READABLE)?;
        std::mem::forget(unwatched);
        Ok(Self { pid, handle, ended: None })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.ended.is_none() && handle::is_alive(self.handle.get_ref())
    }

    /// Ready once it has ended; it is reaped then.
    pub(super) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended.is_some() {
            return Poll::Ready(());
        }
        match self.handle.poll_read_ready(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(_) => {
                self.ended = spawn::reap(self.pid).ok().or(Some(ExitStatus::Signalled(9)));
                Poll::Ready(())
            }
        }
    }

    /// Waits for its end, which is near.
    pub(super) async fn wait_exit(&mut self) -> Option<ExitStatus> {
        let ended = tokio::time::timeout(START_LIMIT, std::future::poll_fn(|cx| self.poll_exit(cx))).await;
        ended.ok().and(self.ended)
    }

    /// Asks the driver during the run that this is the beginning of the nonce of.
    pub(super) fn ask(&self, run: [u8; 3], what: Ask) {
        if self.ended.is_some() {
            return;
        }
        let caught = proc::caught_signals(self.pid);
        if let Some(caught) = caught
            && !caught.contains(INTERRUPT)
        {
            return self.ask_program(what, caught);
        }
        let Ok(pid) = libc::pid_t::try_from(self.pid) else { return };
        // Which run it is for, and the signal: the driver must not take it for another. See `on_interrupt` in `driver.c`.
        let [first, second, third] = run;
        let told = i32::from_be_bytes([first, second, third, what.value() as u8]);
        let told = libc::sigval { sival_ptr: told as isize as *mut libc::c_void };
        // SAFETY: a plain system call. The process is our child and not reaped, so the number is still its own.
        if unsafe { libc::sigqueue(pid, INTERRUPT, told) } != 0 {
            self.ask_without_value(pid, what, caught);
        }
    }

    /// The same where the kernel queues no more signals for the user: all sessions may be the same one, and any of them can
    /// take the whole queue. A signal without a value needs no place in it. The driver interrupts whatever runs, which is
    /// this run: a pending signal is delivered before the shell reads what comes next, and it ignores one that finds it idle.
    fn ask_without_value(&self, pid: libc::pid_t, what: Ask, caught: Option<CaughtSignals>) {
        if matches!(what, Ask::Trap(_)) {
            // Nothing is to be interrupted for it, so it goes to its trap itself.
            if let Some(caught) = caught {
                self.ask_program(what, caught);
            }
            return;
        }
        // SAFETY: as above.
        if unsafe { libc::kill(pid, INTERRUPT) } != 0 {
            // Nothing of the command may go on as if nobody had asked.
            self.signal(Signal::KILL);
        }
    }

    /// The same for a program that took the place of the shell, as `exec` has it. It is the command itself; the driver's signal
    /// would kill it. Where a shell has a trap, it has a handler.
    fn ask_program(&self, what: Ask, caught: CaughtSignals) {
        let signal = what.signal();
        if !matches!(what, Ask::Trap(_)) || caught.contains(signal.as_raw()) {
            self.signal(signal);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(self.handle.get_ref(), signal);
    }
}
