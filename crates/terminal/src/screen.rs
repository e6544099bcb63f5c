//! The terminal: in raw mode while we draw, and restored however we exit.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::Frame;
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, Stdout};
use std::sync::Once;
use tokio::sync::mpsc;

/// How many keys may be queued.
const KEYS_WAITING: usize = 64;

/// The terminal in raw mode. Dropping it restores it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Switches the terminal to raw mode.
    pub fn open() -> io::Result<Self> {
        give_back_on_panic();
        // Made before the terminal is changed, so that every way out of here gives it back.
        let screen = Self { terminal: fresh()? };
        enter()?;
        Ok(screen)
    }

    /// Draws. Only what has changed is written.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(|_| ())
    }

    /// Suspends until the shell continues us.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave()?;
        kill_process(getpid(), Signal::TSTP)?;
        enter()?;
        self.terminal = fresh()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, the error cannot be shown.
        let _ = leave();
    }
}

/// What is typed, and changes of size. It ends when the terminal does.
pub fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_WAITING);
    // Reading a terminal blocks; a thread of its own does not hold up the end of the program.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    receiver
}

/// A drawing surface that remembers nothing and so draws everything.
fn fresh() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))
}

fn leave() -> io::Result<()> {
    let raw = disable_raw_mode();
    execute!(io::stdout(), LeaveAlternateScreen, Show)?;
    raw
}

/// A panic's message must be readable, and the shell usable after it.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = leave();
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests;
