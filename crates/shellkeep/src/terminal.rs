//! Output for a person at a terminal or for a program on a pipe: colours and tables for the one, plain lines for the
//! other.

mod progress;

use crate::failure::Failure;
use clap::Args;
use indicatif::ProgressBar;
pub use progress::Progress;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use shellkeep_session::Timestamp;
use shellkeep_terminal::words;
pub use shellkeep_terminal::words::{deceives, harmless};
pub use shellkeep_terminal::{Cell, Colour, Column, Fields, Table};
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

/// Below this width the terminal wraps a table better than we do.
const NARROWEST: u16 = 40;
/// How messages of shellkeep itself begin.
pub const MARK: &str = "shellkeep: ";
/// After this long, progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of commands that print tables.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct TableArgs {
    /// Show all columns with full values, however long
    #[arg(long, global = true)]
    pub wide: bool,
}

/// The first error of stdout, other than a closed pipe. It is told at the end, so that not every line can fail.
static STDOUT_ERROR: OnceLock<io::Error> = OnceLock::new();

fn keep_error(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        STDOUT_ERROR.get_or_init(|| error);
    }
}

/// Why not everything that was printed is where stdout goes, if so. For the end of a command.
pub fn stdout_error() -> Option<String> {
    keep_error(io::stdout().flush());
    STDOUT_ERROR.get().map(unwritten)
}

fn unwritten(error: &io::Error) -> String {
    format!("cannot write the output: {error}")
}

/// Prints a line on stdout. A closed pipe is not an error.
pub fn line(text: impl AsRef<str>) {
    keep_error(writeln!(io::stdout(), "{}", text.as_ref()));
}

/// Prints sentences on stdout: for a person, broken between words. What follows the label, so many columns to the right,
/// goes on below its beginning.
pub fn sentence(label: &str, indent: usize, text: &str) {
    let broken = width().map(|width| words::hanging(text, indent, width));
    line(format!("{label}{}", broken.as_deref().unwrap_or(text)));
}

/// Prints a message of shellkeep itself on stderr, marked so that it differs from what commands print there.
pub fn notice(message: &str) {
    let mut stderr = io::stderr().lock();
    let text = format!("{MARK}{message}");
    let text = columns(&stderr).map_or_else(|| text.clone(), |width| words::wrapped(&text, width));
    let _ = if has_error_colours() { writeln!(stderr, "\x1b[2;33m{text}\x1b[0m") } else { writeln!(stderr, "{text}") };
}

/// Prints a message that is for a person only. Where stderr is a pipe or a file, a program reads there what its command
/// wrote, and nothing else.
pub fn hint(message: &str) {
    if io::stderr().is_terminal() {
        notice(message);
    }
}

/// Prints raw bytes on stdout. False if the pipe is closed.
pub fn bytes(bytes: &[u8]) -> Result<bool, Failure> {
    write(&mut io::stdout().lock(), bytes)
}

/// Prints raw bytes on one of our streams. False if the pipe is closed.
pub fn write(stream: &mut impl io::Write, bytes: &[u8]) -> Result<bool, Failure> {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::client(unwritten(&error))),
    }
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether a person can be asked: both stdin and stderr are terminals.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes-or-no question; anything but a clear yes is a no.
pub fn confirmed(question: &str) -> Result<bool, Failure> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(Failure::client)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::client)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Whether what is printed on stdout may have colours: on a terminal, unless `NO_COLOR` is set and not empty.
pub fn has_colours() -> bool {
    io::stdout().is_terminal() && wants_colours()
}

/// The same for stderr.
pub fn has_error_colours() -> bool {
    io::stderr().is_terminal() && wants_colours()
}

fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints JSON: indented for a person, on one line for a program.
pub fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text =
        if io::stdout().is_terminal() { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    line(text.map_err(Failure::client)?);
    Ok(())
}

/// Prints rows that fit the terminal for a person, and tab-separated lines without a header for a program.
pub fn table<const N: usize, T: Into<Column>, C: Into<Cell>>(columns: [T; N], rows: Vec<[C; N]>) {
    let rows = rows.into_iter().map(|row| row.map(Into::into)).collect();
    show(&Table::new(columns.map(Into::into), rows), TableArgs::default(), "");
}

/// Prints a table that fits the terminal, unless all of it is requested; for a program, tab-separated lines without a
/// header. Without rows, a person gets `when_empty`.
pub fn show(table: &Table, args: TableArgs, when_empty: &str) {
    if !is_terminal() {
        return text(&table.tabbed());
    }
    if table.is_empty() && !when_empty.is_empty() {
        return notice(when_empty);
    }
    if args.wide {
        return text(&table.wide(has_colours()));
    }
    text(&table.aligned(width(), has_colours()));
}

/// Prints a list of fields: aligned for a person, tab-separated for a program.
pub fn fields(fields: &Fields) {
    if is_terminal() {
        text(&fields.aligned(width(), has_colours()));
    } else {
        text(&fields.tabbed());
    }
}

/// Prints text that includes its line breaks. A closed pipe is not an error.
pub fn text(text: &str) {
    keep_error(io::stdout().write_all(text.as_bytes()));
}

/// The same on stderr.
pub fn error_text(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A path; for a person, with the home directory as `~`.
pub fn path(path: &str) -> Cell {
    let home = std::env::var("HOME").ok();
    Cell::short(path, words::path(path, home.as_deref()))
}

/// A time from the API, for a person looking at one item.
pub fn moment(at: &str) -> String {
    words::moment(Timestamp::now(), at)
}

/// The width of the terminal, if it is known and not too narrow for a table.
pub fn width() -> Option<usize> {
    columns(io::stdout())
}

/// The same for stderr.
pub fn error_width() -> Option<usize> {
    columns(io::stderr())
}

fn columns(terminal: impl AsFd) -> Option<usize> {
    let columns = tcgetwinsize(terminal).ok()?.ws_col;
    (columns >= NARROWEST).then_some(columns.into())
}

/// A word in a colour, on a terminal only.
pub fn coloured(word: &str, colour: Colour) -> String {
    if !has_colours() {
        return word.to_owned();
    }
    colour.paint(word)
}

/// Waits, and after a moment shows progress to a person.
pub async fn patiently<T>(message: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, work.as_mut()).await {
        return done;
    }
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let spinner = ProgressBar::new_spinner().with_message(message.to_owned());
    spinner.enable_steady_tick(TICK);
    let done = work.await;
    spinner.finish_and_clear();
    done
}
