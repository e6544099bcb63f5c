//! How much a client may be sent before it says that it has read some of it.

use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;

/// Bytes that a topic may be ahead of its client.
const CREDIT: i64 = 256 << 10;

/// What is left of a topic's credit.
pub(super) struct Credit {
    left: AtomicI64,
    more: Notify,
}

impl Default for Credit {
    fn default() -> Self {
        Self { left: AtomicI64::new(CREDIT), more: Notify::new() }
    }
}

impl Credit {
    /// The client has read some bytes.
    pub(super) fn add(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(CREDIT).min(CREDIT);
        // Not more than at the beginning, whatever a client says.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some((left + bytes).min(CREDIT)));
        self.more.notify_one();
    }

    /// Some bytes were sent. One frame may be larger than what is left.
    pub(super) fn take(&self, bytes: usize) {
        self.left.fetch_sub(i64::try_from(bytes).unwrap_or(CREDIT), Ordering::Relaxed);
    }

    /// Waits until there is credit. Returns whether it had to wait.
    pub(super) async fn wait(&self) -> bool {
        let mut waited = false;
        while self.left.load(Ordering::Relaxed) <= 0 {
            waited = true;
            self.more.notified().await;
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_client_that_reads_nothing_is_sent_nothing_more() {
        let credit = Credit::default();
        let waits = || pin!(credit.wait()).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(waits(), Poll::Ready(false));
        credit.take(300 << 10);
        assert_eq!(waits(), Poll::Pending);
        credit.add(1 << 10);
        assert_eq!(waits(), Poll::Pending);
        credit.add(usize::MAX);
        assert_eq!(waits(), Poll::Ready(false));
        credit.add(usize::MAX);
        assert_eq!(credit.left.load(Ordering::Relaxed), CREDIT, "never more than at the beginning");
    }
}
