//! What the commands of a shell have started, and what of it is left over from earlier ones.

use crate::cage::{Cage, Met};
use crate::proc::{ProcessStamp, Stat};
use rustix::fd::OwnedFd;
use rustix::process::Signal;

/// Which limits were met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitsMet {
    /// Processes could not be started, or were killed, because there were too many.
    pub processes: bool,
    /// Processes were killed because the party of the shell used too much memory.
    pub memory: bool,
}

/// What the commands of a shell have started: everything else in its cage.
#[derive(Debug)]
pub struct Descendants {
    pub(super) cage: Cage,
    /// Those of earlier commands.
    survivors: Vec<ProcessStamp>,
    met: Met,
}

impl Descendants {
    /// Those of a shell in this cage.
    pub(super) fn of(cage: Cage) -> Self {
        // What its party met before is not about it.
        let met = cage.met_by_party();
        Self { cage, survivors: Vec::new(), met }
    }

    /// Those that are alive.
    pub fn alive(&self) -> Vec<Stat> {
        self.cage.others()
    }

    /// Remembers those that are alive now as left over from finished commands: they are not ended with a later one.
    /// Gives them.
    pub fn settle(&mut self) -> Vec<Stat> {
        let alive = self.alive();
        self.survivors = alive.iter().map(Stat::stamp).collect();
        alive
    }

    /// Sends a signal to those of the running command.
    pub fn signal_run(&self, signal: Signal) -> Vec<OwnedFd> {
        self.cage.signal_others(signal, &self.survivors)
    }

    /// Kills them all: those of the running command, and what earlier ones have left.
    pub fn kill(&self) {
        drop(self.cage.signal_others(Signal::KILL, &[]));
    }

    /// Handles on those of the running command; each becomes readable when its process ends.
    pub fn watch_run(&self) -> Vec<OwnedFd> {
        self.cage.watch_others(&self.survivors)
    }

    /// The limits that they have met since the last time this was asked.
    pub fn limits_met(&mut self) -> LimitsMet {
        let now = Met { limit_hits: self.cage.limit_hits(), memory_kills: self.cage.memory_kills() };
        let before = std::mem::replace(&mut self.met, now);
        LimitsMet { processes: now.limit_hits > before.limit_hits, memory: now.memory_kills > before.memory_kills }
    }
}
