//! How fast a body must arrive, whoever sends it: without a long pause, and in a time that its length allows.

use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a body may pause before it is rejected.
const STALL: Duration = Duration::from_secs(10);
/// How long all of it may take, in addition to the time that its bytes take at [`SLOWEST`].
const WHOLE: Duration = Duration::from_secs(20);
/// Bytes per second that a sender must reach on average, as even a phone does.
const SLOWEST: u32 = 32 << 10;
/// How much of a rejected body is read and discarded, so that the sender gets the response instead of a reset.
const DRAIN_LIMIT: usize = 256 << 20;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How fast a body must arrive.
pub(crate) struct Pace {
    began: Instant,
    /// How long it may pause.
    stall: Duration,
}

impl Pace {
    /// For a body that is read from now on.
    pub(crate) fn begin() -> Self {
        Self::with_stall(STALL)
    }

    /// The same for one that may pause for so long.
    pub(crate) fn with_stall(stall: Duration) -> Self {
        Self { began: Instant::now(), stall }
    }

    /// The next piece, if it arrives in time. `read` bytes have arrived before.
    pub(crate) async fn next(&self, body: &mut Body, read: usize) -> Result<Option<Bytes>, Refusal> {
        let in_all = WHOLE + Duration::from_secs(1) * u32::try_from(read).unwrap_or(u32::MAX) / SLOWEST;
        let left = self.stall.min(in_all.saturating_sub(self.began.elapsed()));
        let mut arriving = pin!(next(body));
        if let Poll::Ready(arrived) = twice(arriving.as_mut()).await {
            return arrived;
        }
        match tokio::time::timeout(left, arriving).await {
            Ok(next) => next,
            Err(_) => {
                let detail = format!(
                    "the body stopped arriving after {read} bytes; send it without pauses, at {} KiB per second or \
                        faster. Nothing was done",
                    SLOWEST >> 10
                );
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail))
            }
        }
    }
}

/// Polls a future, and once more in the next turn if it is not ready. A body that came with its head is read between these
/// two, because hyper reads none before it is asked to. So most need no timer.
async fn twice<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    let mut is_second = false;
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() && !std::mem::replace(&mut is_second, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(polled)
    })
    .await
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::invalid(format!("cannot read the body: {error}")))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// Reads and discards a body, for a while.
pub(crate) async fn drain(mut body: Body) {
    let reading = async {
        let mut read = 0;
        while read < DRAIN_LIMIT {
            match next(&mut body).await {
                Ok(Some(bytes)) => read += bytes.len(),
                Ok(None) | Err(_) => break,
            }
        }
    };
    // Whether all of it arrived does not matter: the response is the same.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames;
    use hyper::body::Frame;

    #[test]
    fn a_body_that_comes_with_its_head_needs_no_timer() {
        // A timer would panic in it.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pace = Pace::begin();
        let mut is_asked = false;
        // It is read when it was asked for, in the next turn.
        let mut body = frames::body(move |_| match std::mem::replace(&mut is_asked, true) {
            true => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{}"))))),
            false => Poll::Pending,
        });
        let read = runtime.block_on(pace.next(&mut body, 0));
        assert_eq!(read.ok().flatten(), Some(Bytes::from_static(b"{}")));
    }
}
