//! What differs between a person at a terminal and a program at a pipe: colours and tables for the one, plain lines for
//! the other.

use crate::failure::Failure;
use comfy_table::{Color, ContentArrangement, Table, presets};
use indicatif::ProgressBar;
use serde::Serialize;
use std::future::Future;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Columns below which a table is better broken by the terminal than by us.
const NARROWEST: u16 = 40;
/// What takes longer deserves a sign of life.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(100);

/// A cell of a table; its colour shows on a terminal only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    /// A cell in a colour.
    pub fn coloured(text: impl Into<String>, colour: Option<Colour>) -> Self {
        Self { text: text.into(), colour }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, colour: None }
    }
}

/// Prints a line on stdout. A reader that went away is not our failure.
pub fn line(text: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout(), "{}", text.as_ref());
}

/// Says something about shellkeep itself on stderr, apart from what commands print there.
pub fn notice(message: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = if stderr.is_terminal() {
        writeln!(stderr, "\x1b[2;33mshellkeep: {message}\x1b[0m")
    } else {
        writeln!(stderr, "shellkeep: {message}")
    };
}

/// Prints bytes on stdout as they are. False if nobody reads them any more.
pub fn bytes(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::client(error)),
    }
}

/// Whether a person reads what is printed on stdout.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether a person can be asked: there is a terminal to write to and one to read from.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a person; everything but a clear yes is a no.
pub fn confirmed(question: &str) -> Result<bool, Failure> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(Failure::client)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::client)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Whether what is printed on stdout may have colours: on a terminal, unless `NO_COLOR` is set and not empty.
pub fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints JSON: indented for a person, on one line for a program.
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    line(text.map_err(Failure::client)?);
    Ok(())
}

/// Prints rows: a table for a person, tab-separated lines without a header for a program.
pub fn table<const N: usize, C: Into<Cell>>(header: [&str; N], rows: Vec<[C; N]>) {
    let rows = rows.into_iter().map(|row| {
        row.map(|cell| {
            let Cell { text, colour } = cell.into();
            Cell { text: harmless(&text), colour }
        })
    });
    if !std::io::stdout().is_terminal() {
        for row in rows {
            line(row.map(|cell| cell.text).join("\t"));
        }
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    // A terminal that does not say how wide it is must not squeeze every word into a column.
    if table.width().is_some_and(|width| width >= NARROWEST) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| {
            let shown = comfy_table::Cell::new(cell.text);
            match cell.colour {
                Some(colour) if has_colours() => shown.fg(colour.into()),
                _ => shown,
            }
        }));
    }
    line(table.to_string());
}

/// Text of others without what drives a terminal or deceives its reader: a directory's name must do neither.
pub fn harmless(text: &str) -> String {
    let shown = |c: char| if (c.is_control() && c != '\n') || deceives(c) { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// Whether a character is not seen itself and makes a text look like another: by turning its order round, or by standing
/// between two letters unseen. Those that join letters and signs are left alone; some scripts need them.
pub fn deceives(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A word in a colour, on a terminal only.
pub fn coloured(word: &str, colour: Colour) -> String {
    if !has_colours() {
        return word.to_owned();
    }
    format!("\x1b[{}m{word}\x1b[0m", colour as u8)
}

/// Waits, and after a moment shows a person that it does.
pub async fn patiently<T>(message: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, work.as_mut()).await {
        return done;
    }
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let spinner = ProgressBar::new_spinner().with_message(message.to_owned());
    spinner.enable_steady_tick(TICK);
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// The colours in use, by their terminal codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Something required is not there.
    Red = 31,
    /// All is well.
    Green = 32,
    /// It works, but less well.
    Yellow = 33,
    /// A place in something longer.
    Cyan = 36,
}

impl From<Colour> for Color {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Red => Self::DarkRed,
            Colour::Green => Self::DarkGreen,
            Colour::Yellow => Self::DarkYellow,
            Colour::Cyan => Self::DarkCyan,
        }
    }
}
