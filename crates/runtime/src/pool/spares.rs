//! Shells that were started in advance, and for which sandboxes.

use super::places::PooledShell;
use crate::sync::lock;
use shellkeep_session::Sandbox;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};

/// Shells that were started in advance.
#[derive(Debug)]
pub(super) struct Spares(Mutex<State>);

#[derive(Debug)]
struct State {
    ready: Vec<PooledShell>,
    /// The sandboxes that sessions have had since the start, for which spares are prepared.
    wanted: Vec<Sandbox>,
}

impl Spares {
    /// None yet, but wanted for this sandbox.
    pub(super) fn new(first: Sandbox) -> Self {
        Self(Mutex::new(State { ready: Vec::new(), wanted: vec![first] }))
    }

    pub(super) fn count(&self) -> usize {
        self.state().ready.len()
    }

    pub(super) fn put(&self, spare: PooledShell) {
        self.state().ready.push(spare);
    }

    /// One for a session with this sandbox; if none is prepared for it, one that is not prepared.
    pub(super) fn take(&self, sandbox: Sandbox) -> Option<PooledShell> {
        let mut state = self.state();
        if !state.wanted.contains(&sandbox) {
            state.wanted.push(sandbox);
        }
        state.take(sandbox).or_else(|| state.take(Sandbox::None))
    }

    /// One that is not prepared, if there are some. They do not become wanted by that.
    pub(super) fn take_unprepared(&self) -> Option<PooledShell> {
        self.state().take(Sandbox::None)
    }

    /// Ready once some have ended, which are dropped then.
    pub(super) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let before = state.ready.len();
        state.ready.retain_mut(|spare| pin!(spare.shell.ended()).poll(cx).is_pending());
        if state.ready.len() < before { Poll::Ready(()) } else { Poll::Pending }
    }

    /// A sandbox for which there are fewer than `count`.
    pub(super) fn missing(&self, count: usize) -> Option<Sandbox> {
        let state = self.state();
        let ready = |sandbox| state.ready.iter().filter(|spare| spare.sandbox == sandbox).count();
        state.wanted.iter().copied().find(|sandbox| ready(*sandbox) < count)
    }

    /// Prepares no more for this sandbox, until a session has it again.
    pub(super) fn forget(&self, sandbox: Sandbox) {
        self.state().wanted.retain(|wanted| *wanted != sandbox);
    }

    /// Drops rooms that were made from other mounts of the machine than there are now; all, if that is not known.
    pub(super) fn drop_outdated(&self, mounts: Option<u64>) {
        self.state().ready.retain(|spare| spare.room.as_ref().is_none_or(|room| Some(room.mounts) == mounts));
    }

    /// Drops some of them. Returns how many.
    pub(super) fn drop_some(&self, count: usize) -> usize {
        let mut state = self.state();
        let kept = state.ready.len().saturating_sub(count);
        state.ready.drain(kept..).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    /// The newest one that is prepared for this sandbox, and alive.
    fn take(&mut self, sandbox: Sandbox) -> Option<PooledShell> {
        loop {
            let place = self.ready.iter().rposition(|spare| spare.sandbox == sandbox)?;
            let spare = self.ready.swap_remove(place);
            // One that was killed may not have been noticed yet.
            if spare.shell.is_alive() {
                return Some(spare);
            }
        }
    }
}
