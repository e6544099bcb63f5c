//! A response that ends when its token is revoked: a stream of hours must not outlive its token.

use crate::frames;
use axum::body::HttpBody as _;
use axum::response::Response;
use shellkeep_runtime::Revocation;
use std::io;
use std::pin::Pin;
use std::task::Poll;

/// The same response, closed when the token is revoked. A complete one is not changed.
pub(super) fn until(response: Response, revocation: Revocation) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let mut revoked = Box::pin(revocation.happened());
    response.map(|mut body| {
        frames::body(move |context| {
            if revoked.as_mut().poll(context).is_ready() {
                // An error, not an end: the reader must notice that it is incomplete.
                let error = io::Error::new(io::ErrorKind::ConnectionAborted, "the token was revoked");
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
            Pin::new(&mut body).poll_frame(context)
        })
    })
}
