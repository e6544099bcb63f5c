//! A body whose frames come from a function.

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a body returns when it is polled.
pub(crate) type Polled = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

/// A body that calls `next` for each frame. Nobody knows its length in advance.
pub(crate) fn body(next: impl FnMut(&mut Context<'_>) -> Polled + Send + Unpin + 'static) -> Body {
    Body::new(Frames(next))
}

struct Frames<F>(F);

impl<F: FnMut(&mut Context<'_>) -> Polled + Unpin> hyper::body::Body for Frames<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let next = &mut self.get_mut().0;
        next(context)
    }
}
