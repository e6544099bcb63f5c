//! What differs between a person at a terminal and a program at a pipe: colours and tables for the one, plain lines for
//! the other.

use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{IsTerminal as _, Write as _};

/// Columns below which a table is better broken by the terminal than by us.
const NARROWEST: u16 = 40;

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
pub fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) {
    let rows = rows.into_iter().map(|row| row.map(|cell| harmless(&cell)));
    if !std::io::stdout().is_terminal() {
        for row in rows {
            line(row.join("\t"));
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
        table.add_row(row);
    }
    line(table.to_string());
}

/// Text of others without control characters: a directory's name must not drive our reader's terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A word in a colour, on a terminal only.
pub fn coloured(word: &str, colour: Colour) -> String {
    if !std::io::stdout().is_terminal() {
        return word.to_owned();
    }
    format!("\x1b[{}m{word}\x1b[0m", colour as u8)
}

/// The colours in use, by their terminal codes.
#[derive(Debug, Clone, Copy)]
pub enum Colour {
    /// Something required is not there.
    Red = 31,
    /// All is well.
    Green = 32,
    /// It works, but less well.
    Yellow = 33,
}
