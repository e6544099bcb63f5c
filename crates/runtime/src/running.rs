//! Drives one command from its first byte to its end: output, input, signals, and the timeout with its grace.

use crate::admission::Ticket;
use crate::alarm::Alarm;
use crate::cell::{RunCell, RunControl, Typist};
use crate::conclude::{Ended, StopReason, Stopped};
use crate::flood::Flood;
use crate::hang_up::{HangUp, hung_up};
use crate::ops::{OnTimeout, Stream, TerminalSize};
use crate::pool::PooledShell;
use crate::tasks;
use rustix::process::Signal;
use shellkeep_process::cage::gone;
use shellkeep_process::stdio::Writer;
use shellkeep_process::{Ask, LimitsMet, Progress};
use std::io;
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
/// The end-of-file character of a terminal, which cannot be half closed.
const END_OF_INPUT: u8 = 4;
/// Steps in a row that only brought output. They empty a pipe more than once, so the command goes on writing; then it is
/// the turn of everything else: its timeout, signals, and what the session is asked.
const OUTPUTS_IN_A_ROW: u32 = 8;
/// Input that may wait for a command that does not read.
const INPUT_QUEUE: usize = 64;

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
    input: Option<mpsc::Sender<Vec<u8>>>,
    /// Its terminal, to look whether it echoes. A pipe is not held here: it ends when its last holder drops it.
    terminal: Option<Arc<Writer>>,
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
    /// Its right to run. A command in the background has none: it no longer belongs to the session.
    ticket: Option<Ticket>,
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
        let input = input.map(Arc::new);
        let terminal = input.as_ref().filter(|_| cell.is_terminal()).map(Arc::clone);
        let input = input.map(spawn_writer);
        Self {
            pooled,
            cell,
            controls,
            input,
            terminal,
            alarm,
            on_timeout,
            hang_up: None,
            stopping: None,
            met: LimitsMet::default(),
            outputs: 0,
            flood: Flood::default(),
            ended: None,
            ticket: None,
        }
    }

    /// Holds the ticket for as long as it runs.
    pub fn hold(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
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
            RunControl::Input { bytes, end, typist: Some(typist) } => {
                let hidden = self.terminal.as_ref().is_some_and(|terminal| !terminal.echoes());
                return RunEvent::Typed(Box::new(Typed { bytes, end, hidden, typist }));
            }
            RunControl::Input { bytes, end, typist: None } => self.hand_over(bytes, end),
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
        self.hand_over(typed.bytes, typed.end);
        // The caller may be gone.
        let _ = typed.typist.answer.send(());
    }

    fn hand_over(&mut self, mut bytes: Vec<u8>, end: bool) {
        if end && self.cell.is_terminal() {
            bytes.push(END_OF_INPUT);
        }
        if let Some(input) = &self.input {
            // A command that does not read its input must not stop us.
            let _ = input.try_send(bytes);
        }
        if end && !self.cell.is_terminal() {
            self.input = None;
        }
    }

    /// Writes what the terminal answers to the program.
    fn answer_queries(&mut self) {
        let answers = self.cell.screen.as_ref().map(|screen| screen.take_answers()).unwrap_or_default();
        if !answers.is_empty() {
            self.hand_over(answers, false);
        }
    }

    fn resize(&mut self, size: TerminalSize) {
        let (Some(terminal), Some(screen)) = (&self.terminal, &self.cell.screen) else { return };
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
}

/// Writing to a command that does not read may block forever, so it has its own task. It ends with the pipe.
fn spawn_writer(writer: Arc<Writer>) -> mpsc::Sender<Vec<u8>> {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(INPUT_QUEUE);
    tasks::spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    sender
}
