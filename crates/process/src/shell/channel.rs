//! The socket between us and the driver: frames out with descriptors, the frame with our nonce in.

use super::LiveShell;
use crate::stdio;
use crate::wire::{self, Nonce};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};
use tokio::io::Interest;

/// Room for the driver's answers; most fit.
const RECEIVE_BYTES: usize = 4 << 10;

impl LiveShell {
    pub(super) async fn send(&mut self, frame: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut sent = 0;
        while sent < frame.len() {
            let mut extra = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !borrowed.is_empty() {
                extra.push(SendAncillaryMessage::ScmRights(&borrowed));
            }
            let part = [IoSlice::new(&frame[sent..])];
            match rustix::net::sendmsg(self.control.get_ref(), &part, &mut extra, SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.writable().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket takes more. Seldom, so the runtime watches for it only then.
    pub(super) async fn writable(&self) -> io::Result<()> {
        let copy = stdio::watch(self.control.get_ref().try_clone()?, Interest::WRITABLE)?;
        copy.writable().await?.retain_ready();
        Ok(())
    }

    pub(super) async fn reply(&mut self) -> Option<(u32, Vec<u8>)> {
        std::future::poll_fn(|cx| self.poll_reply(cx)).await
    }

    /// The frame with our nonce; `None` once the shell has ended and everything it said was read.
    pub(super) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Vec<u8>)>> {
        while let Poll::Ready(ready) = self.control.poll_read_ready(cx) {
            let Ok(mut guard) = ready else { return Poll::Ready(None) };
            self.received.reserve(RECEIVE_BYTES);
            let room = self.received.capacity() - self.received.len();
            match rustix::io::read(guard.get_inner(), rustix::buffer::spare_capacity(&mut self.received)) {
                Ok(0) => return self.poll_exit(cx).map(|()| None),
                Ok(count) => {
                    if count < room {
                        guard.clear_ready();
                    }
                    if let Some(frame) = wire::take_frame(&mut self.received, &self.nonce) {
                        return Poll::Ready(Some(frame));
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => guard.clear_ready(),
                Err(_) => return self.poll_exit(cx).map(|()| None),
            }
        }
        // A command may have given our socket to a child, so that it stays open when the shell ends.
        self.poll_exit(cx).map(|()| None)
    }
}

/// Nonces that nobody can guess, even who knows all earlier ones: a keyed hash of a counter, with a key of our own.
#[derive(Debug)]
pub(super) struct Nonces {
    keys: [std::hash::RandomState; 2],
    count: u64,
}

impl Nonces {
    pub(super) fn new() -> Self {
        Self { keys: [std::hash::RandomState::new(), std::hash::RandomState::new()], count: 0 }
    }

    pub(super) fn next(&mut self) -> Nonce {
        use std::hash::BuildHasher;
        self.count += 1;
        let [low, high] = self.keys.each_ref().map(|key| u128::from(key.hash_one(self.count)));
        (high << 64 | low).to_ne_bytes()
    }
}
