//! How a session's shell is stopped while nothing runs, and with it what commands have left running.

use super::Session;
use crate::actor::phase::Phase;
use crate::actor::remnants::Remnants;
use crate::actor::rest_reason::RestReason;
use shellkeep_session::Event;

impl Session {
    /// Ends every process; no command runs.
    pub(in crate::actor) fn rest(&mut self, why: RestReason) {
        let shell = self.phase.take_idle().map(|idle| idle.pooled);
        if shell.is_none() && self.remnants.is_empty() {
            return;
        }
        let notices = self.remnants.end_with(shell, &self.journal.state().unkept.variables, why).into_iter().collect();
        self.journal.record(Event::ShellStopped { reason: why.code().to_owned(), notices });
    }

    /// Drops the shell if no command runs; returns whether none does. A command that waits for its permit needs no
    /// shell before that.
    pub(in crate::actor) fn evict(&mut self, why: RestReason) -> bool {
        let is_idle = !self.phase.is_running();
        match why {
            RestReason::OverDisk => self.end_left_running(),
            _ if is_idle => self.rest(why),
            _ => {}
        }
        is_idle
    }

    /// Ends what commands have left running. A command that runs was told to end; its result says why. One that was not began
    /// only now, and what it starts is not ended. A shell that has left nothing stays.
    fn end_left_running(&mut self) {
        match &self.phase {
            Phase::Running(run) if run.running.stopped().is_some() => {
                run.running.pooled.kill_started();
                self.remnants = Remnants::default();
            }
            Phase::Resting { shell, .. } => {
                let is_quiet = shell.as_ref().is_none_or(|idle| idle.pooled.is_quiet());
                if !is_quiet || !self.remnants.is_empty() {
                    self.rest(RestReason::OverDisk);
                }
            }
            Phase::Running(_) | Phase::Gone => {}
        }
    }
}
