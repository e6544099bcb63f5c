//! The answer of another node, passed on as it arrives. If that node stops in the middle, the reader learns it: an event
//! stream ends with an `error` event, as others do that fail, and every other answer ends as incomplete.

use crate::frames::Polled;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The same response, which also ends when `gone` returns. `last_event` is what an event stream ends with then.
pub(super) fn relay(
    response: Response,
    gone: impl Future<Output = ()> + Send + 'static,
    last_event: Option<Vec<u8>>,
) -> Response {
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| {
        let last_event = last_event.map(Bytes::from);
        Body::new(Relayed { body, gone: Box::pin(gone), last_event, is_between_events: true, is_over: false })
    })
}

struct Relayed {
    body: Body,
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    last_event: Option<Bytes>,
    /// Whether the bytes so far end with a whole event. Nothing is added to half of one.
    is_between_events: bool,
    /// Whether the last event was sent.
    is_over: bool,
}

impl Relayed {
    /// Why the answer is incomplete, or its next frame.
    fn next(&mut self, context: &mut Context<'_>) -> Polled {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(self.gone.as_mut().poll(context));
        let error = io::Error::new(io::ErrorKind::ConnectionAborted, "the node that answered is gone");
        Poll::Ready(Some(Err(axum::Error::new(error))))
    }
}

impl hyper::body::Body for Relayed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        if self.is_over {
            return Poll::Ready(None);
        }
        match ready!(self.next(context)) {
            Some(Err(failure)) if self.is_between_events => match self.last_event.take() {
                Some(event) => {
                    self.is_over = true;
                    Poll::Ready(Some(Ok(Frame::data(event))))
                }
                None => Poll::Ready(Some(Err(failure))),
            },
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref().filter(|bytes| !bytes.is_empty()) {
                    self.is_between_events = bytes.ends_with(b"\n\n");
                }
                Poll::Ready(Some(Ok(frame)))
            }
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames;

    async fn all(body: Body) -> (String, bool) {
        let mut body = Box::pin(body);
        let mut text = String::new();
        loop {
            match std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await {
                Some(Ok(frame)) => text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap())),
                Some(Err(_)) => return (text, false),
                None => return (text, true),
            }
        }
    }

    /// A body of these pieces, after which nothing more comes.
    fn silent(pieces: Vec<&'static str>) -> Body {
        let mut pieces = pieces.into_iter();
        frames::body(move |_| match pieces.next() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(piece))))),
            None => Poll::Pending,
        })
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_node() {
        let last = || Some(b"event: error\n\n".to_vec());
        for (pieces, last_event, expected, is_whole) in [
            (vec!["a\n\n"], last(), "a\n\nevent: error\n\n", true),
            (vec!["a\n\n", "half"], last(), "a\n\nhalf", false),
            (vec!["a\n\n"], None, "a\n\n", false),
            (vec![], last(), "event: error\n\n", true),
        ] {
            let response = Response::new(silent(pieces));
            let relayed = relay(response, std::future::ready(()), last_event);
            assert_eq!(all(relayed.into_body()).await, (expected.to_owned(), is_whole));
        }
    }

    #[tokio::test]
    async fn a_whole_answer_is_not_changed() {
        let response = Response::new(Body::from("whole"));
        let relayed = relay(response, std::future::ready(()), Some(b"event: error\n\n".to_vec()));
        assert_eq!(all(relayed.into_body()).await, ("whole".to_owned(), true));
    }
}
