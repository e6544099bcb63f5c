//! Shells that were started in advance, and for which sandboxes.

use super::places::PooledShell;
use crate::sync::lock;
use shellkeep_session::Sandbox;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How long spares are kept ready for a sandbox that no session asks for. Each is a process.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Shells that were started in advance.
#[derive(Debug)]
pub(super) struct Spares(Mutex<State>);

#[derive(Debug)]
struct State {
    ready: Vec<PooledShell>,
    wanted: Wanted,
}

/// The sandboxes that sessions have had lately, for which spares are prepared, and when each was asked for last.
#[derive(Debug)]
struct Wanted(Vec<(Sandbox, Instant)>);

impl Wanted {
    /// A session has this one. Those that none has had for long are forgotten.
    fn note(&mut self, sandbox: Sandbox, now: Instant) {
        self.0.retain(|(other, asked)| *other != sandbox && now.duration_since(*asked) < FORGOTTEN_AFTER);
        self.0.push((sandbox, now));
    }

    fn contains(&self, sandbox: Sandbox) -> bool {
        self.0.iter().any(|(wanted, _)| *wanted == sandbox)
    }
}

impl Spares {
    /// None yet, but wanted for this sandbox.
    pub(super) fn new(first: Sandbox) -> Self {
        Self(Mutex::new(State { ready: Vec::new(), wanted: Wanted(vec![(first, Instant::now())]) }))
    }

    pub(super) fn count(&self) -> usize {
        self.state().ready.len()
    }

    pub(super) fn put(&self, spare: PooledShell) {
        self.state().ready.push(spare);
    }

    /// One for a session with this sandbox; if none is prepared for it, one that is not prepared. `mounts` tells from which
    /// mounts of the machine a room has to be made, and is asked when no other room can come in before one is taken.
    pub(super) fn take(&self, sandbox: Sandbox, mounts: impl FnOnce() -> Option<u64>) -> Option<PooledShell> {
        // Dropped after the lock: killing a shell takes a while.
        let mut dropped = Vec::new();
        let mut state = self.state();
        if sandbox == Sandbox::Room {
            dropped = state.outdated(mounts());
        }
        let taken = state.take(sandbox).or_else(|| state.take(Sandbox::None));
        let State { ready, wanted } = &mut *state;
        wanted.note(sandbox, Instant::now());
        dropped.extend(ready.extract_if(.., |spare| !wanted.contains(spare.sandbox())));
        taken
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

    /// A sandbox for which there are fewer than `count`; first the one that was asked for last.
    pub(super) fn missing(&self, count: usize) -> Option<Sandbox> {
        let state = self.state();
        let ready = |sandbox| state.ready.iter().filter(|spare| spare.sandbox() == sandbox).count();
        state.wanted.0.iter().rev().map(|(sandbox, _)| *sandbox).find(|sandbox| ready(*sandbox) < count)
    }

    /// Prepares no more for this sandbox, until a session has it again.
    pub(super) fn forget(&self, sandbox: Sandbox) {
        self.state().wanted.0.retain(|(wanted, _)| *wanted != sandbox);
    }

    /// Drops rooms that were made from other mounts of the machine than there are now; all, if that is not known.
    pub(super) fn drop_outdated(&self, mounts: Option<u64>) {
        let outdated = self.state().outdated(mounts);
        drop(outdated);
    }

    /// Drops some of them. Returns how many.
    pub(super) fn drop_some(&self, count: usize) -> usize {
        let mut state = self.state();
        let kept = state.ready.len().saturating_sub(count);
        let dropped = state.ready.split_off(kept);
        drop(state);
        dropped.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    /// Takes out rooms that were made from other mounts of the machine than these; all, if those are not known.
    fn outdated(&mut self, mounts: Option<u64>) -> Vec<PooledShell> {
        let is_outdated = |spare: &mut PooledShell| spare.room.as_ref().is_some_and(|room| Some(room.mounts) != mounts);
        self.ready.extract_if(.., is_outdated).collect()
    }

    /// One that is prepared for this sandbox, and alive.
    fn take(&mut self, sandbox: Sandbox) -> Option<PooledShell> {
        loop {
            let place = self.ready.iter().rposition(|spare| spare.sandbox() == sandbox)?;
            let spare = self.ready.swap_remove(place);
            // One that was killed may not have been noticed yet.
            if spare.shell.is_alive() {
                return Some(spare);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_no_session_has_had_for_long_is_forgotten() {
        let start = Instant::now();
        let mut wanted = Wanted(vec![(Sandbox::None, start)]);
        wanted.note(Sandbox::Room, start + FORGOTTEN_AFTER / 2);
        assert!(wanted.contains(Sandbox::None) && wanted.contains(Sandbox::Room));
        wanted.note(Sandbox::Fence, start + FORGOTTEN_AFTER);
        assert!(!wanted.contains(Sandbox::None) && wanted.contains(Sandbox::Room) && wanted.contains(Sandbox::Fence));
        // Each is there once, however often it is asked for.
        for _ in 0..3 {
            wanted.note(Sandbox::Room, start + FORGOTTEN_AFTER);
        }
        wanted.note(Sandbox::None, start + FORGOTTEN_AFTER * 2 - Duration::from_secs(1));
        assert_eq!(
            wanted.0.iter().map(|(sandbox, _)| *sandbox).collect::<Vec<_>>(),
            [Sandbox::Fence, Sandbox::Room, Sandbox::None]
        );
    }
}
