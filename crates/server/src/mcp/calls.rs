//! Running calls, so that a client can cancel them. The SDK's own token says that a call is over, but not why: a
//! cancelled command is interrupted, while the command of a client that disconnected continues.

use crate::sync::lock;
use rmcp::model::RequestId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// How many cancellations to remember that arrive before their call, which the SDK runs in another task. Those that
/// arrive after it are remembered too and never used, so there is a limit.
const EARLY: usize = 64;

/// Running calls.
#[derive(Default)]
pub struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    running: HashMap<RequestId, Arc<Notify>>,
    early: VecDeque<RequestId>,
}

/// A call; it is over when this is dropped.
pub struct Call<'a> {
    calls: &'a Calls,
    id: RequestId,
    cancelled: Arc<Notify>,
}

impl Calls {
    /// A call starts.
    pub fn begin(&self, id: RequestId) -> Call<'_> {
        let cancelled = Arc::new(Notify::new());
        let mut state = self.state();
        if let Some(at) = state.early.iter().position(|early| *early == id) {
            state.early.remove(at);
            cancelled.notify_one();
        }
        state.running.insert(id.clone(), Arc::clone(&cancelled));
        Call { calls: self, id, cancelled }
    }

    /// The client cancelled a call.
    pub fn cancel(&self, id: RequestId) {
        let mut state = self.state();
        if let Some(cancelled) = state.running.get(&id) {
            // `Notify` stores one permit, so it does not matter whether the call already waits.
            cancelled.notify_one();
        } else {
            if state.early.len() == EARLY {
                state.early.pop_front();
            }
            state.early.push_back(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl Call<'_> {
    /// Returns when the client cancelled the call.
    pub async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.state().running.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancellation_finds_its_call_before_and_after_it_began() {
        let calls = Calls::default();
        calls.cancel(RequestId::Number(1));
        calls.begin(RequestId::Number(1)).cancelled().await;
        let call = calls.begin(RequestId::Number(2));
        calls.cancel(RequestId::Number(2));
        call.cancelled().await;
        drop(call);
        assert!(calls.state().running.is_empty() && calls.state().early.is_empty());
    }

    #[test]
    fn cancellations_of_nothing_are_forgotten() {
        let calls = Calls::default();
        (0..1000).for_each(|id| calls.cancel(RequestId::Number(id)));
        assert_eq!(calls.state().early.len(), EARLY);
    }
}
