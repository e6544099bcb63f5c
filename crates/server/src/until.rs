//! A response that ends when its token is revoked: a stream of hours must not outlive its token.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use hyper::body::Frame;
use shellkeep_runtime::Revocation;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The same response, closed when the token is revoked. A complete one is not changed.
pub(super) fn until(response: Response, revocation: Revocation) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::new(Until { body, revoked: Box::pin(revocation.happened()) }))
}

struct Until {
    body: Body,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.revoked.as_mut().poll(context).is_ready() {
            // An error, not an end: the reader must notice that it is incomplete.
            let error = io::Error::new(io::ErrorKind::ConnectionAborted, "the token was revoked");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}
