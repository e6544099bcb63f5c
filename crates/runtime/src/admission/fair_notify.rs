//! Wakes one waiter at a time, with agents in turn: for a resource that only one can have at a time.

use super::fair_queue::FairQueue;
use crate::sync::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Like tokio's `Notify`, but fair between agents. A notification without a waiter is kept for the next one.
#[derive(Debug, Default)]
pub struct FairNotify {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: FairQueue<oneshot::Sender<()>>,
    next_number: u64,
    is_pending: bool,
}

impl FairNotify {
    /// Wakes the next waiter.
    pub fn notify_one(&self) {
        let mut state = self.lock();
        while let Some(waiter) = state.queue.pop() {
            if waiter.send(()).is_ok() {
                return;
            }
        }
        state.is_pending = true;
    }

    /// Begins to wait, behind those who already do.
    pub fn waiter(self: &Arc<Self>, agent: &Arc<str>) -> Notified {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        if std::mem::take(&mut state.is_pending) {
            let _ = sender.send(());
        } else {
            state.queue.push(agent, number, sender);
        }
        drop(state);
        Notified { notify: Arc::clone(self), agent: Arc::clone(agent), number, receiver, is_notified: false }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// One that waits. Dropped before it was woken, it leaves; if it was notified just then, the next one is.
pub struct Notified {
    notify: Arc<FairNotify>,
    agent: Arc<str>,
    number: u64,
    receiver: oneshot::Receiver<()>,
    is_notified: bool,
}

impl Notified {
    /// Waits to be woken. May be dropped and called again.
    pub async fn wait(&mut self) {
        if !self.is_notified {
            let _ = (&mut self.receiver).await;
            self.is_notified = true;
        }
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        let left = self.notify.lock().queue.remove(&self.agent, self.number).is_some();
        if !left && !self.is_notified && self.receiver.try_recv().is_ok() {
            self.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::task::{Context, Waker};

    fn agent(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    /// Whether it was woken.
    fn is_woken(waiter: &mut Notified) -> bool {
        let mut wait = std::pin::pin!(waiter.wait());
        wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn agents_are_woken_by_turns() {
        let notify = Arc::new(FairNotify::default());
        let [mut a1, mut a2, mut b] = ["a", "a", "b"].map(|name| notify.waiter(&agent(name)));
        notify.notify_one();
        assert_eq!([is_woken(&mut a1), is_woken(&mut a2), is_woken(&mut b)], [true, false, false]);
        notify.notify_one();
        assert_eq!([is_woken(&mut a2), is_woken(&mut b)], [false, true]);
        notify.notify_one();
        assert!(is_woken(&mut a2));
    }

    #[test]
    fn a_notification_without_a_waiter_is_kept_once() {
        let notify = Arc::new(FairNotify::default());
        notify.notify_one();
        notify.notify_one();
        assert!(is_woken(&mut notify.waiter(&agent("a"))));
        assert!(!is_woken(&mut notify.waiter(&agent("a"))));
    }

    #[test]
    fn a_waiter_that_leaves_takes_no_notification_along() {
        let notify = Arc::new(FairNotify::default());
        let (first, second) = (notify.waiter(&agent("a")), notify.waiter(&agent("b")));
        let mut third = notify.waiter(&agent("c"));
        drop(first);
        notify.notify_one();
        drop(second);
        assert!(is_woken(&mut third), "the notification of the one that left goes on to the next");
        drop(third);
        assert!(!is_woken(&mut notify.waiter(&agent("d"))), "a notification wakes one waiter");
    }
}
