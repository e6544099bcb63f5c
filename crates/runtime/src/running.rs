//! Drives one command from its first byte to its end: output, input, signals, and the timeout with its grace.

use crate::admission::Ticket;
use crate::alarm::Alarm;
use crate::cell::{RunCell, RunControl, Taken, Typist};
use crate::conclude::{Ended, StopReason, Stopped};
use crate::flood::Flood;
use crate::hang_up::{HangUp, hung_up};
use crate::input::{Input, Piece};
use crate::ops::{OnTimeout, Stream, TerminalSize};
use crate::pool::PooledShell;
use crate::shares::Share;
use rustix::process::Signal;
use shellkeep_process::cage::gone;
use shellkeep_process::stdio::Writer;
use shellkeep_process::{Ask, LimitsMet, Progress};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// At its timeout, or when the daemon stops, a command has this long to exit after SIGTERM. Its caller has waited long enough.
const TERM_GRACE: Duration = Duration::from_millis(350);
/// After a signal that a caller sent, it has this long: it may have something to save or to release.
const SIGNAL_GRACE: Duration = Duration::from_secs(5);
/// After the children were killed, the shell has this long to come back.
const SHELL_GRACE: Duration = Duration::from_millis(200);
/// A killed process exits within moments; one that hangs in the kernel is abandoned.
const KILL_GRACE: Duration = Duration::from_millis(200);
/// Steps in a row that only brought output. They empty a pipe more than once, so the command goes on writing; then it is
/// the turn of everything else: its timeout, signals, and what the session is asked.
const OUTPUTS_IN_A_ROW: u32 = 8;

/// The output of a command that was not started. If the session is another node's by now, the caller is told that instead.
const TOO_LATE: &str = "shellkeep: the command was not started: this node was paused until its lease on the session expired; \
                        run the command again\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Polite,
    ChildrenKilled,
    ShellKilled,
}

/// A command that is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stopping {
    reason: StopReason,
    stage: Stage,
}

/// The result of one step.
#[derive(Debug)]
pub enum RunEvent {
    /// It is still running.
    Continue,
    /// It reached its timeout and moves to the background.
    Detach,
    /// Input arrived. It must be recorded before [`Running::type_in`] passes it to the command.
    Typed(Box<Typed>),
    /// It ended.
    Ended(Ended),
}

/// What a caller types into a command.
#[derive(Debug)]
pub struct Typed {
    pub bytes: Vec<u8>,
    /// Whether that is the end of the input.
    pub end: bool,
    /// Whether the terminal's echo was off when it arrived.
    pub hidden: bool,
    /// Who types.
    pub typist: Typist,
}

/// A command in its shell.
pub struct Running {
    pub pooled: PooledShell,
    /// What watchers see.
    pub cell: Arc<RunCell>,
    controls: mpsc::Receiver<RunControl>,
    input: Input,
    alarm: Alarm,
    on_timeout: OnTimeout,
    /// Ends it when its caller disconnects.
    hang_up: Option<HangUp>,
    stopping: Option<Stopping>,
    met: LimitsMet,
    /// Steps in a row that only brought output.
    outputs: u32,
    /// Its output, while it is much.
    flood: Flood,
    /// How it ended, while what it left running is being killed.
    ended: Option<Ended>,
    /// Whether what it left running was sent SIGTERM, because it ignores the signal that ended the command.
    has_asked_deaf: bool,
    /// Its right to run. A command in the background has none: it no longer belongs to the session.
    ticket: Option<Ticket>,
    /// Counts its text and its input as its sender's memory, if they are large. Seldom, hence the box.
    share: Option<Box<Share>>,
}

impl Running {
    /// A command that has just begun.
    pub fn new(
        pooled: PooledShell,
        cell: Arc<RunCell>,
        controls: mpsc::Receiver<RunControl>,
        input: Option<Writer>,
        alarm: Alarm,
        on_timeout: OnTimeout,
    ) -> Self {
        let input = Input::new(input, cell.is_terminal());
        Self {
            pooled,
            cell,
            controls,
            input,
            alarm,
            on_timeout,
            hang_up: None,
            stopping: None,
            met: LimitsMet::default(),
            outputs: 0,
            flood: Flood::default(),
            ended: None,
            has_asked_deaf: false,
            ticket: None,
            share: None,
        }
    }

    /// Holds the ticket for as long as it runs.
    pub fn hold(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }

    /// Holds what counts its text and input as memory for as long as it runs.
    pub fn hold_share(&mut self, share: Option<Share>) {
        self.share = share.map(Box::new);
    }

    /// Ends it when its caller disconnects.
    pub fn end_at(&mut self, hang_up: Option<HangUp>) {
        self.hang_up = hang_up;
    }

    /// Its ticket: it has ended, but not everything for which it needs one is done.
    pub fn take_ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// Returns the shell and the alarm.
    pub fn into_parts(self) -> (PooledShell, Alarm) {
        (self.pooled, self.alarm)
    }

    /// Whether and why it was stopped.
    pub fn stopped(&self) -> Option<Stopped> {
        let Stopping { reason, stage } = self.stopping?;
        let polite = match reason {
            StopReason::TimedOut | StopReason::TooManyProcesses | StopReason::DaemonStops => Signal::TERM.as_raw(),
            StopReason::Signalled(number) => number,
        };
        Some(Stopped { reason, signal: if stage == Stage::Polite { polite } else { Signal::KILL.as_raw() } })
    }

    /// The limits that its processes met.
    pub fn limits_met(&self) -> LimitsMet {
        self.met
    }

    /// Stops it at its timeout instead of moving it to the background.
    pub fn stop_at_timeout(&mut self) {
        self.on_timeout = OnTimeout::Interrupt;
        self.stop(StopReason::TimedOut);
    }

    /// Lets it continue without a timeout.
    pub fn detach(&mut self) {
        self.on_timeout = OnTimeout::Interrupt;
        self.ticket = None;
        self.hang_up = None;
        self.alarm.set(crate::ops::MAX_TIMEOUT);
    }

    /// Drives it one step further. Cancel-safe, if [`Running::write_out`] follows the last step.
    pub async fn step(&mut self) -> RunEvent {
        if self.ended.is_some() {
            return self.wait_for_leftovers().await;
        }
        let cell = &self.cell;
        let (taken, writing) = self.flood.parts();
        let (has_room, is_writing) = (taken.has_room(), taken.is_holding() || writing.has_begun());
        let mut sink = |stream: Stream, bytes: &[u8]| taken.take(cell, stream, bytes);
        let is_others_turn = self.outputs >= OUTPUTS_IN_A_ROW;
        if is_others_turn {
            self.outputs = 0;
        }
        let shell = &mut self.pooled.shell;
        let progress = async {
            if is_others_turn {
                // The first ends the task's turn on the runtime, in which reading may have used up what a turn may do, so
                // that nothing else would be found ready. The second leaves the next one to the others.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            }
            shell.progress(&mut sink).await
        };
        let mut has_more = false;
        let event = tokio::select! {
            biased;
            progress = progress, if has_room => {
                has_more = matches!(progress, Ok(Progress::Output));
                self.on_progress(progress)
            }
            Some(control) = self.controls.recv() => self.on_control(control),
            () = self.alarm.rings() => self.on_deadline(),
            () = hung_up(&mut self.hang_up) => {
                self.hang_up = None;
                self.stop(StopReason::Signalled(Signal::TERM.as_raw()));
                RunEvent::Continue
            }
            // Nothing else happens at once, or there is no room, so what is held is written next.
            () = writing.written(), if is_writing => RunEvent::Continue,
        };
        self.flood.step_is_over(&self.cell, has_more);
        event
    }

    /// Waits until all output that was read is written. Cancel-safe.
    pub async fn write_out(&mut self) {
        self.flood.write_out(&self.cell).await;
    }

    fn on_progress(&mut self, progress: io::Result<Progress>) -> RunEvent {
        match progress {
            Ok(Progress::Output) => {
                self.outputs += 1;
                self.answer_queries();
                RunEvent::Continue
            }
            Ok(Progress::BadCwd(reason)) => {
                let line = format!("shellkeep: cannot enter the working directory of this command: {reason}\n");
                self.cell.append(Stream::Stderr, line.as_bytes());
                RunEvent::Ended(Ended::NotStarted)
            }
            Ok(Progress::Refused(reason)) => {
                let line = format!("shellkeep: the command was not started: {reason}\n");
                self.cell.append(Stream::Stderr, line.as_bytes());
                RunEvent::Ended(Ended::NotStarted)
            }
            Ok(Progress::TooLate) => {
                self.cell.append(Stream::Stderr, TOO_LATE.as_bytes());
                RunEvent::Ended(Ended::NotStarted)
            }
            Ok(Progress::Reported(report)) => self.on_ended(Ended::Reported(report)),
            Ok(Progress::ShellGone { exit, late }) => self.on_ended(Ended::ShellGone { exit, late }),
            Err(error) => {
                // The driver's report is invalid; the previous state is still good.
                tracing::error!(%error, "the driver's report is invalid");
                self.pooled.shell.kill_all();
                RunEvent::Ended(Ended::shell_killed())
            }
        }
    }

    /// The command ended. One that was stopped, or reached the process limit, leaves nothing running.
    fn on_ended(&mut self, ended: Ended) -> RunEvent {
        if ended.may_have_forked() {
            self.met = self.pooled.shell.descendants.limits_met();
        }
        if self.stopping.is_none() && !self.met.processes {
            return RunEvent::Ended(ended);
        }
        if self.stopping.is_none() {
            self.pooled.signal_run(Signal::KILL);
            self.next_stage(StopReason::TooManyProcesses, Stage::ChildrenKilled, KILL_GRACE);
        }
        self.ended = Some(ended);
        RunEvent::Continue
    }

    fn on_control(&mut self, control: RunControl) -> RunEvent {
        match control {
            // Before it is recorded. Only this task adds to the input, so there is still room when it is passed on.
            RunControl::Input { typist: Some(typist), .. } if self.input.is_full() => {
                let _ = typist.answer.send(Taken::TooMuch);
            }
            RunControl::Input { bytes, end, typist: Some(typist) } => {
                let hidden = self.input.is_hidden();
                return RunEvent::Typed(Box::new(Typed { bytes, end, hidden, typist }));
            }
            RunControl::Input { bytes, end, typist: None } => self.input.give(Piece { bytes, share: None }, end),
            RunControl::Signal { number } => self.on_signal(number),
            RunControl::Resize { size } => self.resize(size),
            RunControl::Stop { grace } => self.stop_within(StopReason::Signalled(Signal::TERM.as_raw()), grace),
            RunControl::Kill => self.stop(StopReason::Signalled(Signal::KILL.as_raw())),
            RunControl::DaemonStops => self.stop(StopReason::DaemonStops),
        }
        RunEvent::Continue
    }

    /// Passes input to the command, after it was recorded.
    pub fn type_in(&mut self, typed: Typed) {
        let Typed { bytes, end, typist, .. } = typed;
        self.input.give(Piece { bytes, share: typist.share }, end);
        // The caller may be gone.
        let _ = typist.answer.send(Taken::All);
    }

    /// Writes what the terminal answers to the program.
    fn answer_queries(&mut self) {
        let answers = self.cell.screen.as_ref().map(|screen| screen.take_answers()).unwrap_or_default();
        if !answers.is_empty() {
            self.input.give(Piece { bytes: answers, share: None }, false);
        }
    }

    fn resize(&mut self, size: TerminalSize) {
        let (Some(terminal), Some(screen)) = (self.input.terminal(), &self.cell.screen) else { return };
        match terminal.resize(size) {
            Ok(()) => screen.resize(size),
            Err(error) => tracing::warn!(%error, "a terminal's size could not be changed"),
        }
    }

    fn on_signal(&mut self, number: i32) {
        let ends = [Signal::INT, Signal::TERM, Signal::KILL, Signal::HUP, Signal::QUIT];
        if ends.iter().any(|signal| signal.as_raw() == number) {
            return self.stop(StopReason::Signalled(number));
        }
        let Some(signal) = Signal::from_named_raw(number) else { return };
        self.pooled.shell.ask(Ask::Trap(signal));
        self.pooled.signal_run(signal);
    }

    fn on_deadline(&mut self) -> RunEvent {
        match self.stopping {
            None if self.on_timeout == OnTimeout::Background => return RunEvent::Detach,
            None => self.stop(StopReason::TimedOut),
            Some(Stopping { reason, stage: Stage::Polite }) => {
                // Interrupt the shell first: its child must not exit before the shell knows that nothing may follow.
                self.pooled.shell.ask(Ask::Interrupt);
                self.pooled.shell.signal_shell(Signal::CONT);
                self.pooled.signal_run(Signal::KILL);
                self.next_stage(reason, Stage::ChildrenKilled, SHELL_GRACE);
            }
            Some(Stopping { reason, stage: Stage::ChildrenKilled }) => {
                self.pooled.shell.signal_shell(Signal::KILL);
                self.pooled.signal_run(Signal::KILL);
                self.next_stage(reason, Stage::ShellKilled, KILL_GRACE);
            }
            Some(Stopping { stage: Stage::ShellKilled, .. }) => return RunEvent::Ended(Ended::shell_killed()),
        }
        RunEvent::Continue
    }

    /// Stops the command but not the session.
    fn stop(&mut self, reason: StopReason) {
        let grace = match reason {
            StopReason::TimedOut | StopReason::TooManyProcesses | StopReason::DaemonStops => TERM_GRACE,
            StopReason::Signalled(number) if number == Signal::KILL.as_raw() => SHELL_GRACE,
            StopReason::Signalled(_) => SIGNAL_GRACE,
        };
        self.stop_within(reason, grace);
    }

    /// Signals its children, and interrupts the shell. What is left after `grace` is killed.
    fn stop_within(&mut self, reason: StopReason, grace: Duration) {
        let number = match reason {
            StopReason::TimedOut | StopReason::TooManyProcesses | StopReason::DaemonStops => Signal::TERM.as_raw(),
            StopReason::Signalled(number) => number,
        };
        let Some(signal) = Signal::from_named_raw(number) else { return };
        self.pooled.shell.ask(match reason {
            // A trap for the signal runs. The command is interrupted only if that does not end it.
            StopReason::Signalled(_) => Ask::Signal(signal),
            StopReason::TimedOut | StopReason::TooManyProcesses | StopReason::DaemonStops => Ask::Interrupt,
        });
        self.pooled.signal_run(signal);
        let stage = if number == Signal::KILL.as_raw() { Stage::ChildrenKilled } else { Stage::Polite };
        match self.stopping {
            // A later signal can only escalate or shorten the grace period, never restart it.
            Some(Stopping { stage: Stage::Polite, .. }) if stage == Stage::Polite => self.alarm.set_earlier(grace),
            Some(Stopping { reason, stage: Stage::Polite }) => self.next_stage(reason, stage, grace),
            Some(_) => {}
            None => self.next_stage(reason, stage, grace),
        }
    }

    fn next_stage(&mut self, reason: StopReason, stage: Stage, grace: Duration) {
        self.stopping = Some(Stopping { reason, stage });
        self.alarm.set(grace);
    }

    /// The shell is back, but a command that was stopped must leave nothing running.
    async fn wait_for_leftovers(&mut self) -> RunEvent {
        let left = self.pooled.shell.descendants.watch_run();
        let out_of_patience = matches!(self.stopping, Some(Stopping { stage: Stage::ShellKilled, .. }));
        if left.is_empty() || out_of_patience {
            return self.ended.take().map_or(RunEvent::Continue, RunEvent::Ended);
        }
        self.ask_deaf(&left);
        tokio::select! {
            Some(control) = self.controls.recv() => return self.on_control(control),
            () = gone(left) => {}
            () = self.alarm.rings() => {
                self.pooled.signal_run(Signal::KILL);
                let (reason, next) = match self.stopping {
                    None => (StopReason::TimedOut, Stage::ChildrenKilled),
                    Some(Stopping { reason, stage: Stage::Polite }) => (reason, Stage::ChildrenKilled),
                    Some(Stopping { reason, .. }) => (reason, Stage::ShellKilled),
                };
                self.next_stage(reason, next, KILL_GRACE);
            }
        }
        RunEvent::Continue
    }

    /// Bash starts what runs in the background with INT and QUIT ignored, so that would be waited for until it is killed, for
    /// nothing. It gets SIGTERM once. Who does not ignore the signal may still be cleaning up, and keeps its time.
    fn ask_deaf(&mut self, left: &[OwnedFd]) {
        let Some(Stopping { reason: StopReason::Signalled(number), stage: Stage::Polite }) = self.stopping else {
            return;
        };
        let may_be_deaf = [Signal::INT, Signal::QUIT].iter().any(|signal| signal.as_raw() == number);
        if may_be_deaf && !self.has_asked_deaf && left.iter().all(|process| ignores(process, number)) {
            self.has_asked_deaf = true;
            self.pooled.signal_run(Signal::TERM);
            self.alarm.set_earlier(TERM_GRACE);
        }
    }
}

/// Whether the process of this handle ignores a signal. One that has ended waits for nothing either.
fn ignores(process: &OwnedFd, number: i32) -> bool {
    let field = |path: String, name: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let pid = field(format!("/proc/self/fdinfo/{}", process.as_raw_fd()), "Pid:");
    // There it is -1 once the process was reaped, and no such directory exists.
    let ignored = pid.and_then(|pid| field(format!("/proc/{pid}/status"), "SigIgn:"));
    let Some(ignored) = ignored.and_then(|mask| u64::from_str_radix(&mask, 16).ok()) else { return true };
    (ignored >> (number - 1)) & 1 == 1
}
