//! What the rest of the node knows about an actor without asking it.

use super::journal::Journal;
use super::phase::Phase;
use crate::context::SessionContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What others may know about an actor without asking it.
#[derive(Debug, Default)]
pub struct Slot {
    /// In whose name its commands wait; see [`crate::admission::agent_of`].
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
    /// Whether it used more of the disk than it may.
    pub over_disk: AtomicBool,
    /// Files of its agent's states from this version on are not removed: the state in force, or the next one.
    pub agent_state: AtomicU64,
}

impl Slot {
    /// Publishes how the session is. `waits`: commands wait. A shell that can be had from now on is news for other sessions.
    pub(super) fn publish(&self, ctx: &SessionContext, phase: &Phase, journal: &Journal, waits: bool) {
        self.pid.store(phase.shell().map_or(0, |pooled| pooled.shell.pid()), Ordering::Relaxed);
        self.last_used.store(ctx.lifetime.now_ms(), Ordering::Relaxed);
        let state = journal.state();
        let in_force = state.agent_state.as_ref().map(|state| state.version);
        let in_force = in_force.unwrap_or_else(|| state.last_agent_version() + 1);
        self.agent_state.store(in_force, Ordering::Relaxed);
        let is_running = phase.is_running();
        let (is_busy, only_waits) = (is_running || waits, !is_running && waits);
        let may_be_had = !self.waits.swap(only_waits, Ordering::Relaxed) && only_waits;
        if (self.busy.swap(is_busy, Ordering::Relaxed) && !is_busy) || may_be_had {
            ctx.pool.one_is_idle();
        }
    }
}
