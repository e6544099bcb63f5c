//! Driving one command from its first byte to its end: output, input, signals, and the timeout with its grace.

use crate::admission::Ticket;
use crate::alarm::Alarm;
use crate::cell::{RunCell, RunControl, Typist};
use crate::ops::{OnTimeout, Stream};
use crate::pool::Worn;
use rustix::process::Signal;
use shellkeep_process::cage::gone;
use shellkeep_process::stdio::Writer;
use shellkeep_process::{Done, ExitStatus, Progress};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// After a polite signal, a command has this long to end by itself.
const TERM_GRACE: Duration = Duration::from_millis(350);
/// After the children were killed, the shell has this long to come back.
const SHELL_GRACE: Duration = Duration::from_millis(200);
/// A killed process is gone within moments; one that hangs in the kernel is not waited for any longer.
const KILL_GRACE: Duration = Duration::from_millis(200);
/// What ends the input of a terminal, which cannot be closed for one side only.
const END_OF_INPUT: u8 = 4;
/// Input that may wait for a command that does not read.
const INPUT_QUEUE: usize = 64;

/// Why a run is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its time is over.
    TimedOut,
    /// Somebody sent this signal.
    Signalled(i32),
    /// It ended by itself, but started more processes than may be; they do not outlive it.
    TooManyProcesses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Polite,
    ChildrenKilled,
    ShellKilled,
}

/// What driving a run one step further gave.
#[derive(Debug)]
pub enum Step {
    /// It goes on.
    Continue,
    /// Its time is over and it is to run on in the background.
    Detach,
    /// Somebody types. It must be recorded before [`Running::type_in`] hands it to the command.
    Typed(Box<Typed>),
    /// It is over.
    Done(Box<Done>),
    /// It never started: the directory for this call cannot be entered.
    BadCwd(String),
}

/// What somebody types into a command.
#[derive(Debug)]
pub struct Typed {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether that is the end of the input.
    pub end: bool,
    /// Whether the terminal did not echo when it came.
    pub hidden: bool,
    /// Who types.
    pub typist: Typist,
}

/// A command in its shell.
pub struct Running {
    /// The shell.
    pub worn: Worn,
    /// What watchers see.
    pub cell: Arc<RunCell>,
    controls: mpsc::Receiver<RunControl>,
    input: Option<mpsc::Sender<Vec<u8>>>,
    /// Its terminal, to look whether it echoes. A pipe is not held here: it ends when its last holder drops it.
    terminal: Option<Arc<Writer>>,
    alarm: Alarm,
    on_timeout: OnTimeout,
    ending: Option<(Ending, Stage)>,
    met_limit: bool,
    done: Option<Box<Done>>,
    /// Its right to run. One in the background has none: it is not the session's any more.
    ticket: Option<Ticket>,
}

impl Running {
    /// A command that has just begun.
    pub fn new(
        worn: Worn,
        cell: Arc<RunCell>,
        controls: mpsc::Receiver<RunControl>,
        input: Option<Writer>,
        alarm: Alarm,
        on_timeout: OnTimeout,
    ) -> Self {
        let input = input.map(Arc::new);
        let terminal = input.as_ref().filter(|_| cell.is_terminal).map(Arc::clone);
        let input = input.map(spawn_writer);
        Self {
            worn,
            cell,
            controls,
            input,
            terminal,
            alarm,
            on_timeout,
            ending: None,
            met_limit: false,
            done: None,
            ticket: None,
        }
    }

    /// Holds the ticket for as long as it runs.
    pub fn hold(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }

    /// Gives back the shell, the alarm and the ticket.
    pub fn into_parts(self) -> (Worn, Alarm, Option<Ticket>) {
        (self.worn, self.alarm, self.ticket)
    }

    /// Why it was ended, if it was, and the signal that did it.
    pub fn ending(&self) -> Option<(Ending, i32)> {
        let (ending, stage) = self.ending?;
        let polite = match ending {
            Ending::TimedOut | Ending::TooManyProcesses => Signal::TERM.as_raw(),
            Ending::Signalled(number) => number,
        };
        Some((ending, if stage == Stage::Polite { polite } else { Signal::KILL.as_raw() }))
    }

    /// Whether it could not start all the processes it wanted.
    pub fn met_process_limit(&self) -> bool {
        self.met_limit
    }

    /// Ends it at its timeout, though it was to run on.
    pub fn end_at_timeout(&mut self) {
        self.on_timeout = OnTimeout::Interrupt;
        self.end(Ending::TimedOut);
    }

    /// Lets it run on without a timeout.
    pub fn detach(&mut self) {
        self.on_timeout = OnTimeout::Interrupt;
        self.ticket = None;
        self.alarm.set(crate::ops::MAX_TIMEOUT);
    }

    /// Drives it one step further. May be dropped and called again at any time.
    pub async fn step(&mut self) -> Step {
        if self.done.is_some() {
            return self.wait_for_leftovers().await;
        }
        let cell = Arc::clone(&self.cell);
        let mut sink = |stream: shellkeep_process::Stream, bytes: &[u8]| {
            let stream = match stream {
                shellkeep_process::Stream::Stdout => Stream::Stdout,
                shellkeep_process::Stream::Stderr => Stream::Stderr,
            };
            cell.append(stream, bytes);
        };
        tokio::select! {
            biased;
            progress = self.worn.shell.progress(&mut sink) => self.on_progress(progress),
            Some(control) = self.controls.recv() => self.on_control(control),
            () = self.alarm.rings() => self.on_deadline(),
        }
    }

    fn on_progress(&mut self, progress: io::Result<Progress>) -> Step {
        match progress {
            Ok(Progress::Output) => Step::Continue,
            Ok(Progress::BadCwd(reason)) => Step::BadCwd(reason),
            Ok(Progress::Done(done)) => {
                self.met_limit = done.forked && self.worn.shell.hit_process_limit();
                if self.ending.is_none() && !self.met_limit {
                    return Step::Done(done);
                }
                if self.ending.is_none() {
                    self.worn.shell.signal_run(Signal::KILL);
                    self.next_stage(Ending::TooManyProcesses, Stage::ChildrenKilled, KILL_GRACE);
                }
                self.done = Some(done);
                Step::Continue
            }
            Err(error) => {
                // The driver and we no longer understand each other; the state from before is still good.
                tracing::error!(%error, "the driver's answer cannot be used");
                Step::Done(Box::new(killed()))
            }
        }
    }

    fn on_control(&mut self, control: RunControl) -> Step {
        match control {
            RunControl::Input { bytes, end, typist: Some(typist) } => {
                let hidden = self.terminal.as_ref().is_some_and(|terminal| !terminal.echoes());
                return Step::Typed(Box::new(Typed { bytes, end, hidden, typist }));
            }
            RunControl::Input { bytes, end, typist: None } => self.hand_over(bytes, end),
            RunControl::Signal { number } => self.on_signal(number),
            RunControl::Kill => self.end(Ending::Signalled(Signal::KILL.as_raw())),
        }
        Step::Continue
    }

    /// Hands to the command what was typed, after it was recorded.
    pub fn type_in(&mut self, typed: Typed) {
        self.hand_over(typed.bytes, typed.end);
        // Who no longer waits needs no answer.
        let _ = typed.typist.answer.send(());
    }

    fn hand_over(&mut self, mut bytes: Vec<u8>, end: bool) {
        if end && self.cell.is_terminal {
            bytes.push(END_OF_INPUT);
        }
        if let Some(input) = &self.input {
            // A command that does not read its input must not stop us.
            let _ = input.try_send(bytes);
        }
        if end && !self.cell.is_terminal {
            self.input = None;
        }
    }

    fn on_signal(&mut self, number: i32) {
        let ends = [Signal::INT, Signal::TERM, Signal::KILL, Signal::HUP, Signal::QUIT];
        if ends.iter().any(|signal| signal.as_raw() == number) {
            return self.end(Ending::Signalled(number));
        }
        let Some(signal) = Signal::from_named_raw(number) else { return };
        self.worn.shell.trap(signal);
        self.worn.shell.signal_run(signal);
    }

    fn on_deadline(&mut self) -> Step {
        match self.ending {
            None if self.on_timeout == OnTimeout::Background => return Step::Detach,
            None => self.end(Ending::TimedOut),
            Some((ending, Stage::Polite)) => {
                // The shell is told first: what it waits for must not end before it knows that nothing may follow.
                self.worn.shell.interrupt();
                self.worn.shell.signal_shell(Signal::CONT);
                self.worn.shell.signal_run(Signal::KILL);
                self.next_stage(ending, Stage::ChildrenKilled, SHELL_GRACE);
            }
            Some((ending, Stage::ChildrenKilled)) => {
                self.worn.shell.signal_shell(Signal::KILL);
                self.worn.shell.signal_run(Signal::KILL);
                self.next_stage(ending, Stage::ShellKilled, KILL_GRACE);
            }
            Some((_, Stage::ShellKilled)) => return Step::Done(Box::new(killed())),
        }
        Step::Continue
    }

    /// Ends the command and not the session: its children by signal, the shell by asking it to come back.
    fn end(&mut self, ending: Ending) {
        let (number, grace) = match ending {
            Ending::TimedOut | Ending::TooManyProcesses => (Signal::TERM.as_raw(), TERM_GRACE),
            Ending::Signalled(number) if number == Signal::KILL.as_raw() => (number, SHELL_GRACE),
            Ending::Signalled(number) => (number, TERM_GRACE),
        };
        let Some(signal) = Signal::from_named_raw(number) else { return };
        match ending {
            // A command with a trap for it deals with it; only if it does not end by that is it interrupted.
            Ending::Signalled(_) => self.worn.shell.interrupt_by(signal),
            Ending::TimedOut | Ending::TooManyProcesses => self.worn.shell.interrupt(),
        }
        self.worn.shell.signal_run(signal);
        let stage = if number == Signal::KILL.as_raw() { Stage::ChildrenKilled } else { Stage::Polite };
        // A later signal can only make things harder, never start the grace again.
        match self.ending {
            Some((first, at)) if at != Stage::Polite || stage == Stage::Polite => self.ending = Some((first, at)),
            Some((first, _)) => self.next_stage(first, stage, grace),
            None => self.next_stage(ending, stage, grace),
        }
    }

    fn next_stage(&mut self, ending: Ending, stage: Stage, grace: Duration) {
        self.ending = Some((ending, stage));
        self.alarm.set(grace);
    }

    /// The shell is back, but an ended command must leave nothing running.
    async fn wait_for_leftovers(&mut self) -> Step {
        let left = self.worn.shell.watch_run();
        let out_of_patience = matches!(self.ending, Some((_, Stage::ShellKilled)));
        if left.is_empty() || out_of_patience {
            return self.done.take().map_or(Step::Continue, Step::Done);
        }
        tokio::select! {
            () = gone(left) => {}
            () = self.alarm.rings() => {
                let (ending, stage) = self.ending.unwrap_or((Ending::TimedOut, Stage::Polite));
                self.worn.shell.signal_run(Signal::KILL);
                let next = if stage == Stage::Polite { Stage::ChildrenKilled } else { Stage::ShellKilled };
                self.next_stage(ending, next, KILL_GRACE);
            }
        }
        Step::Continue
    }
}

fn killed() -> Done {
    Done {
        status: ExitStatus::Signalled(Signal::KILL.as_raw()).code(),
        exit: Some(ExitStatus::Signalled(Signal::KILL.as_raw())),
        facts: None,
        interrupted: false,
        redirected: Vec::new(),
        noexec: false,
        forked: true,
        late: Vec::new(),
    }
}

/// Writing to a command that does not read may take for ever, so it has a task of its own. It ends with the pipe.
fn spawn_writer(writer: Arc<Writer>) -> mpsc::Sender<Vec<u8>> {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(INPUT_QUEUE);
    tokio::spawn(async move {
        while let Some(bytes) = receiver.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    sender
}
