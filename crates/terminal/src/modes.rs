//! The modes of our terminal: raw while a program elsewhere gets every key, and as they were in the end.

use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;

/// The terminal's modes as they were. Dropping this restores them.
pub struct Modes {
    before: Termios,
}

/// The terminal in raw mode. Dropping this restores it.
pub struct Raw<'a>(&'a Modes);

impl Modes {
    /// Remembers the modes of the terminal at stdin.
    pub fn keep() -> io::Result<Self> {
        Ok(Self { before: tcgetattr(io::stdin())? })
    }

    /// Lets every key through as bytes, also those that interrupt.
    pub fn raw(&self) -> io::Result<Raw<'_>> {
        let mut raw = self.before.clone();
        raw.make_raw();
        // What is typed ahead is for the next program and stays.
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(Raw(self))
    }

    fn restore(&self) {
        // If the terminal is gone, nobody can be told.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        self.restore();
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        self.0.restore();
    }
}

/// Rows and columns of the terminal at stdout, if it says.
pub fn size() -> Option<(u16, u16)> {
    let Winsize { ws_row, ws_col, .. } = tcgetwinsize(io::stdout()).ok()?;
    (ws_row > 0 && ws_col > 0).then_some((ws_row, ws_col))
}
