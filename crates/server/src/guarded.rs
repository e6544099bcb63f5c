//! A connection's bytes: notes arrivals, and disconnects a peer that does not read.

use crate::connections::Connection;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection's stream: one type for both doors, so that all behind it is compiled once.
pub(crate) trait Stream: AsyncRead + AsyncWrite + AsFd + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + AsFd + Send + Sync + Unpin> Stream for S {}

/// A watched stream.
pub(crate) struct Guarded {
    stream: Box<dyn Stream>,
    connection: Arc<Connection>,
    patience: Duration,
    /// Runs while the peer reads nothing. Most peers always read, and need no timer.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    pub(crate) fn new(stream: Box<dyn Stream>, connection: Arc<Connection>, patience: Duration) -> Self {
        Self { stream, connection, patience, stalled: None }
    }

    /// Passes on the result of a write, unless nothing was written for too long.
    fn watched<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        metrics::counter!("shellkeep_connections_stalled_total").increment(1);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read what is written to it")))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.received();
        }
        read
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watched(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Not watched: a socket has nothing to flush, and its readiness says nothing about the peer.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
