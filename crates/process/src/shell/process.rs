//! The process of a shell: a child of ours that is reaped once.

use super::start_error::START_LIMIT;
use crate::exit::ExitStatus;
use crate::{handle, spawn, stdio};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(self.handle.get_ref(), signal);
    }
}
