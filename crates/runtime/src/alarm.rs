//! A deadline that is moved with every command and rarely reached. Setting a timer wakes the runtime's timer thread, so
//! one timer is kept and not touched while it would fire in time; if it fires too early, it is set again.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A movable deadline.
#[derive(Debug)]
pub struct Alarm {
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl Alarm {
    /// An alarm that rings after this long.
    pub fn after(delay: Duration) -> Self {
        let deadline = Instant::now() + delay;
        Self { timer: Box::pin(tokio::time::sleep_until(deadline)), deadline }
    }

    /// Moves the deadline.
    pub fn set(&mut self, delay: Duration) {
        self.deadline = Instant::now() + delay;
        if self.timer.is_elapsed() || self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        }
    }

    /// Moves the deadline if that makes it earlier.
    pub fn set_earlier(&mut self, delay: Duration) {
        if Instant::now() + delay < self.deadline {
            self.set(delay);
        }
    }

    /// Waits for the deadline.
    pub async fn rings(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moved_later_rings_later() {
        let start = Instant::now();
        let mut alarm = Alarm::after(Duration::from_secs(1));
        alarm.set(Duration::from_secs(5));
        alarm.rings().await;
        assert_eq!(start.elapsed().as_secs(), 5);
        alarm.set(Duration::from_secs(2));
        alarm.rings().await;
        assert_eq!(start.elapsed().as_secs(), 7);
        alarm.set(Duration::from_secs(5));
        alarm.set_earlier(Duration::from_secs(9));
        alarm.set_earlier(Duration::from_secs(1));
        alarm.rings().await;
        assert_eq!(start.elapsed().as_secs(), 8);
    }
}
