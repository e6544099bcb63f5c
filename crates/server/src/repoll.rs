//! Polls a task again immediately if it wakes itself. hyper does that for every request with a body: reading the body
//! wakes the connection, which is the task that is reading. The scheduler would put the task at the end of its queue
//! and wake a second worker thread to look for work, which costs more than the rest of a small request.

use crate::sync::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Polls in a row before other tasks get their turn.
const MOST: u32 = 16;

const WAITING: u8 = 0;
const POLLING: u8 = 1;
/// Woken while it was being polled.
const AGAIN: u8 = 2;

/// A future that is polled again at once if it was woken while it was polled.
pub(crate) struct Repoll<F> {
    inner: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

struct Signal {
    state: AtomicU8,
    /// Wakes the task that polls.
    task: Mutex<Waker>,
}

impl<F> Repoll<F> {
    pub(crate) fn new(inner: F) -> Self {
        let signal = Arc::new(Signal { state: AtomicU8::new(WAITING), task: Mutex::new(Waker::noop().clone()) });
        let waker = Waker::from(Arc::clone(&signal));
        Self { inner: Box::pin(inner), signal, waker }
    }
}

impl Signal {
    fn set_task(&self, waker: &Waker) {
        lock(&self.task).clone_from(waker);
    }

    fn wake_task(&self) {
        let task = lock(&self.task).clone();
        task.wake();
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let polled = self.state.compare_exchange(POLLING, AGAIN, Ordering::AcqRel, Ordering::Acquire);
        if polled == Err(WAITING) {
            self.wake_task();
        }
    }
}

impl<F: Future> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.signal.set_task(context.waker());
        for _ in 0..MOST {
            this.signal.state.store(POLLING, Ordering::Release);
            if let Poll::Ready(output) = this.inner.as_mut().poll(&mut Context::from_waker(&this.waker)) {
                return Poll::Ready(output);
            }
            let rested = this.signal.state.compare_exchange(POLLING, WAITING, Ordering::AcqRel, Ordering::Acquire);
            if rested.is_ok() {
                return Poll::Pending;
            }
        }
        this.signal.state.store(WAITING, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// How often the outer task was woken.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Wakes itself in each of its first polls, and counts all of them.
    struct Restless {
        wakes: u32,
        polls: u32,
        last: Option<Waker>,
    }

    impl Future for Restless {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.polls += 1;
            self.last = Some(context.waker().clone());
            if self.polls <= self.wakes {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }
    }

    fn polled(wakes: u32) -> (Repoll<Restless>, Arc<Woken>) {
        let woken = Arc::new(Woken::default());
        let mut task = Repoll::new(Restless { wakes, polls: 0, last: None });
        let waker = Waker::from(Arc::clone(&woken));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        (task, woken)
    }

    #[test]
    fn a_task_that_wakes_itself_is_polled_again_and_its_scheduler_is_not_woken() {
        let (task, woken) = polled(3);
        assert_eq!((task.inner.polls, woken.0.load(Ordering::Relaxed)), (4, 0));
    }

    #[test]
    fn one_that_never_rests_lets_others_have_their_turn() {
        let (task, woken) = polled(u32::MAX);
        assert_eq!((task.inner.polls, woken.0.load(Ordering::Relaxed)), (MOST, 1));
    }

    #[test]
    fn a_wake_from_elsewhere_reaches_the_scheduler() {
        let (task, woken) = polled(0);
        task.inner.last.clone().unwrap().wake();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_is_lost_between_threads() {
        for _ in 0..2000 {
            let (send, receive) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(Repoll::new(receive));
            tokio::spawn(async move { send.send(7) });
            assert_eq!(task.await.unwrap().unwrap(), 7);
        }
    }
}
