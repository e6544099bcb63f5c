//! What a handler leaves unread of a request's body. Hyper closes a connection whose body nobody reads, and a client that
//! is still sending then finds a broken pipe instead of its answer. So the rest is read and dropped, while the answer is
//! already on its way.

use crate::connections::Connection;
use axum::body::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use shellkeep_runtime::tasks;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Longest rest after which the connection is kept. If there is more, or nobody knows how much, the answer says that it
/// closes.
const KEPT_UP_TO: u64 = 1 << 20;
/// Most that is read and dropped. Many clients read no answer before they have sent everything; whoever sends more than
/// this waits for a `100 Continue` first, or looks at the answer meanwhile.
const DROPPED_UP_TO: u64 = 16 << 20;
/// How long that may take: less than a stopping door waits.
const DROPPED_FOR: Duration = Duration::from_secs(2);
/// How long a connection stays open whose rest is not read. What closes with unread bytes takes the answer with it if the
/// client has not read it yet.
const LINGER: Duration = Duration::from_millis(500);

/// A request's body. What is left of it when it is dropped is read by a task.
pub(crate) struct RequestBody {
    /// None once it has ended.
    body: Option<Incoming>,
    /// Whether the client sends it only if somebody reads it.
    waits: bool,
    connection: Arc<Connection>,
}

impl RequestBody {
    /// `waits` if the client expects a `100 Continue` before it sends it.
    pub(crate) fn new(body: Incoming, waits: bool, connection: Arc<Connection>) -> Self {
        let body = Some(body).filter(|body| !body.is_end_stream());
        Self { body, waits, connection }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let is_short = body.size_hint().upper().is_some_and(|left| left <= KEPT_UP_TO);
        if self.waits || !is_short {
            self.connection.close_next();
        }
        // To read would be to ask for it.
        if !self.waits && Handle::try_current().is_ok() {
            tasks::spawn(read_and_drop(body, Arc::clone(&self.connection)));
        }
    }
}

/// Reads what is left, within the limits. The connection closes when this drops a body that has not ended.
async fn read_and_drop(mut body: Incoming, connection: Arc<Connection>) {
    let read = async {
        let mut left = DROPPED_UP_TO;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            if bytes > left {
                return false;
            }
            left -= bytes;
        }
        true
    };
    match timeout(DROPPED_FOR, read).await {
        Ok(true) => connection.rests(),
        Ok(false) | Err(_) => sleep(LINGER).await,
    }
}
