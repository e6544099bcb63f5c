//! What the rest of the node knows about an actor without asking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What others may know about an actor without asking it.
#[derive(Debug, Default)]
pub struct Slot {
    /// The agent for whom its commands wait; see [`crate::admission::agent_of`].
    pub agent: Arc<str>,
    /// Process id of the shell, 0 without one.
    pub pid: AtomicU32,
    /// Whether a command runs or waits.
    pub busy: AtomicBool,
    /// Whether commands wait and none runs. Another agent's session may then take its shell.
    pub waits: AtomicBool,
    /// When it was last used, in milliseconds of the engine's clock.
    pub last_used: AtomicU64,
    /// When its disk usage was last measured, in milliseconds of the engine's clock.
    pub measured_at: AtomicU64,
    /// Whether it was over its disk quota.
    pub over_disk: AtomicBool,
    /// Files of its agent's states from this version on are not removed: the current state, or the next one.
    pub agent_state: AtomicU64,
    /// Whether its task panicked.
    pub has_panicked: AtomicBool,
    /// Whether another node has its session: what its task does not answer any more is to be asked there.
    pub has_moved: AtomicBool,
}

/// The status of a session.
pub(super) struct Published {
    /// Process id of the shell, 0 without one.
    pub(super) pid: u32,
    /// Now, in milliseconds of the engine's clock.
    pub(super) now_ms: u64,
    /// The agent's current state, or the next one.
    pub(super) agent_state: u64,
    /// Whether a command runs.
    pub(super) is_running: bool,
    /// Whether commands wait.
    pub(super) waits: bool,
}

impl Slot {
    /// Another node has the session. Called before the task ends what runs: what comes meanwhile is never answered.
    pub(super) fn moves_away(&self) {
        self.has_moved.store(true, Ordering::Release);
    }

    /// Publishes the session's status. Returns whether its shell is available from now on.
    pub(super) fn publish(&self, now: &Published) -> bool {
        self.pid.store(now.pid, Ordering::Relaxed);
        self.last_used.store(now.now_ms, Ordering::Relaxed);
        self.agent_state.store(now.agent_state, Ordering::Relaxed);
        let (is_busy, only_waits) = (now.is_running || now.waits, !now.is_running && now.waits);
        let has_begun_to_wait = !self.waits.swap(only_waits, Ordering::Relaxed) && only_waits;
        let has_become_idle = self.busy.swap(is_busy, Ordering::Relaxed) && !is_busy;
        has_begun_to_wait || has_become_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_can_be_had_once_it_is_idle_or_its_commands_wait() {
        let slot = Slot::default();
        let publish =
            |is_running, waits| slot.publish(&Published { pid: 1, now_ms: 0, agent_state: 1, is_running, waits });
        let steps = [(true, false, false), (true, true, false), (false, true, true), (false, true, false)];
        for (is_running, waits, can_be_had) in steps.into_iter().chain([(true, false, false), (false, false, true)]) {
            assert_eq!(publish(is_running, waits), can_be_had, "running: {is_running}, waiting: {waits}");
        }
    }
}
