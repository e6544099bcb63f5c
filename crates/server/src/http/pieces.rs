//! The JSON of a large answer in pieces. A buffer that grows by doubling needs twice its size while it moves, and leaves its
//! smaller selves to the allocator; the output of one command can be six times as long in JSON as it was.

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Size of a piece, unless more is written at once.
const PIECE: usize = 64 << 10;
/// What most answers fit into.
const SMALL: usize = 512;

/// What was written, in its order.
struct Pieces {
    full: VecDeque<Bytes>,
    last: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.len() + bytes.len() > PIECE && !self.last.is_empty() {
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(PIECE.max(bytes.len())));
            self.full.push_back(full.into());
        }
        self.last.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A body of JSON, of known length.
pub(crate) fn body<T: Serialize>(value: &T) -> serde_json::Result<Body> {
    let mut pieces = Pieces { full: VecDeque::new(), last: Vec::with_capacity(SMALL) };
    serde_json::to_writer(&mut pieces, value)?;
    let Pieces { mut full, last } = pieces;
    if full.is_empty() {
        return Ok(Body::from(last));
    }
    full.push_back(last.into());
    Ok(Body::new(Written(full)))
}

struct Written(VecDeque<Bytes>);

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Body as _;

    #[tokio::test]
    async fn pieces_are_the_json_and_tell_their_length() {
        for text in [String::new(), "x".repeat(3 * PIECE), "\0".repeat(PIECE), "a\n".repeat(PIECE)] {
            let expected = serde_json::to_vec(&text).unwrap();
            let body = body(&text).unwrap();
            assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
            assert!(axum::body::to_bytes(body, usize::MAX).await.unwrap() == expected, "{} bytes", text.len());
        }
    }
}
