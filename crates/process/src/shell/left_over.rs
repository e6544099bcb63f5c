//! What a shell's commands have started, ended while the shell stays.

use super::LiveShell;
use rustix::process::Signal;

/// Kills everything that this shell has started: what runs, and what earlier commands have left running.
pub fn kill_started(shell: &LiveShell) {
    drop(shell.cage.signal_others(Signal::KILL, &[]));
}
