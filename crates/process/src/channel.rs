//! The socket between us and a driver: frames out with descriptors, the frame with our nonce in.

use crate::stdio;
use crate::wire::{self, Nonce};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Room for the driver's answers; most fit.
const RECEIVE_BYTES: usize = 4 << 10;

/// Our end of the socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: AsyncFd<UnixStream>,
    nonces: Nonces,
    nonce: Nonce,
    received: Vec<u8>,
    /// Whether something came that no driver sends.
    is_forged: bool,
}

impl Channel {
    /// The socket must not block.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self {
            socket: stdio::watch(socket, Interest::READABLE)?,
            nonces: Nonces::new(),
            nonce: [0; wire::NONCE_BYTES],
            received: Vec::new(),
            is_forged: false,
        })
    }

    /// Starts a frame. From now on only an answer to this one is heard.
    pub(crate) fn frame(&mut self, kind: u32) -> wire::Writer {
        self.nonce = self.nonces.next();
        wire::Writer::new(&self.nonce, kind)
    }

    /// What distinguishes the last frame from all others.
    pub(crate) fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// Sends a frame. A driver that does not read it within `limit` is stuck: its shell may be stopped, and must be killed. So
    /// must it be after any other error, for it may have a part of the frame.
    pub(crate) async fn send(
        &mut self,
        frame: wire::Writer,
        descriptors: &[OwnedFd],
        limit: Duration,
    ) -> io::Result<()> {
        let frame = frame.finish();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut sent = 0;
        let mut until = None;
        while sent < frame.len() {
            let mut extra = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !borrowed.is_empty() {
                extra.push(SendAncillaryMessage::ScmRights(&borrowed));
            }
            let part = [IoSlice::new(&frame[sent..])];
            match rustix::net::sendmsg(self.socket.get_ref(), &part, &mut extra, SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let until = *until.get_or_insert_with(|| Instant::now() + limit);
                    tokio::time::timeout_at(until, self.writable()).await??;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket takes more. Seldom, so the runtime watches for it only then.
    async fn writable(&self) -> io::Result<()> {
        let copy = stdio::watch(self.socket.get_ref().try_clone()?, Interest::WRITABLE)?;
        copy.writable().await?.retain_ready();
        Ok(())
    }

    /// Whether something came that no driver sends. Then nothing more is read, and the shell must be killed.
    pub(crate) fn is_forged(&self) -> bool {
        self.is_forged
    }

    /// The frame with our nonce; `None` once the other end is closed and everything it said was read, or if what it says
    /// cannot be from the driver.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u32, Vec<u8>)>> {
        if self.is_forged {
            return Poll::Ready(None);
        }
        while let Poll::Ready(ready) = self.socket.poll_read_ready(cx) {
            let Ok(mut guard) = ready else { return Poll::Ready(None) };
            self.received.reserve(RECEIVE_BYTES);
            let room = self.received.capacity() - self.received.len();
            match rustix::io::read(guard.get_inner(), rustix::buffer::spare_capacity(&mut self.received)) {
                Ok(0) => return Poll::Ready(None),
                Ok(count) => {
                    if count < room {
                        guard.clear_ready();
                    }
                    match wire::take_frame(&mut self.received, &self.nonce) {
                        Ok(None) => {}
                        Ok(Some(frame)) => return Poll::Ready(Some(frame)),
                        Err(wire::TooLong) => {
                            self.is_forged = true;
                            self.received = Vec::new();
                            return Poll::Ready(None);
                        }
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => guard.clear_ready(),
                Err(_) => return Poll::Ready(None),
            }
        }
        Poll::Pending
    }

    /// Waits for the frame with our nonce.
    pub(crate) async fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        std::future::poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// The frame with our nonce in what came another way.
    pub(crate) fn find(&self, mut bytes: Vec<u8>) -> Option<(u32, Vec<u8>)> {
        wire::take_frame(&mut bytes, &self.nonce).ok().flatten()
    }
}

/// Nonces that cannot be guessed, even from all earlier ones: a keyed hash of a counter, with our own key.
#[derive(Debug)]
struct Nonces {
    keys: [std::hash::RandomState; 2],
    count: u64,
}

impl Nonces {
    fn new() -> Self {
        Self { keys: [std::hash::RandomState::new(), std::hash::RandomState::new()], count: 0 }
    }

    fn next(&mut self) -> Nonce {
        use std::hash::BuildHasher;
        self.count += 1;
        let [low, high] = self.keys.each_ref().map(|key| u128::from(key.hash_one(self.count)));
        (high << 64 | low).to_ne_bytes()
    }
}
