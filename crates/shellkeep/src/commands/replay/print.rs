//! Events as lines: for a program that reads them, or for a person in a hurry.

use super::source::Events;
use crate::failure::Failure;
use crate::terminal::{self, Colour};
use serde::Serialize;
use shellkeep_record::player::{Player, Summary};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

/// Prints events, all or the key ones.
pub fn print(player: &mut Player<Events>, fast: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = if fast {
        let told = player.fast();
        each(told, |summary| if json { object(&mut out, &summary) } else { row(&mut out, &summary) })
    } else {
        let rest = player.rest();
        each(rest, |line| if json { object(&mut out, &line) } else { row(&mut out, &Summary::of(&line)) })
    };
    match written.and_then(|()| out.flush().map_err(Stop::Unread)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // A reader that went away has what it wanted.
        Err(Stop::Unread(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(Stop::Unread(error)) => Err(Failure::client(error)),
        Err(Stop::Source(words)) => Err(Failure::client(words)),
    }
}

enum Stop {
    Unread(io::Error),
    Source(String),
}

fn each<T>(
    items: impl Iterator<Item = Result<T, String>>,
    mut write: impl FnMut(T) -> io::Result<()>,
) -> Result<(), Stop> {
    for item in items {
        write(item.map_err(Stop::Source)?).map_err(Stop::Unread)?;
    }
    Ok(())
}

fn object(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// One event to a line: columns for a person, tabs for a program.
pub fn row(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { seq, event_type, timestamp, text, .. } = summary;
    let mut how = summary.outcome.clone().unwrap_or_default();
    if let Some(seconds) = summary.seconds {
        let gap = if how.is_empty() { "" } else { ", " };
        how += &format!("{gap}{seconds:.2} s");
    }
    if !io::stdout().is_terminal() {
        return writeln!(out, "{seq}\t{timestamp}\t{event_type}\t{text}\t{how}");
    }
    let time = timestamp.strftime("%H:%M:%S");
    let how = match (how.is_empty(), summary.failed) {
        (true, _) => String::new(),
        (false, true) => terminal::coloured(&format!("  [{how}]"), Colour::Red),
        (false, false) => terminal::coloured(&format!("  [{how}]"), Colour::Green),
    };
    let kind = terminal::coloured(&format!("{event_type:<16}"), Colour::Yellow);
    writeln!(out, "{seq:>7}  {time}  {kind} {text}{how}")?;
    for notice in &summary.notices {
        writeln!(out, "{:>36} {notice}", "⚠")?;
    }
    Ok(())
}
