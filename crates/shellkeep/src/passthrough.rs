//! A run on our terminal: what is typed here goes to it, and what it draws is drawn here.

mod typing;

use crate::client::events::{Event, EventReader};
use crate::client::{ClientError, Endpoint};
use crate::failure::Failure;
use shellkeep_process::stdio::{Reader, own_terminal};
use shellkeep_protocol::{OutputEvent, RunResponse, StartedEvent, TerminalSize};
use shellkeep_runtime::screen::sequences::WithoutQueries;
use shellkeep_terminal::Signals;
use shellkeep_terminal::modes::{self, Modes};
use std::io::{self, Write as _};
use tokio::signal::unix::{SignalKind, signal};
use typing::Typing;

/// Ctrl-]: leaves the run alone, as in telnet.
const LEAVE: u8 = 0x1d;
/// Ctrl-Z: nobody could continue a stopped program, so it is not passed on.
const SUSPEND: u8 = 0x1a;
/// What a program may have left: colours, a hidden cursor.
const TIDY_UP: &[u8] = b"\x1b[0m\x1b[?25h";

/// A run that is shown here.
pub struct ShownRun<'a> {
    /// The daemon.
    pub endpoint: &'a Endpoint,
    pub session: &'a str,
    /// The terminal.
    pub modes: &'a Modes,
    pub role: Role,
}

/// What we may do.
pub enum Role {
    /// Keys and sizes go to the run, with our hold on the session.
    Drives { hold: Option<String> },
    /// Nothing goes to the run.
    Watches,
}

/// How showing a run ended.
pub enum End {
    /// The run ended.
    Result {
        result: Box<RunResponse>,
        /// What was typed and reached the run too late. What it did not read is in the result.
        unsent: Vec<u8>,
    },
    /// Its viewer left; the run continues.
    Left { run_id: String },
    /// The daemon is gone.
    Broken { run_id: Option<String> },
    /// We got this signal.
    Signalled(u8),
}

/// The size of our terminal, as the daemon takes it.
pub fn our_size() -> Option<TerminalSize> {
    let side = |side: u16| side.min(shellkeep_runtime::MAX_TERMINAL_SIDE);
    modes::size().map(|(rows, cols)| TerminalSize { rows: side(rows), cols: side(cols) })
}

impl ShownRun<'_> {
    /// Shows a run until it ends or its viewer leaves. The keys are opened before a run is started, because without
    /// them nobody could drive it.
    pub async fn drive(&self, keys: &Keys, mut events: EventReader) -> Result<End, Failure> {
        let raw = self.modes.raw().map_err(Failure::client)?;
        let mut sizes = signal(SignalKind::window_change()).map_err(Failure::client)?;
        let mut signals = Signals::listen().map_err(Failure::client)?;
        let mut picture = Picture::default();
        let (watches, hold) = match &self.role {
            Role::Drives { hold } => (false, hold.clone()),
            Role::Watches => (true, None),
        };
        let mut typing = Typing::new(self.endpoint.clone(), self.session, hold);
        let end = loop {
            tokio::select! {
                event = events.next() => match event {
                    Ok(Some(event)) => {
                        if let Some(result) = picture.handle(&event, &mut typing)? {
                            break End::Result { result, unsent: typing.end().await };
                        }
                    }
                    Ok(None) | Err(ClientError::Broken(_)) => break End::Broken { run_id: typing.run_id() },
                    Err(refused) => return Err(refused.into()),
                },
                typed = keys.typed() => {
                    if typed.leave() || (watches && typed.leave_watching()) {
                        break match typing.run_id() {
                            Some(run_id) => End::Left { run_id },
                            None => End::Broken { run_id: None },
                        };
                    }
                    if !watches {
                        typing.keys(typed.0.into_iter().filter(|key| *key != SUSPEND).collect());
                    }
                }
                _ = sizes.recv(), if !watches => typing.resize(our_size()),
                number = signals.next() => break End::Signalled(number),
            }
        };
        picture.finish();
        drop(raw);
        Ok(end)
    }
}

/// What is typed at our terminal.
pub struct Keys(Reader);

/// Keys that were typed; none if the terminal is gone.
pub struct Typed(Vec<u8>);

impl Keys {
    pub fn of_terminal() -> Result<Self, Failure> {
        let refused =
            |error| Failure::client(format!("there is no controlling terminal to read keys from (/dev/tty: {error})"));
        own_terminal().map(Self).map_err(refused)
    }

    /// Waits for keys. Cancel-safe.
    pub async fn typed(&self) -> Typed {
        let mut bytes = Vec::new();
        self.0.read(|read| bytes.extend_from_slice(read)).await;
        Typed(bytes)
    }
}

impl Typed {
    /// Whether they leave a run alone.
    fn leave(&self) -> bool {
        self.0.is_empty() || self.0.contains(&LEAVE)
    }

    /// Whether they leave a run that we only watch.
    pub fn leave_watching(&self) -> bool {
        const INTERRUPT: u8 = 0x03;
        const END_OF_INPUT: u8 = 0x04;
        self.leave() || self.0.iter().any(|key| [INTERRUPT, END_OF_INPUT, b'q'].contains(key))
    }
}

/// What is drawn here.
struct Picture {
    filter: WithoutQueries,
    /// Whether the cursor is at the beginning of a line.
    at_start: bool,
}

impl Default for Picture {
    fn default() -> Self {
        Self { filter: WithoutQueries::default(), at_start: true }
    }
}

impl Picture {
    /// Returns the result, once it is there.
    fn handle(&mut self, event: &Event, typing: &mut Typing) -> Result<Option<Box<RunResponse>>, Failure> {
        match event.name.as_str() {
            "started" => typing.begin(event.read::<StartedEvent>()?.run_id),
            "stdout" | "stderr" => {
                let bytes = event.read::<OutputEvent>()?.into_bytes().map_err(Failure::client)?;
                self.draw(&bytes);
            }
            "result" => return Ok(Some(Box::new(event.read()?))),
            // A newer daemon may send events that we do not know.
            _ => {}
        }
        Ok(None)
    }

    fn draw(&mut self, bytes: &[u8]) {
        let shown = self.filter.pass(bytes);
        if let Some(last) = shown.last() {
            self.at_start = matches!(last, b'\n' | b'\r');
        }
        write(&shown);
    }

    /// The next prompt begins on a line of its own.
    fn finish(&self) {
        write(TIDY_UP);
        if !self.at_start {
            write(b"\r\n");
        }
    }
}

/// A terminal that is gone is noticed when it is read.
pub fn write(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}
