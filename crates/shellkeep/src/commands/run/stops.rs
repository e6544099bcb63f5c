//! The signals that end a command from here: Ctrl-C, what a supervisor sends, and the end of our terminal.

use crate::failure::Failure;
use std::future::pending;
use std::io;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A signal that we pass on to our command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Interrupt,
    Terminate,
    Hangup,
}

impl Stop {
    /// Its name, as requests have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
            Self::Hangup => "HUP",
        }
    }

    /// Our exit code if the command does not run, or is left alone: as a shell's after the signal.
    pub fn code(self) -> u8 {
        128 + match self {
            Self::Hangup => HANGUP,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

/// The number of SIGHUP.
const HANGUP: u8 = 1;

/// Listens for these signals.
pub struct Stops {
    interrupt: Signal,
    terminate: Signal,
    /// None if it is ignored.
    hangup: Option<Signal>,
}

impl Stops {
    /// Listens from now on.
    pub fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(Failure::client);
        // With `nohup`, a command goes on when the terminal is closed, and so does ours.
        let hangup = if is_ignored(HANGUP) { None } else { Some(on(SignalKind::hangup())?) };
        Ok(Self { interrupt: on(SignalKind::interrupt())?, terminate: on(SignalKind::terminate())?, hangup })
    }

    /// The next one. Cancel-safe.
    pub async fn next(&mut self) -> Stop {
        let Self { interrupt, terminate, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Stop::Interrupt,
            _ = terminate.recv() => Stop::Terminate,
            _ = hung_up => Stop::Hangup,
        }
    }

    /// Listens on a thread of its own from here on, because a write to a pipe that nobody reads blocks ours. The receiver gets
    /// the first signal, unless one came before; the next one ends this program. So does the first one once the receiver
    /// is dropped.
    pub fn guard(self, is_stopped: bool) -> Result<UnboundedReceiver<io::Result<Stop>>, Failure> {
        let (sender, first) = unbounded_channel();
        let listen = move || {
            let runtime = match runtime::Builder::new_current_thread().enable_io().build() {
                Ok(runtime) => runtime,
                // Nobody may be left to tell.
                Err(error) => return drop(sender.send(Err(error))),
            };
            runtime.block_on(self.count(&sender, is_stopped));
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(Failure::client)?;
        Ok(first)
    }

    async fn count(mut self, first: &UnboundedSender<io::Result<Stop>>, mut is_stopped: bool) {
        loop {
            let stop = self.next().await;
            if is_stopped || first.send(Ok(stop)).is_err() {
                std::process::exit(stop.code().into());
            }
            is_stopped = true;
        }
    }
}

/// Whether our parent has us ignore a signal.
fn is_ignored(number: u8) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (number - 1)) & 1 == 1)
}
