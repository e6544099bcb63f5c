//! Reading a line: editing keys, the commands of before with the up arrow, and a paste of several lines as one.

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use shellkeep_terminal::Signals;
use std::io;

/// What a person entered.
pub enum Entered {
    Line(String),
    /// Ctrl-C: the line is dropped.
    Interrupted,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
    /// We got this signal.
    Signalled(u8),
}

/// Reads lines.
pub struct Editor {
    lines: rustyline::Editor<(), DefaultHistory>,
}

impl Editor {
    /// An editor that knows these lines, oldest first.
    pub fn new(earlier: Vec<String>) -> io::Result<Self> {
        let mut lines = rustyline::Editor::new().map_err(io::Error::other)?;
        for line in earlier {
            lines.add_history_entry(line).map_err(io::Error::other)?;
        }
        Ok(Self { lines })
    }

    /// Remembers a line that was entered elsewhere, for the up arrow.
    pub fn remember(&mut self, line: &str) {
        // A full history is no reason to lose a line.
        let _ = self.lines.add_history_entry(line);
    }

    /// Reads a line that begins with `begun`, on a thread that may wait, and gives the editor back.
    pub async fn read(mut self, prompt: String, begun: String) -> io::Result<(Self, Entered)> {
        let mut signals = Signals::listen()?;
        let reading = tokio::task::spawn_blocking(move || {
            let read = self.lines.readline_with_initial(&prompt, (&begun, ""));
            if let Ok(line) = &read {
                self.remember(line);
            }
            (self, read)
        });
        let (editor, read) = tokio::select! {
            read = reading => read.map_err(io::Error::other)?,
            number = signals.next() => {
                // The thread still waits for keys, so there is nothing to read with after this.
                return Ok((Self { lines: rustyline::Editor::new().map_err(io::Error::other)? }, Entered::Signalled(number)));
            }
        };
        let entered = match read {
            Ok(line) => Entered::Line(line),
            Err(ReadlineError::Interrupted) => Entered::Interrupted,
            Err(ReadlineError::Eof) => Entered::End,
            Err(error) => return Err(io::Error::other(error)),
        };
        Ok((editor, entered))
    }
}
