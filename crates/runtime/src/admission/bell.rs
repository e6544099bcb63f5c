//! A bell that rings for one of those who listen, agents by turns: for what one can have at a time and nobody can be
//! sure to get.

use super::line::Line;
use crate::sync::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The bell. Rung while nobody listens, it rings at once for the next who does.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    line: Line<oneshot::Sender<()>>,
    next_number: u64,
    is_rung: bool,
}

impl Bell {
    /// Rings for the next who listens.
    pub fn ring(&self) {
        let mut state = self.lock();
        while let Some(listener) = state.line.pop() {
            if listener.send(()).is_ok() {
                return;
            }
        }
        state.is_rung = true;
    }

    /// Begins to listen, behind those who already do.
    pub fn listen(self: &Arc<Self>, agent: &Arc<str>) -> Listener {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        if std::mem::take(&mut state.is_rung) {
            let _ = sender.send(());
        } else {
            state.line.push(agent, number, sender);
        }
        drop(state);
        Listener { bell: Arc::clone(self), agent: Arc::clone(agent), number, receiver, has_heard: false }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// One that listens. Dropped before it has heard, it leaves; if the bell rang for it just then, it rings for the next.
pub struct Listener {
    bell: Arc<Bell>,
    agent: Arc<str>,
    number: u64,
    receiver: oneshot::Receiver<()>,
    has_heard: bool,
}

impl Listener {
    /// Waits until it rings. May be dropped and called again.
    pub async fn heard(&mut self) {
        if !self.has_heard {
            let _ = (&mut self.receiver).await;
            self.has_heard = true;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let left = self.bell.lock().line.remove(&self.agent, self.number).is_some();
        if !left && !self.has_heard && self.receiver.try_recv().is_ok() {
            self.bell.ring();
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

    /// Whether it has rung.
    fn hears(listener: &mut Listener) -> bool {
        let mut heard = std::pin::pin!(listener.heard());
        heard.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn it_rings_for_agents_by_turns() {
        let bell = Arc::new(Bell::default());
        let [mut a1, mut a2, mut b] = ["a", "a", "b"].map(|name| bell.listen(&agent(name)));
        bell.ring();
        assert_eq!([hears(&mut a1), hears(&mut a2), hears(&mut b)], [true, false, false]);
        bell.ring();
        assert_eq!([hears(&mut a2), hears(&mut b)], [false, true]);
        bell.ring();
        assert!(hears(&mut a2));
    }

    #[test]
    fn a_ring_that_nobody_heard_is_kept_once() {
        let bell = Arc::new(Bell::default());
        bell.ring();
        bell.ring();
        assert!(hears(&mut bell.listen(&agent("a"))));
        assert!(!hears(&mut bell.listen(&agent("a"))));
    }

    #[test]
    fn who_leaves_takes_no_ring_along() {
        let bell = Arc::new(Bell::default());
        let (first, second) = (bell.listen(&agent("a")), bell.listen(&agent("b")));
        let mut third = bell.listen(&agent("c"));
        drop(first);
        bell.ring();
        drop(second);
        assert!(hears(&mut third), "the ring for the one that left goes on to the next");
        drop(third);
        assert!(!hears(&mut bell.listen(&agent("d"))), "what was heard is used up");
    }
}
